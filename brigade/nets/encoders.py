"""Encoders: from an observation to a feature vector."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": nn.relu, "tanh": nn.tanh}
HIDDEN_GAIN = 2.0**0.5


def dense(size: int, gain: float, name: str | None = None) -> nn.Dense:
    """A linear layer with orthogonal weights and zero bias."""
    return nn.Dense(size, kernel_init=nn.initializers.orthogonal(gain), name=name)


class Hidden(nn.Module):
    """Linear, optional layer norm, activation."""

    size: int
    activation: str = "relu"
    layer_norm: bool = True

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """[..., features] -> [..., size]."""
        x = dense(self.size, HIDDEN_GAIN)(x)
        if self.layer_norm:
            x = nn.LayerNorm()(x)
        return ACTIVATIONS[self.activation](x)


class MLP(nn.Module):
    """The observation flattened, then fully connected layers."""

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"
    layer_norm: bool = True

    @nn.compact
    def __call__(self, obs: Array, extra: Array) -> Array:
        """[..., *observation] and [..., extra] -> [..., features]."""
        batch = extra.shape[:-1]
        x = jnp.concatenate([obs.reshape(*batch, -1).astype(jnp.float32), extra], axis=-1)
        for size in self.hidden:
            x = Hidden(size, self.activation, self.layer_norm)(x)
        return x


class CNN(nn.Module):
    """Three convolutions of 32 channels, a projection to 64, then fully connected layers."""

    hidden: tuple[int, ...] = (128,)
    activation: str = "relu"
    layer_norm: bool = True

    @nn.compact
    def __call__(self, obs: Array, extra: Array) -> Array:
        """[..., height, width, channels] and [..., extra] -> [..., features]."""
        batch, activation = extra.shape[:-1], ACTIVATIONS[self.activation]
        init = nn.initializers.orthogonal(HIDDEN_GAIN)
        x = obs.reshape(-1, *obs.shape[-3:]).astype(jnp.float32)
        for kernel in (5, 3, 3):
            x = activation(nn.Conv(32, (kernel, kernel), kernel_init=init)(x))
        x = jnp.concatenate([x.reshape(*batch, -1), extra], axis=-1)
        for size in (64, *self.hidden):
            x = Hidden(size, self.activation, self.layer_norm)(x)
        return x


ENCODERS: dict[str, type[MLP] | type[CNN]] = {"mlp": MLP, "cnn": CNN}

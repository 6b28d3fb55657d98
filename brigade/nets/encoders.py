"""Encoders: from an observation to a feature vector."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array
from brigade.nets.inputs import ChangingInputs
from brigade.nets.norm import ACTIVATIONS, NormedActivation

HIDDEN_GAIN = 2.0**0.5
FAST_MULTIPLE, FAST_WIDTH = 64, 8  # what should divide the sizes of a matrix product


class Linear(nn.Module):
    """A linear layer with orthogonal weights and zero bias; the task may enter as a one-hot.

    The one-hot is not multiplied out: its rows of the kernel come last, and one of them is added.
    """

    size: int
    gain: float
    num_tasks: int = 0  # 0: the task does not enter
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array | ChangingInputs, task_id: Array) -> tuple[Array, Array]:
        """[..., features], task ids [...] or one for all -> the product [..., size] and the bias.

        The bias is not added yet: the norm that follows does so. It is [size], or [..., size]
        where every sample has its own task.
        """
        features = x.constant.size if isinstance(x, ChangingInputs) else x.shape[-1]
        kernel_shape = (features + self.num_tasks, self.size)
        kernel = self.param("kernel", nn.initializers.orthogonal(self.gain), kernel_shape)
        bias = self.param("bias", nn.initializers.zeros, (self.size,))
        if self.num_tasks:
            bias = bias + kernel[features + task_id]
            kernel = kernel[:features]
        if isinstance(x, ChangingInputs):
            bias = bias + x.constant @ kernel
            return times(x.values, kernel[x.columns], self.dtype), bias
        return times(x, kernel, self.dtype), bias


def times(x: Array, kernel: Array, dtype: Any) -> Array:
    """The product in `dtype`. For bfloat16, odd sizes are padded: matrix units want even ones."""
    x, kernel = x.astype(dtype), kernel.astype(dtype)
    if dtype != jnp.bfloat16:
        return x @ kernel
    inner, outer = -x.shape[-1] % FAST_MULTIPLE, -kernel.shape[-1] % FAST_WIDTH
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, inner)])
    product = x @ jnp.pad(kernel, [(0, inner), (0, outer)])
    return product[..., : kernel.shape[-1]]


class Hidden(nn.Module):
    """Linear, optional layer norm, activation."""

    size: int
    activation: str = "relu"
    layer_norm: bool = True
    num_tasks: int = 0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array | ChangingInputs, task_id: Array) -> Array:
        """[..., features] -> [..., size]."""
        y, bias = Linear(self.size, HIDDEN_GAIN, self.num_tasks, self.dtype)(x, task_id)
        if not self.layer_norm:
            return ACTIVATIONS[self.activation].of(y + bias.astype(self.dtype))
        if bias.ndim > 1:
            y, bias = y + bias.astype(self.dtype), jnp.zeros(self.size)
        normed: Array = NormedActivation(self.activation, name="LayerNorm_0")(y, bias)
        return normed


class MLP(nn.Module):
    """The observation flattened, then fully connected layers. `num_tasks` for a one-hot input."""

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"
    layer_norm: bool = True
    num_tasks: int = 0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, *observation] -> [*batch, features]."""
        x = obs if isinstance(obs, ChangingInputs) else obs.reshape(*batch, -1)
        for number, size in enumerate(self.hidden):
            tasks = self.num_tasks if number == 0 else 0
            x = Hidden(size, self.activation, self.layer_norm, tasks, self.dtype)(x, task_id)
        return x


class CNN(nn.Module):
    """Three convolutions of 32 channels, a projection to 64, then fully connected layers."""

    hidden: tuple[int, ...] = (128,)
    activation: str = "relu"
    layer_norm: bool = True
    num_tasks: int = 0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, obs: Array, task_id: Array, batch: tuple[int, ...]) -> Array:
        """[*batch, height, width, channels] -> [*batch, features]."""
        activation, init = ACTIVATIONS[self.activation].of, nn.initializers.orthogonal(HIDDEN_GAIN)
        x = obs.reshape(-1, *obs.shape[-3:]).astype(self.dtype)
        for kernel in (5, 3, 3):
            x = activation(nn.Conv(32, (kernel, kernel), kernel_init=init, dtype=self.dtype)(x))
        x = x.reshape(*batch, -1)
        for number, size in enumerate((64, *self.hidden)):
            tasks = self.num_tasks if number == 0 else 0
            x = Hidden(size, self.activation, self.layer_norm, tasks, self.dtype)(x, task_id)
        return x


ENCODERS: dict[str, type[MLP] | type[CNN]] = {"mlp": MLP, "cnn": CNN}

"""Networks for Q-learning: feed-forward layers, recurrent layers and a dueling head."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array, Key, ParameterGroups
from brigade.nets.actor_critic import hidden_layers
from brigade.nets.encoders import encoder_class
from brigade.nets.layers import exact_times
from brigade.nets.memory import Memory, carry_size

UNAVAILABLE = -1e9  # the value of actions that are not available
PREDICTIONS = "prediction_head"  # parameters that only an auxiliary loss needs

Carries: TypeAlias = tuple[Array, ...]  # recurrent states [..., carry_size], one per layer


class QOutputs(NamedTuple):
    """What the network tells about sequences."""

    values: Array  # [T, ..., actions]
    carry: Carries  # the last recurrent states
    predictions: Array | None  # logits [T, ..., predictions], for an auxiliary loss


class QNetwork(nn.Module):
    """Observations to values of actions.

    Parameters are named `trunk`, `core`, `upper_core_*`, `advantage_head`, `value_head` and
    `prediction_head`.
    """

    num_actions: int
    encoder: str = "mlp"  # see `encoder_class`
    hidden: tuple[int, ...] = (512,)
    activation: Literal["relu", "tanh"] = "relu"
    layer_norm: bool = False
    memory: Literal["none", "gru", "lstm"] = "lstm"
    memory_size: int = 512
    memory_layers: int = 1
    dueling: bool = True
    dropout: float = 0.0  # share of the feed-forward layers' outputs that is dropped in training
    predictions: int = 0  # outputs for an auxiliary loss
    dtype: Any = jnp.float32  # of the hidden layers; parameters and heads are always float32

    def setup(self) -> None:
        self.trunk = encoder_class(self.encoder)(
            self.hidden, self.activation, self.layer_norm, False, 0, self.dtype
        )
        if self.memory != "none":
            self.core = self._memory()
            self.upper_core = [self._memory() for _ in range(self.memory_layers - 1)]
        self.advantage_head = QHead(self.num_actions)
        if self.dueling:
            self.value_head = QHead(1)
        if self.predictions:
            self.prediction_head = QHead(self.predictions)

    def _memory(self) -> Memory:
        return Memory(self.memory, self.memory_size, self.dtype)

    def groups(self, params: Any) -> ParameterGroups:
        """The roles of the parameters; there is no critic beside the policy."""
        heads = tuple(name for name in params if name.endswith("_head"))
        return ParameterGroups(heads=heads, layers=tuple(hidden_layers(params)))

    def initial_carry(self, batch: tuple[int, ...]) -> Carries:
        """Zeros [*batch, ...] for every recurrent layer."""
        if self.memory == "none":
            return ()
        shape = (*batch, carry_size(self.memory, self.memory_size))
        return tuple(jnp.zeros(shape) for _ in range(self.memory_layers))

    def __call__(
        self, obs: Array, avail: Array, first: Array, carry: Carries, dropout: Key | None = None
    ) -> QOutputs:
        """Values of sequences; `dropout` is a key in training, None otherwise."""
        x = self.trunk(obs, jnp.int32(0), first.shape)
        if self.dropout and dropout is not None:
            kept = jax.random.bernoulli(dropout, 1.0 - self.dropout, x.shape)
            x = jnp.where(kept, x / (1.0 - self.dropout), 0).astype(x.dtype)
        after = []
        layers = [self.core, *self.upper_core] if self.memory != "none" else []
        for layer, before in zip(layers, carry, strict=True):
            x, last = layer(x, before, first)
            after.append(last)
        advantage = self.advantage_head(x)
        if self.dueling:
            legal = avail.astype(jnp.float32)
            mean = (advantage * legal).sum(-1, keepdims=True) / legal.sum(-1, keepdims=True)
            advantage = self.value_head(x) + advantage - mean
        predictions = self.prediction_head(x) if self.predictions else None
        return QOutputs(jnp.where(avail, advantage, UNAVAILABLE), tuple(after), predictions)


class QHead(nn.Module):
    """A linear output layer in float32."""

    size: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """[..., features] -> [..., size]."""
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (x.shape[-1], self.size))
        return exact_times(x, kernel) + self.param("bias", nn.initializers.zeros, (self.size,))


class GreedyValue:
    """The value of the greedy action as a normal variable with standard deviation 1.

    Methods that weigh parameters by how much they matter for what the policy does use it like a
    distribution of actions.
    """

    @staticmethod
    def sample(key: Key, values: Array) -> Array:
        """Noise for the greedy action [..., actions], 0 for the others."""
        greedy = jax.nn.one_hot(values.argmax(-1), values.shape[-1])
        return greedy * jax.random.normal(key, values.shape[:-1])[..., None]

    @staticmethod
    def log_prob(values: Array, sample: Array) -> Array:
        """Has the gradient of the log-density at a sample: that of the mean times the noise."""
        return jnp.sum(jnp.where(sample != 0, values, 0.0) * sample, axis=-1)

"""Networks for Q-learning: feed-forward layers, recurrent layers and a dueling head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array, Key, ParameterGroups, View
from brigade.nets.actor_critic import hidden_layers
from brigade.nets.encoders import ENCODERS, exact_times
from brigade.nets.memory import Memory, carry_size
from brigade.nets.plain import network_from, plain_settings

UNAVAILABLE = -1e9  # the value of actions that are not available
EXPLORATION_VALUES = 80  # different exploration rates, one environment after another

Carries: TypeAlias = tuple[Array, ...]  # recurrent states [..., carry_size], one per layer


class QNetwork(nn.Module):
    """Observations to values of actions.

    Parameters are named `trunk`, `core`, `upper_core_*`, `advantage_head` and `value_head`.
    """

    num_actions: int
    encoder: Literal["mlp", "cnn"] = "mlp"
    hidden: tuple[int, ...] = (512,)
    activation: Literal["relu", "tanh"] = "relu"
    layer_norm: bool = False
    memory: Literal["none", "gru", "lstm"] = "lstm"
    memory_size: int = 512
    memory_layers: int = 1
    dueling: bool = True
    dtype: Any = jnp.float32  # of the hidden layers; parameters and heads are always float32

    def setup(self) -> None:
        self.trunk = ENCODERS[self.encoder](
            self.hidden, self.activation, self.layer_norm, False, 0, self.dtype
        )
        if self.memory != "none":
            self.core = self._memory()
            self.upper_core = [self._memory() for _ in range(self.memory_layers - 1)]
        self.advantage_head = Linear(self.num_actions)
        if self.dueling:
            self.value_head = Linear(1)

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
        self, obs: Array, avail: Array, first: Array, carry: Carries
    ) -> tuple[Array, Carries]:
        """Values [T, ..., actions] of sequences, and the last recurrent states."""
        x = self.trunk(obs, jnp.int32(0), first.shape)
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
        return jnp.where(avail, advantage, UNAVAILABLE), tuple(after)


class Linear(nn.Module):
    """A linear layer in float32."""

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


@dataclass(frozen=True)
class QPolicy:
    """Greedy actions, or random ones with a probability that differs between environments."""

    network: QNetwork
    obs_shape: tuple[int, ...]
    exploration: float = 0.0  # the largest rate of random actions; 0: always greedy
    exploration_spread: float = 7.0  # the smallest rate is the largest to the power 1 + this

    distribution = GreedyValue
    kind: ClassVar[str] = "q_network"  # its registered name in policy files

    def init(self, key: Key) -> Any:
        """Initial parameters."""
        first = jnp.zeros((1, 1), bool)
        obs = jnp.zeros((1, 1, *self.obs_shape), jnp.uint8)
        avail = jnp.ones((1, 1, self.network.num_actions), bool)
        return self.network.init(key, obs, avail, first, self.initial_carry((1,)))["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> Carries:
        """Initial recurrent states."""
        return self.network.initial_carry(batch)

    def values(
        self, params: Any, obs: Array, avail: Array, first: Array, carry: Carries
    ) -> tuple[Array, Carries]:
        """Values [T, ..., actions] of sequences, and the last recurrent states."""
        out: Any = self.network.apply({"params": params}, obs, avail, first, carry)
        values, after = out
        return values, after

    def act(
        self, params: Any, carry: Carries, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Carries, dict[str, Any]]:
        """One action per seat, with the recurrent state before it."""
        values, after = self.values(
            params, view.obs[None], view.avail[None], view.first[None], carry
        )
        action = values[0].argmax(-1).astype(jnp.int32)
        if self.exploration and not greedy:
            explore_key, action_key = jax.random.split(key)
            logits = jnp.where(view.avail, 0.0, UNAVAILABLE)
            at_random = jax.random.categorical(action_key, logits).astype(jnp.int32)
            explores = jax.random.uniform(explore_key, action.shape) < self.rates(action.shape)
            action = jnp.where(explores, at_random, action)
        return action, after, {"carry": carry}

    def rates(self, shape: tuple[int, ...]) -> Array:
        """Exploration rates [environments, 1, ...]: many small ones, few large ones."""
        number = jnp.arange(shape[0]) % EXPLORATION_VALUES
        power = 1.0 + self.exploration_spread * number / (EXPLORATION_VALUES - 1)
        return (self.exploration**power).reshape(-1, *[1] * (len(shape) - 1))

    def settings(self) -> dict[str, Any]:
        """Plain values from which `make_q_policy` rebuilds the policy."""
        return {"network": plain_settings(self.network), "obs_shape": list(self.obs_shape)}

    def actor(self, params: Any, task: int | None) -> tuple[QPolicy, Any]:
        """The policy without exploration; it acts alike on all tasks."""
        return QPolicy(self.network, self.obs_shape), params


def make_q_policy(settings: Mapping[str, Any]) -> QPolicy:
    """The policy that its `settings` describe."""
    network = network_from(QNetwork, settings["network"])
    return QPolicy(network, tuple(int(n) for n in settings["obs_shape"]))

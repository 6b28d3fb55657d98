"""Partners that follow a script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Array, Environment, Key, Policy, View
from brigade.core.distributions import FORBIDDEN


@dataclass(frozen=True)
class Stay(Policy):
    """Never moves."""

    action: int | tuple[float, ...]  # the environment's for staying

    @classmethod
    def for_game(cls, env: Environment) -> Stay:
        """A partner with the stay action of this environment."""
        action = env.stay_action
        if action is None:
            raise ValueError("this environment has no stay action; choose another partner")
        return cls(action)

    def act(
        self, params: tuple[()], carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """The same action for every seat."""
        dtype = jnp.int32 if isinstance(self.action, int) else jnp.float32
        action = jnp.asarray(self.action, dtype)
        return jnp.broadcast_to(action, view.active.shape + action.shape), carry, {}


@dataclass(frozen=True)
class Random(Policy):
    """Samples from the available actions, or from [-1, 1], uniformly."""

    continuous: bool = False

    always_samples: ClassVar[bool] = True

    @classmethod
    def for_game(cls, env: Environment) -> Random:
        """A partner with discrete or continuous actions, as in this environment."""
        return cls(env.continuous)

    def act(
        self, params: tuple[()], carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """One action per seat."""
        if self.continuous:
            return jax.random.uniform(key, view.avail.shape, minval=-1.0), carry, {}
        logits = jnp.where(view.avail, 0.0, FORBIDDEN)
        return jax.random.categorical(key, logits).astype(jnp.int32), carry, {}

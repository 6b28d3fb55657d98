"""Partners that follow a script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Array, Environment, Key, View
from brigade.nets.distributions import FORBIDDEN


@dataclass(frozen=True)
class Scripted:
    """A policy without parameters or memory."""

    def init(self, key: Key) -> tuple[()]:
        """No parameters."""
        return ()

    def initial_carry(self, batch: tuple[int, ...]) -> tuple[()]:
        """No memory."""
        return ()


@dataclass(frozen=True)
class Stay(Scripted):
    """Never moves. `action` is what staying is in the game at hand; Overcooked's is 4."""

    action: int | tuple[float, ...] = 4

    @classmethod
    def for_game(cls, env: Environment) -> Stay:
        """With the action that stays in this game."""
        action = getattr(env, "stay_action", None)
        if action is None:
            raise ValueError("this game has no action that stays; choose another partner")
        return cls(action)

    def act(
        self, params: tuple[()], carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """The same action for everyone."""
        dtype = jnp.int32 if isinstance(self.action, int) else jnp.float32
        action = jnp.asarray(self.action, dtype)
        return jnp.broadcast_to(action, view.active.shape + action.shape), carry, {}


@dataclass(frozen=True)
class Random(Scripted):
    """Any allowed action, each as likely; of continuous ones, any number from -1 to 1."""

    continuous: bool = False

    always_samples: ClassVar[bool] = True

    @classmethod
    def for_game(cls, env: Environment) -> Random:
        """With actions of this game's kind."""
        return cls(getattr(env, "continuous", False))

    def act(
        self, params: tuple[()], carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """One action per seat."""
        if self.continuous:
            return jax.random.uniform(key, view.avail.shape, minval=-1.0), carry, {}
        logits = jnp.where(view.avail, 0.0, FORBIDDEN)
        return jax.random.categorical(key, logits).astype(jnp.int32), carry, {}

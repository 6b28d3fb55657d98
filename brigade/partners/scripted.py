"""Partners that follow a script."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, View
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
    """Never moves. `action` is the number of `stay` in the game at hand; Overcooked's is 4."""

    action: int = 4

    def act(
        self, params: tuple[()], carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """The same action for everyone."""
        return jnp.full(view.active.shape, self.action, jnp.int32), carry, {}


@dataclass(frozen=True)
class Random(Scripted):
    """Any allowed action, each as likely."""

    def act(
        self, params: tuple[()], carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """One action per seat."""
        logits = jnp.where(view.avail, 0.0, FORBIDDEN)
        return jax.random.categorical(key, logits).astype(jnp.int32), carry, {}

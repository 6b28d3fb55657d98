"""A partner in one file: a cook that acts like `human`, but only every few steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from brigade.core import Array, Key, Policy, View
from brigade.envs.overcooked.cooks import Cook, Errand, Habits
from brigade.envs.overcooked.things import STAY


class Memory(NamedTuple):
    """The state of the underlying cook, and the number of steps. Leaves [*batch]."""

    errand: Errand
    steps: Array


@dataclass(frozen=True)
class SlowCook(Policy):
    """Acts in every `pace`-th step and stays in the others."""

    pace: int = 3

    always_samples: ClassVar[bool] = True  # it has no greedy actions

    def init(self, key: Key) -> Habits:
        """The parameters: the habits of a cook that does everything."""
        return Habits.of()

    def initial_carry(self, batch: tuple[int, ...]) -> Memory:
        """The initial state for every seat."""
        return Memory(Cook().initial_carry(batch), jnp.zeros(batch, jnp.int32))

    def act(
        self, params: Habits, carry: Memory, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Memory, dict[str, Array]]:
        """One action per seat; the count restarts with the episode."""
        steps = jnp.where(view.first, 0, carry.steps)
        action, errand, _ = Cook().act(params, carry.errand, view, key)
        action = jnp.where(steps % self.pace == 0, action, STAY)
        return action, Memory(errand, steps + 1), {}

"""A generator in one file: a population in which every policy trains with every other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Key, Pairing, Seating
from brigade.populations import Generator


@dataclass(frozen=True)
class PopulationPlay(Generator):
    """Each table has a fixed policy on seat 0 and a random one, possibly the same, elsewhere."""

    def names(self) -> list[str]:
        return [f"pp-{number}" for number in range(1, self.members + 1)]

    def seat(self, state: Any, pairing: Pairing, tables: int, seats: int, key: Key) -> Seating:
        first = jnp.arange(tables, dtype=jnp.int32) % self.members
        # The same random shift at all tables, so that all policies have the same number of seats.
        shift = jax.random.randint(key, (), 0, self.members)
        other = (first + shift) % self.members
        member = jnp.where(jnp.arange(seats) == 0, first[:, None], other[:, None])
        return Seating(member, jnp.ones((tables, seats), bool))

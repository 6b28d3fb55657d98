"""A generator in one file: a population in which everybody learns with everybody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Key, Seating
from brigade.populations import Generator


@dataclass(frozen=True)
class PopulationPlay(Generator):
    """Each table has a host; its guest is drawn anew for every game, sometimes the host itself."""

    def names(self) -> list[str]:
        return [f"pp-{number}" for number in range(1, self.members + 1)]

    def seat(self, state: Any, tables: int, seats: int, key: Key) -> Seating:
        host = jnp.arange(tables, dtype=jnp.int32) % self.members
        # All guests are as many places further on, so everybody is a guest equally often.
        shift = jax.random.randint(key, (), 0, self.members)
        guest = (host + shift) % self.members
        member = jnp.where(jnp.arange(seats) == 0, host[:, None], guest[:, None])
        return Seating(member, jnp.ones((tables, seats), bool))

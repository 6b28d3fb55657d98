"""How a population comes about: who meets whom, what they are paid, what follows a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from brigade.core import Array, Environment, Key, Learner, Seating, Trajectory
from brigade.core.checks import at_least


@dataclass(frozen=True)
class Generator:
    """A frozen dataclass of settings. Every default is self-play of independent policies.

    It has no rollout, no optimiser and no loss of its own: policies learn by the learner of the
    run, each from the seats it sits on.
    """

    members: int = 8
    """Policies to make."""

    # Settings of a run that this generator is known to work with, in the form of a config file.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # What reports of such a population show.
    measures: ClassVar[tuple[str, ...]] = ("self_play",)

    def __post_init__(self) -> None:
        at_least("members", self.members, 2)

    @property
    def policies(self) -> int:
        """How many are trained; more than `members` where some only help others to learn."""
        return self.members

    @property
    def tables(self) -> int:
        """Tables of a rollout: everybody who meets, meets equally often."""
        return self.members

    @property
    def critic_ids(self) -> int:
        """Number of partner ids that are given to the critic; 0: none."""
        return 0

    def names(self) -> list[str]:
        """Of all policies; the first `members` are what the population is for."""
        return [f"member-{number}" for number in range(1, self.members + 1)]

    def check(self, env: Environment, learner: Learner) -> None:
        """Raise a ValueError of one line where the generator does not fit; before training."""

    def init(self, key: Key) -> Any:
        """What the generator keeps while it works: a pytree."""
        return ()

    def seat(self, state: Any, tables: int, seats: int, key: Key) -> Seating:
        """Who meets whom in the next games; each policy on equally many seats."""
        return with_themselves(self.members, tables, seats)

    def evaluation(self, seats: int) -> tuple[Seating, list[str]]:
        """The tables that evaluations play, and their names; again equally many of each policy."""
        return with_themselves(self.policies, self.policies, seats), self.names()

    def own_tables(self, member: int) -> list[int]:
        """The tables of an evaluation that show what a member can do."""
        return [member]

    def critic_id(self, seating: Seating) -> Array:
        """[tables, seats] int32: whom each seat plays with, for its critic."""
        return jnp.zeros_like(seating.member)

    def pay(self, state: Any, learner: Learner, params: Any, traj: Trajectory) -> Trajectory:
        """Edit what everybody is paid: `reward` and `info["shaped_reward"]`, [T, B, seats]."""
        return traj

    def loss(self, state: Any, learner: Learner, params: Any, batch: Any, key: Key) -> Array:
        """A term across policies, added to the sum of their losses; leaves [policies, ...]."""
        return jnp.float32(0.0)

    def after(self, state: Any, params: Any, traj: Trajectory, key: Key) -> Any:
        """A rollout was learned from: snapshots, rankings, multipliers."""
        return state


def with_themselves(policies: int, tables: int, seats: int) -> Seating:
    """Every table has copies of one policy."""
    who = jnp.arange(tables, dtype=jnp.int32) % policies
    member = jnp.broadcast_to(who[:, None], (tables, seats))
    return Seating(member, jnp.ones((tables, seats), bool))

"""The base class of population generators: matchmakers that policies can be exported from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Environment, Key, Learner, Matchmaker, Pairing, Seating
from brigade.core.checks import at_least
from brigade.core.seating import pairing_of


@dataclass(frozen=True)
class Generator(Matchmaker):
    """A frozen dataclass of settings. The defaults are self-play of independent policies.

    A generator has no rollout, no optimiser and no RL loss. Each policy is trained by the run's
    learner on the seats it plays.
    """

    members: int = 8
    """Number of policies in the population."""

    # Policies are called by this and their number.
    prefix: ClassVar[str] = "member"
    # Settings of a run that work with this generator, in the form of a config file.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # The measures that reports of such a population show.
    measures: ClassVar[tuple[str, ...]] = ("self_play",)
    # Which snapshots of every member are in the population's file: init, mid, final.
    stages: ClassVar[tuple[str, ...]] = ("final",)
    # The number of seats that the game must have; None for any.
    seats: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        at_least("members", self.members, 2)

    @property
    def policies(self) -> int:
        """The number of trained policies: `members`, plus any that only help to train them."""
        return self.members

    @property
    def tables(self) -> int:
        return self.members

    def names(self) -> list[str]:
        """Names of all policies; the first `members` are those of the population."""
        return numbered(self.prefix, self.members)

    def about(self, member: int) -> dict[str, Any]:
        """What else a policy file should say about a policy, as plain values."""
        return {}

    def check(self, env: Environment, learner: Learner) -> None:
        name = type(self).__name__.lower()
        if self.seats is not None and env.num_agents != self.seats:
            raise ValueError(f"{name} needs {self.seats} seats; this game has {env.num_agents}")
        check_seats(self, env.num_agents, learner)

    def seat(self, state: Any, pairing: Pairing, tables: int, seats: int, key: Key) -> Seating:
        return with_themselves(self.members, tables, seats)

    def evaluation(self, seats: int) -> tuple[Seating, list[str]]:
        """The seating of evaluations and the names of its tables; equally many seats each."""
        return with_themselves(self.policies, self.policies, seats), self.names()

    def sets(self, seats: int) -> dict[str, tuple[str, ...]]:
        """The names of tables of evaluations, in sets that measures compare."""
        if self.policies == 1:
            return {}
        names = self.evaluation(seats)[1]
        tables = [table for member in range(self.members) for table in self.own_tables(member)]
        return {"own": tuple(names[table] for table in tables)}

    def own_tables(self, member: int) -> list[int]:
        """The tables of an evaluation whose score counts as the member's own."""
        return [member]


@dataclass(frozen=True)
class WithResponses(Generator):
    """Policies 0 to n - 1 and the best response of each, n to 2n - 1, in a game with two seats."""

    seats: ClassVar[int | None] = 2

    @property
    def policies(self) -> int:
        return 2 * self.members

    def seats_per_table(self, seats: int) -> float:
        return 1.0

    def names(self) -> list[str]:
        return super().names() + numbered("response", self.members)


def numbered(prefix: str, number: int) -> list[str]:
    """`prefix` with the numbers from 1."""
    return [f"{prefix}-{each}" for each in range(1, number + 1)]


def with_themselves(policies: int, tables: int, seats: int) -> Seating:
    """Self-play: every table has copies of one policy."""
    policy = jnp.arange(tables, dtype=jnp.int32) % policies
    member = jnp.broadcast_to(policy[:, None], (tables, seats))
    return Seating(member, jnp.ones((tables, seats), bool))


def check_seats(generator: Generator, seats: int, learner: Learner) -> None:
    """Check that rollouts can be split by policy; later code relies on it."""
    name, key = type(generator).__name__.lower(), jax.random.key(0)
    shapes = jax.eval_shape(learner.policy.init, key)
    params = jax.tree.map(lambda x: jnp.zeros((generator.policies, *x.shape), x.dtype), shapes)
    evaluated = generator.evaluation(seats)[0]
    state = generator.init(params, learner.policy, key)
    trained = generator.seat(state, pairing_of(evaluated), generator.tables, seats, key)
    for seating in (trained, evaluated):
        own = seating.member[seating.own]
        counts = jnp.bincount(own, length=generator.policies).tolist()
        if len(set(counts)) > 1 or own.size % generator.policies:
            raise ValueError(f"{name} gives its policies {counts} seats; each must have the same")
    one_policy = trained.own.all() and (trained.member == trained.member[:, :1]).all()
    if learner.joins_seats and not one_policy:
        raise ValueError(
            f"{name} seats different policies at a table, and this learner learns from all seats "
            "of a table together; use ippo or iql"
        )

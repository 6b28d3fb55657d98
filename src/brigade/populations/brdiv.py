"""BRDiv: partners with different best responses (Rahman and others, TMLR 2023).

Every partner is trained with its own best response. Matched pairs maximise the return, mismatched
pairs minimise it, so that no response works well with another partner. All pairings are played in
parallel.

Reference: A. Rahman and others, *Generating teammates for training robust ad hoc teamwork agents
via best-response diversity*, TMLR 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Learner, Pairing, Seating, Trajectory
from brigade.core.checks import at_least, each
from brigade.populations.generator import WithResponses
from brigade.populations.tables import weighted


@dataclass(frozen=True)
class BRDiv(WithResponses):
    """Best-response diversity: partners with different best responses.

    With R_ij the return of partner i and response j, all policies maximise

    (1 + 2a) mean_i R_ii - 2ac mean_{i != j} R_ij,  a = `diversity`, c = `cross_play`.

    Partners are policies 0 to n - 1, their responses n to 2n - 1.
    """

    members: int = 3
    """Number of partners, each with its own best response."""
    diversity: float = 1.0
    """Weight a of the difference between matched and mismatched pairs, against plain returns."""
    cross_play: float = 0.5
    """Weight c of mismatched pairs in that difference: 1 in the original, 0.5 in MEAL's release."""
    both_seats: bool = True
    """Sample who has which seat; otherwise responses have seat 0 and partners seat 1."""

    prefix: ClassVar[str] = "brdiv"
    measures: ClassVar[tuple[str, ...]] = ("own_pairs", "other_pairs")
    stages: ClassVar[tuple[str, ...]] = ("init", "mid", "final")
    defaults: ClassVar[Mapping[str, Any]] = {
        "snapshots": 10,
        "num_envs": 72,
        "steps_per_task": 4e6,
        "ppo": {
            "learning_rate": 1e-3,
            "final_learning_rate": 0.0,
            "epochs": 6,
            "minibatches": 8,
            "entropy_coef": 0.005,
            "value_clip": None,
            "shaping_steps": None,
        },
        "network": {"hidden": [64, 64]},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        each(at_least, self, "diversity cross_play", 0.0)

    @property
    def tables(self) -> int:
        return self.members**2

    @property
    def critic_ids(self) -> int:
        return self.members

    def seat(self, state: Any, pairing: Pairing, tables: int, seats: int, key: Key) -> Seating:
        member = self.pairs(tables)
        if self.both_seats:
            swap = jax.random.bernoulli(key, 0.5, (tables, 1))
            member = jnp.where(swap, member[:, ::-1], member)
        return Seating(member, jnp.ones((tables, seats), bool))

    def evaluation(self, seats: int) -> tuple[Seating, list[str]]:
        member, every = self.pairs(self.tables), self.names()
        partners, responses = every[: self.members], every[self.members :]
        names = [f"{partner} with {other}" for partner in partners for other in responses]
        return Seating(member, jnp.ones(member.shape, bool)), names

    def pairs(self, tables: int) -> Array:
        """[tables, 2]: the response on seat 0 and the partner on seat 1, all pairs in turn."""
        pair = jnp.arange(tables, dtype=jnp.int32) % self.tables
        return jnp.stack([self.members + pair % self.members, pair // self.members], axis=1)

    def own_tables(self, member: int) -> list[int]:
        return [member * self.members + member]  # with its own best response

    def critic_id(self, seating: Seating) -> Array:
        return seating.member[:, ::-1] % self.members

    def reward(self, state: Any, learner: Learner, params: Any, traj: Trajectory) -> Trajectory:
        assert traj.seating is not None
        return weighted(traj, self.weights(state, traj.seating))

    def weights(self, state: Any, seating: Seating) -> Array:
        """[tables]: the weight of each pairing's return, scaled so that matched pairs have 1."""
        one, other = (seating.member % self.members).T
        matched = 1.0 + 2.0 * self.diversity
        mismatched = -2.0 * self.diversity * self.cross_play / (self.members - 1)
        return jnp.where(one == other, 1.0, mismatched / matched)

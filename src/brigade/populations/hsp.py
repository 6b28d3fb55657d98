"""HSP: partners with their own preferences (Yu and others, ICLR 2023), as in ZSC-Eval.

Every biased policy is paid for events it likes and charged for those it does not, and is trained
with its own best response, which gets the rewards of the game.

Reference: C. Yu and others, *Learning zero-shot cooperation with humans, assuming humans are
biased*, ICLR 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from brigade.core import Array, Environment, Key, Learner, Pairing, Seating, Trajectory
from brigade.core.checks import at_least
from brigade.envs.overcooked import preferences
from brigade.envs.overcooked.events import EVENTS, MULTI_EVENTS
from brigade.populations.generator import WithResponses
from brigade.populations.tables import by_environment


@dataclass(frozen=True)
class HSP(WithResponses):
    """Hidden-utility self-play: policies that prefer some events.

    Biased policies are 0 to n - 1, their best responses n to 2n - 1. Both
    have separate networks. Half of a pair's games are played in each order of seats.
    """

    members: int = 8
    """Number of biased policies, each with its own best response."""
    table: str = "default"
    """Which weights there are to choose from: default, forced_coordination, bothway_coordination,
    blocked_corridor, or multi for kitchens with a list of recipes."""
    weights_seed: int = 0
    """Seed of the choice of weights, if there are more combinations than members."""
    weights: tuple[str, ...] = ()
    """Your own weights instead, one text per member: stay=-0.1,delivery=-20,order=1."""

    prefix: ClassVar[str] = "biased"
    measures: ClassVar[tuple[str, ...]] = ("own_pairs",)
    defaults: ClassVar[Mapping[str, Any]] = {
        "snapshots": 20,
        "ppo": {"share_shaping": False, "shaping_steps": None},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("weights_seed", self.weights_seed, 0)
        object.__setattr__(self, "weights", tuple(self.weights))
        if self.weights and len(self.weights) != self.members:
            raise ValueError(
                f"members is {self.members} and there are {len(self.weights)} weights; give one "
                "per member"
            )
        preferences.weight_matrix(self.candidates, self.events)

    @property
    def candidates(self) -> list[preferences.Weights]:
        """The weights of every biased policy."""
        if self.weights:
            return [preferences.parse_weights(text) for text in self.weights]
        return preferences.sample_candidates(self.table, self.members, self.weights_seed)

    @property
    def events(self) -> tuple[str, ...]:
        """The events of the kitchens that the table is for."""
        return MULTI_EVENTS if self.table == "multi" else EVENTS

    @property
    def tables(self) -> int:
        return 2 * self.members

    def about(self, member: int) -> dict[str, Any]:
        pair = member % self.members
        return {"pair": pair + 1, "prefers": preferences.in_words(self.candidates[pair])}

    def check(self, env: Environment, learner: Learner) -> None:
        super().check(env, learner)
        if tuple(env.events) != self.events:
            wanted = "a list of recipes" if self.table == "multi" else "one recipe"
            raise ValueError(
                f"table is {self.table}, which is for Overcooked with {wanted}; choose another "
                "--generator-settings.table"
            )

    def seat(self, state: Any, pairing: Pairing, tables: int, seats: int, key: Key) -> Seating:
        return self.pairs(tables)

    def pairs(self, tables: int) -> Seating:
        """Two tables per pair: the response has seat 0 at the first, seat 1 at the second."""
        pair = jnp.arange(tables, dtype=jnp.int32) // 2 % self.members
        member = jnp.stack([self.members + pair, pair], axis=1)
        swapped = (jnp.arange(tables) % 2 == 1)[:, None]
        member = jnp.where(swapped, member[:, ::-1], member)
        return Seating(member, jnp.ones(member.shape, bool))

    def evaluation(self, seats: int) -> tuple[Seating, list[str]]:
        names = [
            f"biased-{pair} with response-{pair} on seat {seat}"
            for pair in range(1, self.members + 1)
            for seat in (0, 1)
        ]
        return self.pairs(self.tables), names

    def own_tables(self, member: int) -> list[int]:
        pair = member % self.members
        return [2 * pair, 2 * pair + 1]

    def reward(self, state: Any, learner: Learner, params: Any, traj: Trajectory) -> Trajectory:
        assert traj.seating is not None
        matrix = jnp.asarray(preferences.weight_matrix(self.candidates, self.events))
        member = traj.seating.member
        weights = by_environment(matrix[member % self.members], traj)  # [B, seats, events + 1]
        biased = by_environment(member < self.members, traj)  # [B, seats]
        preferred = preferred_reward(traj.reward, traj.info["events"], weights)
        info = dict(traj.info)
        info["shaped_reward"] = jnp.where(biased, 0.0, info["shaped_reward"])
        return traj.replace(reward=jnp.where(biased, preferred, traj.reward), info=info)


def preferred_reward(reward: Array, events: Array, weights: Array) -> Array:
    """[..., seats]: the order's weight times the game's reward, plus the weights of the events.

    `reward` [..., seats], `events` [..., seats, kinds], `weights` [..., seats, kinds + 1].
    """
    return weights[..., -1] * reward + (events * weights[..., :-1]).sum(-1)

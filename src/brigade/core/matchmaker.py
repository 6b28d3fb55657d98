"""The interface of matchmakers: who meets whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from brigade.core.environment import Environment
from brigade.core.learner import Learner
from brigade.core.policy import Policy
from brigade.core.seating import Cast, Pairing, Seating
from brigade.core.types import Array, Key, Params, Trajectory


@dataclass(frozen=True)
class Matchmaker:
    """Who sits where, with which parameters, and for what reward: the base class of matchmakers.

    A frozen dataclass of settings. The defaults: one policy, which meets the partners that the run
    names as often as the task's weights say. With several policies, the learner and the method are
    applied to each of them, and `params` have leaves [policies, ...].
    """

    # Whether it compares returns, so that a rollout must have whole episodes.
    whole_episodes: ClassVar[bool] = False

    @property
    def policies(self) -> int:
        """The number of policies that are trained."""
        return 1

    @property
    def tables(self) -> int:
        """The tables of a rollout are a multiple of this number, so that all pairs occur."""
        return 1

    def seats_per_table(self, seats: int) -> float:
        """How many seats a policy has at the tables where it sits, if there are several."""
        return float(seats)

    @property
    def critic_ids(self) -> int:
        """The number of partner ids that critics get as input; 0: none."""
        return 0

    def check(self, env: Environment, learner: Learner) -> None:
        """Raise a one-line ValueError if it does not fit; called before training."""

    def cast(self, policy: Policy) -> Cast:
        """Partners that it brings, such as copies of the policy; none if the run names them."""
        return Cast()

    def evaluation(self, seats: int) -> tuple[Seating, list[str]] | None:
        """The seating of evaluations, one table per row, and the names of its tables.

        With several policies, each has equally many seats. None: the partners of every task.
        """
        return None

    def evaluated(self) -> tuple[str, ...]:
        """Which of these partners evaluations play with."""
        return ()

    def init(self, params: Params, policy: Policy, key: Key) -> Any:
        """Its initial state: a pytree, which is saved with the run."""
        return ()

    def partners(self, state: Any, params: Params, given: Any) -> Any:
        """The partners' parameters, per group of the cast; `given` are those of the cast."""
        return given

    def seat(self, state: Any, pairing: Pairing, tables: int, seats: int, key: Key) -> Seating:
        """The next seating. With several policies, each must have equally many seats."""
        constant = pairing.constant(tables)
        return pairing.sample(key, tables, seats) if constant is None else constant

    def critic_id(self, seating: Seating) -> Array:
        """[tables, seats] int32: the partner id that the critic of each seat gets."""
        return jnp.zeros_like(seating.member)

    def reward(self, state: Any, learner: Learner, params: Params, traj: Trajectory) -> Trajectory:
        """Edit the rewards: `reward` and `info["shaped_reward"]`, both [T, B, seats]."""
        return traj

    def after(self, state: Any, params: Params, traj: Trajectory, key: Key) -> Any:
        """Its state after a rollout was learned from; `traj` as it was played, before `reward`."""
        return state

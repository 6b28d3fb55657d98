"""The base class of population generators: which policies play together, and for what reward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from brigade.core import Array, Cast, Environment, Key, Learner, Seating, Trajectory
from brigade.core.checks import at_least
from brigade.learners.ppo import PPO
from brigade.nets import ActorCriticPolicy


@dataclass(frozen=True)
class Generator:
    """A frozen dataclass of settings. The defaults are self-play of independent policies.

    A generator has no rollout, no optimiser and no RL loss. Each policy is trained by the run's
    learner on the seats it plays.
    """

    members: int = 8
    """Number of policies in the population."""

    # Settings of a run that work with this generator, in the form of a config file.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # The measures that reports of such a population show.
    measures: ClassVar[tuple[str, ...]] = ("self_play",)
    # Whether it compares returns, so that a rollout must have whole episodes.
    whole_episodes: ClassVar[bool] = False
    # Which snapshots of every member are in the population's file: init, mid, final.
    stages: ClassVar[tuple[str, ...]] = ("final",)

    def __post_init__(self) -> None:
        at_least("members", self.members, 2)

    @property
    def policies(self) -> int:
        """The number of trained policies: `members`, plus any that only help to train them."""
        return self.members

    @property
    def tables(self) -> int:
        """The number of tables in a rollout, so that every pairing occurs equally often."""
        return self.members

    @property
    def critic_ids(self) -> int:
        """The number of partner ids that critics get as input; 0: none."""
        return 0

    def names(self) -> list[str]:
        """Names of all policies; the first `members` are those of the population."""
        return [f"member-{number}" for number in range(1, self.members + 1)]

    def about(self, member: int) -> dict[str, Any]:
        """What else a policy file should say about a policy, as plain values."""
        return {}

    def build_learner(self, base: PPO, seats: int) -> Learner:
        """The learner of the population, from that of one policy."""
        from brigade.populations.learner import population_learner

        return population_learner(self, base, seats)

    def partners(self, policy: ActorCriticPolicy) -> Cast:
        """Partners that are not trained; none in a population that plays with itself."""
        return Cast()

    def evaluated(self) -> tuple[str, ...]:
        """Which of these partners evaluations play with."""
        return ()

    def cast(self, state: Any, params: Any, cast: Any) -> Any:
        """The parameters of these partners, such as copies of the policies."""
        return cast

    def check(self, env: Environment, learner: PPO) -> None:
        """Raise a one-line ValueError if the generator cannot be used; called before training."""

    def init(self, key: Key) -> Any:
        """The generator's initial state: a pytree."""
        return ()

    def seat(self, state: Any, tables: int, seats: int, key: Key) -> Seating:
        """The next seating; every policy must have equally many seats."""
        return with_themselves(self.members, tables, seats)

    def evaluation(self, seats: int) -> tuple[Seating, list[str]]:
        """The seating of evaluations and the names of its tables; equally many seats each."""
        return with_themselves(self.policies, self.policies, seats), self.names()

    def own_tables(self, member: int) -> list[int]:
        """The tables of an evaluation whose score counts as the member's own."""
        return [member]

    def critic_id(self, seating: Seating) -> Array:
        """[tables, seats] int32: the partner id that each seat's critic gets."""
        return jnp.zeros_like(seating.member)

    def pay(self, state: Any, learner: PPO, params: Any, traj: Trajectory) -> Trajectory:
        """Edit the rewards: `reward` and `info["shaped_reward"]`, both [T, B, seats]."""
        return traj

    def loss(self, state: Any, learner: PPO, params: Any, batch: Any, key: Key) -> Array:
        """A loss term across policies, added to the sum of their losses; leaves [policies, ...]."""
        return jnp.float32(0.0)

    def after(self, state: Any, params: Any, traj: Trajectory, key: Key) -> Any:
        """The generator's state after a rollout was learned from (snapshots, rankings)."""
        return state


def with_themselves(policies: int, tables: int, seats: int) -> Seating:
    """Self-play: every table has copies of one policy."""
    policy = jnp.arange(tables, dtype=jnp.int32) % policies
    member = jnp.broadcast_to(policy[:, None], (tables, seats))
    return Seating(member, jnp.ones((tables, seats), bool))

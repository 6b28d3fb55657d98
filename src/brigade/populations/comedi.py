"""CoMeDi: conventions that do not work with each other (Sarkar, Shih and Sadigh, NeurIPS 2023).

Every policy is trained in self-play, against good cross-play with the earlier policy it works best
with, and in mixed play. Mixed play keeps policies from only recognising strangers and giving up:
they must do well from states that a stranger has led to.

Reference: B. Sarkar, A. Shih and D. Sadigh, *Diverse conventions for human-AI collaboration*,
NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from brigade.core import (
    Array,
    Cast,
    Group,
    Key,
    Learner,
    Pairing,
    Policy,
    Seating,
    Trajectory,
    View,
)
from brigade.core.checks import at_least, each, within
from brigade.core.trees import pick
from brigade.populations.coplay import followed
from brigade.populations.ego import group_of_copies
from brigade.populations.generator import Generator
from brigade.populations.tables import returns_by_table, weighted

SELF, CROSS, MIXED = range(3)  # the tables of a policy


class Mixing(NamedTuple):
    """The state of a mixed policy. Leaves [..., seats, ...]."""

    time: Array  # int32: steps since the start of the episode
    end: Array  # int32: when mixing ends
    own: Any  # recurrent states of the policy itself
    other: Any  # and of the other one, which sees all of the episode, too


@dataclass(frozen=True)
class Mixture(Policy):
    """Acts as one of two policies at random, up to a random timestep, then as the first.

    Parameters are a pair: those of the policy itself, and those of the other.
    """

    policy: Policy
    longest: int  # mixing ends before this timestep

    always_samples: ClassVar[bool] = True

    def init(self, key: Key) -> Any:
        """Two sets of parameters."""
        return self.policy.init(key), self.policy.init(key)

    def initial_carry(self, batch: tuple[int, ...]) -> Mixing:
        """The state before an episode."""
        zeros, carry = jnp.zeros(batch, jnp.int32), self.policy.initial_carry(batch)
        return Mixing(zeros, zeros, carry, carry)

    def act(
        self, params: Any, carry: Mixing, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Mixing, dict[str, Any]]:
        """One action per seat."""
        own_key, other_key, end_key, coin_key = jax.random.split(key, 4)
        shape = view.active.shape
        time = jnp.where(view.first, 0, carry.time + 1)
        end = jnp.where(view.first, jax.random.randint(end_key, shape, 0, self.longest), carry.end)
        own, own_carry, _ = self.policy.act(params[0], carry.own, view, own_key)
        other, other_carry, _ = self.policy.act(params[1], carry.other, view, other_key)
        is_other = (time < end) & jax.random.bernoulli(coin_key, 0.5, shape)
        return jnp.where(is_other, other, own), Mixing(time, end, own_carry, other_carry), {}


@dataclass(frozen=True)
class CoMeDi(Generator):
    """Policies that play badly with each other but well in mixed games.

    All policies maximise SP - cross_play * XP + mixed_play * MP.

    XP is the return with the earlier policy it works best with, MP that of games in which the
    partner is, up to a random timestep, this earlier policy half of the time. All policies learn at
    the same time; the original trains one after another.
    """

    cross_play: float = 0.5
    """Weight of cross-play, which is minimised."""
    mixed_play: float = 0.5
    """Weight of mixed play, which is maximised."""
    mixed_steps: int = 200
    """Mixing ends at a random timestep before this one."""
    explore: float = 0.25
    """Probability of cross-play with a random earlier policy instead of the most compatible."""

    prefix: ClassVar[str] = "comedi"
    whole_episodes: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("own_pairs", "other_pairs")
    seats: ClassVar[int | None] = 2
    stages: ClassVar[tuple[str, ...]] = ("init", "mid", "final")
    defaults: ClassVar[Mapping[str, Any]] = {"snapshots": 10}

    def __post_init__(self) -> None:
        super().__post_init__()
        each(at_least, self, "cross_play mixed_play", 0.0)
        at_least("mixed_steps", self.mixed_steps, 1)
        within("explore", self.explore, 0.0, 1.0)

    @property
    def tables(self) -> int:
        return 3 * self.members

    def seats_per_table(self, seats: int) -> float:
        return 1.0

    @property
    def critic_ids(self) -> int:
        return 3

    def cast(self, policy: Policy) -> Cast:
        """Copies of all policies, then their mixtures with the most compatible earlier ones."""
        copies = group_of_copies(policy, policy, tuple(self.names()))
        own = copies.params[0]
        mixtures = tuple(f"{name} mixed" for name in self.names())
        group = Group(Mixture(policy, self.mixed_steps), self.members)
        return copies + Cast((group,), ((own, own),), mixtures)

    def init(self, params: Any, policy: Policy, key: Key) -> Array:
        """Returns [policy, earlier policy], not known yet."""
        return jnp.full((self.members, self.members), jnp.nan)

    def partners(self, state: Array, params: Any, given: Any) -> Any:
        others = most_compatible(state)
        return params, (params, pick(params, others))

    def seat(self, state: Array, pairing: Pairing, tables: int, seats: int, key: Key) -> Seating:
        seat_key, coin_key, random_key = jax.random.split(key, 3)
        table = jnp.arange(tables, dtype=jnp.int32)
        policy, kind = table // 3 % self.members, table % 3
        at_random = jax.random.randint(random_key, (tables,), 0, jnp.maximum(policy, 1))
        explores = jax.random.bernoulli(coin_key, self.explore, (tables,))
        earlier = jnp.where(explores, at_random, most_compatible(state)[policy])
        other = jnp.select([kind == CROSS, kind == MIXED], [earlier, self.members + policy], policy)
        other = jnp.where(policy == 0, 0, other)  # the first one has nobody before it
        own_seat = jax.random.bernoulli(seat_key, 0.5, (tables,)).astype(jnp.int32)
        own = own_seat[:, None] == jnp.arange(seats)
        member = jnp.where(own, policy[:, None], other[:, None])
        return Seating(member.astype(jnp.int32), own)

    def evaluation(self, seats: int) -> tuple[Seating, list[str]]:
        pair = jnp.arange(self.members**2, dtype=jnp.int32)
        member = jnp.stack([pair // self.members, pair % self.members], axis=1)
        own = jnp.broadcast_to(jnp.arange(seats) == 0, member.shape)
        names = [f"{one} with {other}" for one in self.names() for other in self.names()]
        return Seating(member, own), names

    def own_tables(self, member: int) -> list[int]:
        return [member * self.members + member]

    def kinds(self, seating: Seating) -> tuple[Array, Array, Array]:
        """The policy, its partner and the kind of game at every table."""
        policy = jnp.sum(jnp.where(seating.own, seating.member, 0), axis=1)
        other = jnp.sum(jnp.where(seating.own, 0, seating.member), axis=1)
        is_mixed, is_cross = other >= self.members, other != policy
        return policy, other, jnp.select([is_mixed, is_cross], [MIXED, CROSS], SELF)

    def critic_id(self, seating: Seating) -> Array:
        _, _, kind = self.kinds(seating)
        return jnp.broadcast_to(kind[:, None], seating.member.shape).astype(jnp.int32)

    def reward(self, state: Array, learner: Learner, params: Any, traj: Trajectory) -> Trajectory:
        assert traj.seating is not None
        _, _, kind = self.kinds(traj.seating)
        weights = jnp.array([1.0, -self.cross_play, self.mixed_play])[kind]
        return weighted(traj, weights)

    def after(self, state: Array, params: Any, traj: Trajectory, key: Key) -> Array:
        assert traj.seating is not None
        policy, other, kind = self.kinds(traj.seating)
        return followed_returns(state, policy, other, kind, returns_by_table(traj, len(policy)))


def most_compatible(returns: Array) -> Array:
    """[policies]: the earlier policy with the highest return; an unknown one first, 0 for itself.

    `returns` [policy, earlier policy], NaN where they are not known.
    """
    number = len(returns)
    earlier = jnp.tril(jnp.ones((number, number), bool), k=-1)
    hopeful = jnp.where(jnp.isnan(returns), jnp.inf, returns)
    return jnp.where(earlier, hopeful, -jnp.inf).argmax(1).astype(jnp.int32)


def followed_returns(
    known: Array, policy: Array, other: Array, kind: Array, returns: Array
) -> Array:
    """The estimates of cross-play after the games of these tables."""
    number = len(known)
    is_cross = (kind == CROSS).astype(jnp.float32)
    place = (policy, jnp.minimum(other, number - 1))
    count = jnp.zeros((number, number)).at[place].add(is_cross)
    total = jnp.zeros((number, number)).at[place].add(is_cross * returns)
    latest = total / jnp.maximum(count, 1.0)
    return followed(known, latest, count > 0)

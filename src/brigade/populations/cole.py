"""COLE: learning with an archive of earlier selves (Li and others, ICML 2023).

As ZSC-Eval has it: generations of fixed length, a matrix of returns between the members of the
archive, partners sampled by rank in it, a share of self-play.

Reference: Y. Li and others, *Cooperative open-ended learning framework for zero-shot coordination*,
ICML 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Cast, Key, Policy, Trajectory
from brigade.core.checks import at_least, each, positive, within
from brigade.core.trees import put
from brigade.populations.coplay import latest_returns
from brigade.populations.ego import ITSELF, EgoGenerator, group_of_copies, stacked_once

# How fast the ego's returns follow the latest ones, as in ZSC-Eval: in every rollout, also where a
# member was not met in it.
OWN_RATE = 0.5


class Archive(struct.PyTreeNode):
    """Networks of the ego's past: leaves [archive, ...] of `params`, filled from the front."""

    params: Any
    filled: Array  # int32: how many there are
    # [archive, archive] f32: the return of each with each. A row is what the ego had when it
    # joined, and is completed by those who join later; members never play each other.
    utility: Array
    own: Array  # [archive] f32: the ego's running return with each
    latest: Array  # [archive] f32: its return in the last rollout in which they met, or NaN
    self_play: Array  # f32: the ego's return with itself in the latest rollout
    rollouts: Array  # int32: in this generation
    tries: Array  # int32: generations that ended without a newcomer since the last one


@dataclass(frozen=True)
class COLE(EgoGenerator):
    """Learns with snapshots of itself, mostly those bad with the others.

    After every generation a snapshot of the ego joins the archive if its mean return with the
    archive ranks high among those of the members, or at the `max_tries`-th try.
    """

    archive: int = 25
    """Most snapshots that are kept: 25, 50 or 75 in ZSC-Eval."""
    initial: int | None = None
    """Untrained networks in the archive at the start; by default a fifth of it and at least 3."""
    generation: int = 20
    """Rollouts of a generation; in ZSC-Eval it has 1e6 steps, 20 rollouts of 125 episodes."""
    self_play: float = 0.25
    """Share of the tables at which the ego plays with itself."""
    exponent: float | None = None
    """A member is sampled by this power of its rank, the one with the lowest utility most often.
    By default 1.5, 1 and 0.5 with an archive of 25, 50 and 75, as in ZSC-Eval's scripts."""
    accepted_rank: float = 0.9
    """A snapshot joins if so large a share of the archive has no higher utility."""
    accepted_rank_when_full: float = 0.8
    """The same once the archive is full; it then replaces one of the ten oldest places."""
    max_tries: int = 3
    """It joins at this try in any case."""

    whole_episodes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        each(at_least, self, "archive generation max_tries", 1)
        each(within, self, "initial", 1, self.archive)
        each(within, self, "self_play accepted_rank accepted_rank_when_full", 0.0, 1.0)
        each(positive, self, "exponent")

    @property
    def first(self) -> int:
        """How many untrained networks the archive starts with."""
        return self.initial or min(max(3, self.archive // 5), self.archive)

    @property
    def power(self) -> float:
        """The exponent; between the sizes of ZSC-Eval it falls linearly."""
        return (
            min(max(2.0 - self.archive / 50, 0.5), 1.5) if self.exponent is None else self.exponent
        )

    def cast(self, policy: Policy) -> Cast:
        names = tuple(f"snapshot-{number}" for number in range(1, self.archive + 1))
        return group_of_copies(policy, policy, (*names, ITSELF))

    def init(self, params: Any, policy: Policy, key: Key) -> Archive:
        """An archive of untrained networks."""
        # In turn: XLA's batched QR (for orthogonal weights) can deadlock on two cores.
        fresh = jax.lax.map(policy.init, jax.random.split(key, self.first))
        return Archive(
            params=jax.tree.map(
                lambda x: jnp.zeros((self.archive, *x.shape[1:]), x.dtype).at[: self.first].set(x),
                fresh,
            ),
            filled=jnp.int32(self.first),
            utility=jnp.zeros((self.archive, self.archive)),
            own=jnp.zeros(self.archive),
            latest=jnp.full(self.archive, jnp.nan),
            self_play=jnp.float32(0.0),
            rollouts=jnp.int32(0),
            tries=jnp.int32(0),
        )

    def weights(self, state: Archive, weights: Array) -> Array:
        there = jnp.arange(self.archive) < state.filled
        ranked = by_dense_rank(mean_over(state.utility, there), there) ** self.power
        others = (1.0 - self.self_play) * ranked / ranked.sum()
        return jnp.append(others, self.self_play)

    def partners(self, state: Archive, params: Any, given: Any) -> Any:
        own = stacked_once(params)
        return (jax.tree.map(lambda old, new: jnp.concatenate([old, new]), state.params, own),)

    def after(self, state: Archive, params: Any, traj: Trajectory, key: Key) -> Archive:
        returns, met = latest_returns(traj, self.archive + 1)
        latest = jnp.where(met[:-1], returns[:-1], state.latest)
        own = state.own + OWN_RATE * (latest - state.own)
        state = state.replace(
            own=jnp.where(jnp.isnan(latest), state.own, own),
            latest=latest,
            self_play=jnp.where(met[-1], returns[-1], state.self_play),
            rollouts=state.rollouts + 1,
        )
        ended = self.end_generation(state, params, key)
        over = state.rollouts >= self.generation
        return jax.tree.map(lambda new, old: jnp.where(over, new, old), ended, state)

    def end_generation(self, state: Archive, params: Any, key: Key) -> Archive:
        """The archive after a generation, with or without a snapshot of the ego."""
        there = jnp.arange(self.archive) < state.filled
        full = state.filled == self.archive
        mine, theirs = mean_over(state.own, there), mean_over(state.utility, there)
        rank = (there & (theirs <= mine)).sum()
        share = jnp.where(full, self.accepted_rank_when_full, self.accepted_rank)
        needed = jnp.ceil(share * state.filled - 1e-4)  # 0.9 x 10 must not round up to 10
        joins = (rank >= needed) | (state.tries + 1 >= self.max_tries)
        oldest = jax.random.randint(key, (), 0, min(10, self.archive))
        place = jnp.where(full, oldest, state.filled)
        own = state.own.at[place].set(state.self_play)
        joined = state.replace(
            params=put(state.params, place, params),
            filled=jnp.minimum(state.filled + 1, self.archive),
            utility=state.utility.at[place].set(own).at[:, place].set(own),
            own=own,
            latest=state.latest.at[place].set(jnp.nan),
        )
        after: Archive = jax.tree.map(lambda new, old: jnp.where(joins, new, old), joined, state)
        return after.replace(rollouts=jnp.int32(0), tries=jnp.where(joins, 0, state.tries + 1))


def mean_over(returns: Array, there: Array) -> Array:
    """The mean of [..., archive] over the members that are there."""
    total: Array = (returns * there).sum(-1) / there.sum()
    return total


def by_dense_rank(utility: Array, there: Array) -> Array:
    """[members] f32: 1 for the highest utility, 2 for the next lower one; 0 where nobody is.

    Equal utilities have equal ranks.
    """
    ordered = jnp.sort(jnp.where(there, utility, -jnp.inf))
    is_new = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])
    rank = 1 + (is_new & (ordered > utility[:, None])).sum(1)
    return jnp.where(there, rank, 0).astype(jnp.float32)

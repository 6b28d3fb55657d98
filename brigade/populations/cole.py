"""COLE: learning with an archive of earlier selves (Li and others, ICML 2023).

As ZSC-Eval has it: generations of fixed length, partners sampled by rank, a share of self-play.

Reference: Y. Li and others, *Cooperative open-ended learning framework for zero-shot coordination*,
ICML 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Cast, Key, Trajectory
from brigade.core.checks import at_least, positive, within
from brigade.nets import ActorCriticPolicy
from brigade.populations.coplay import partner_returns, rank_weights
from brigade.populations.ego import ITSELF, EgoGenerator, group_of_copies, stacked_once


class Archive(struct.PyTreeNode):
    """The ego's earlier selves: leaves [archive, ...] of `params`, filled from the front."""

    params: Any
    filled: Array  # int32: how many there are
    strength: Array  # [archive] f32: mean return with the archive when it joined
    returns: Array  # [archive + 1] f32: the ego's return with each and with itself
    rollouts: Array  # int32: in this generation
    tries: Array  # int32: generations since the last one joined


@dataclass(frozen=True)
class COLE(EgoGenerator):
    """Learns with snapshots of itself, mostly those it does badly with.

    After every generation a snapshot of the ego joins the archive if its mean return with the
    archive ranks high among those of the members when they joined, or after `max_tries`.
    """

    archive: int = 25
    """Most snapshots that are kept: 25, 50 or 75 in ZSC-Eval."""
    generation: int = 25
    """Rollouts of a generation; in ZSC-Eval it has 1e6 steps, 25 rollouts of 100 episodes."""
    self_play: float = 0.25
    """Share of the tables at which the ego plays with itself."""
    exponent: float = 1.0
    """A snapshot is sampled by the power of its rank, the hardest partner last."""
    accepted_rank: float = 0.9
    """A snapshot joins if its rank is at least this share of the archive's size."""
    max_tries: int = 2
    """It joins after so many generations in any case."""

    whole_episodes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("archive", self.archive, 1)
        at_least("generation", self.generation, 1)
        at_least("max_tries", self.max_tries, 1)
        within("self_play", self.self_play, 0.0, 1.0)
        within("accepted_rank", self.accepted_rank, 0.0, 1.0)
        positive("exponent", self.exponent)

    def names(self) -> list[str]:
        return ["cole"]

    def partners(self, policy: ActorCriticPolicy) -> Cast:
        names = tuple(f"snapshot-{number}" for number in range(1, self.archive + 1))
        return group_of_copies(policy, policy, (*names, ITSELF))

    def start(self, params: Any) -> Archive:
        """An archive with the untrained ego."""
        blank = jax.tree.map(lambda x: jnp.zeros((self.archive, *x.shape), x.dtype), params)
        return Archive(
            params=put(blank, params, jnp.int32(0)),
            filled=jnp.int32(1),
            strength=jnp.zeros(self.archive),
            returns=jnp.full(self.archive + 1, jnp.nan),
            rollouts=jnp.int32(0),
            tries=jnp.int32(0),
        )

    def weights(self, state: Archive, weights: Array) -> Array:
        there = jnp.arange(self.archive) < state.filled
        ranked = rank_weights(state.returns[:-1], self.exponent, there)
        others = (1.0 - self.self_play) * ranked / ranked.sum()
        return jnp.append(others, self.self_play)

    def cast(self, state: Archive, params: Any, cast: Any) -> Any:
        own = stacked_once(params)
        return (jax.tree.map(lambda old, new: jnp.concatenate([old, new]), state.params, own),)

    def after_rollout(self, state: Archive, params: Any, traj: Trajectory, key: Key) -> Archive:
        state = state.replace(
            returns=partner_returns(state.returns, traj), rollouts=state.rollouts + 1
        )
        ended = self.end_generation(state, params)
        over = state.rollouts >= self.generation
        return jax.tree.map(lambda new, old: jnp.where(over, new, old), ended, state)

    def end_generation(self, state: Archive, params: Any) -> Archive:
        """The archive after a generation, with or without a snapshot of the ego."""
        there = jnp.arange(self.archive) < state.filled
        strength = jnp.nanmean(jnp.where(there, state.returns[:-1], jnp.nan))
        rank = (there & (state.strength <= strength)).sum()
        tries = state.tries + 1
        joins = (rank >= self.accepted_rank * state.filled) | (tries >= self.max_tries)
        weakest = jnp.argmin(state.strength)
        place = jnp.where(state.filled < self.archive, state.filled, weakest)
        joined = state.replace(
            params=put(state.params, params, place),
            filled=jnp.minimum(state.filled + 1, self.archive),
            strength=state.strength.at[place].set(strength),
            returns=state.returns.at[place].set(jnp.nan),
        )
        after: Archive = jax.tree.map(lambda new, old: jnp.where(joins, new, old), joined, state)
        return after.replace(rollouts=jnp.int32(0), tries=jnp.where(joins, 0, tries))


def put(archive: Any, params: Any, place: Array) -> Any:
    """The archive with `params` at a place."""
    return jax.tree.map(lambda all_, one: all_.at[place].set(one), archive, params)

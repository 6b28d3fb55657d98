"""Co-play: one policy, the ego, learns with partners that change while it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from brigade.core import Array, Key, Matchmaker, Pairing, Policy, Seating, Trajectory
from brigade.populations.tables import returns_by_table

RETURNS_RATE = 0.3  # how fast estimates of returns follow the latest rollout


@dataclass(frozen=True)
class CoPlay(Matchmaker):
    """The ego meets its partners by weights that may change; by default the task's."""

    def weights(self, state: Any, weights: Array) -> Array:
        """[cast]: relative frequency of each partner; `weights` are the task's."""
        return weights

    def seat(self, state: Any, pairing: Pairing, tables: int, seats: int, key: Key) -> Seating:
        weighted = pairing.replace(weights=self.weights(state, pairing.weights))
        return weighted.sample(key, tables, seats)


def latest_returns(traj: Trajectory, size: int) -> tuple[Array, Array]:
    """[cast]: the ego's return with each partner in this rollout, and who was met."""
    assert traj.seating is not None
    member, own = traj.seating.member, traj.seating.own
    returns = returns_by_table(traj, len(member))
    # With more than two seats a table may have several partners; each gets the table's return.
    is_there = (member[:, :, None] == jnp.arange(size)) & ~own[:, :, None]
    tables = is_there.any(1).astype(jnp.float32)  # [tables, cast]
    count = tables.sum(0)
    return (returns[:, None] * tables).sum(0) / jnp.maximum(count, 1.0), count > 0


def followed(known: Array, latest: Array, met: Array) -> Array:
    """Running estimates of returns, NaN before the first, after the latest ones where `met`."""
    moved = jnp.where(jnp.isnan(known), latest, known + RETURNS_RATE * (latest - known))
    return jnp.where(met, moved, known)


def rank_weights(returns: Array, exponent: float, there: Array) -> Array:
    """[cast]: weights that grow with the rank of a partner, the one with the lowest return last.

    The weight is rank^exponent; partners that are not `there` get 0. Partners that were not met
    yet count as the hardest.
    """
    hard = jnp.where(there, -jnp.where(jnp.isnan(returns), -jnp.inf, returns), -jnp.inf)
    rank = (hard[:, None] >= hard[None, :]).sum(1)  # from 1, for the easiest
    absent = (~there).sum()
    return jnp.where(there, (rank - absent).astype(jnp.float32) ** exponent, 0.0)


@dataclass(frozen=True)
class Ranked(CoPlay):
    """Partners with whom the ego's return is low are met more often, as in MEP's second stage."""

    size: int = 1  # of the cast
    exponent: float = 1.0

    whole_episodes: ClassVar[bool] = True

    def init(self, params: Any, policy: Policy, key: Key) -> Array:
        """Returns [cast], not known yet."""
        return jnp.full(self.size, jnp.nan)

    def weights(self, state: Array, weights: Array) -> Array:
        return rank_weights(state, self.exponent, weights > 0)

    def after(self, state: Array, params: Any, traj: Trajectory, key: Key) -> Array:
        return followed(state, *latest_returns(traj, len(state)))

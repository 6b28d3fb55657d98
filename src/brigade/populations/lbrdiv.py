"""LBRDiv: BRDiv with Lagrange multipliers (Rahman, Cui and Stone, AAAI 2024).

Reference: A. Rahman, J. Cui and P. Stone, *Minimum coverage sets for training robust ad hoc
teamwork agents*, AAAI 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from brigade.core import Array, Key, Policy, Seating, Trajectory
from brigade.core.checks import at_least, each, positive
from brigade.populations.brdiv import BRDiv
from brigade.populations.tables import returns_by_table


@dataclass(frozen=True)
class LBRDiv(BRDiv):
    """Like BRDiv: own pairs must beat mismatched ones by a margin.

    With R_ij the return of partner i and response j, policies maximise the mean of R_ii subject to
    R_ii >= R_ij + margin and R_ii >= R_ji + margin. Each constraint has a multiplier, which grows
    while it is violated and shrinks otherwise. `diversity` and `cross_play` are not used.
    """

    margin: float = 20.0
    """How much better own pairs must be, in returns; a soup is worth 20."""
    multiplier_rate: float = 0.01
    """Step size of the multipliers per rollout and unit of return."""
    max_multiplier: float = 3.0
    """Upper bound on the multipliers."""

    prefix: ClassVar[str] = "lbrdiv"
    whole_episodes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("margin", self.margin, 0.0)
        each(positive, self, "multiplier_rate max_multiplier")

    def init(self, params: Any, policy: Policy, key: Key) -> Array:
        """The multipliers [2, partners, partners]: R_ii against R_ij, and against R_ji."""
        others = 1.0 - jnp.eye(self.members)
        return jnp.broadcast_to(others / (self.members - 1), (2, self.members, self.members))

    def weights(self, state: Any, seating: Seating) -> Array:
        return pair_weights(state)[self.pair_of(seating.member)]

    def pair_of(self, member: Array) -> tuple[Array, Array]:
        """The partner and the response at every table, both from 0; `member` [tables, seats]."""
        low, high = jnp.min(member, axis=1), jnp.max(member, axis=1)
        return low, high - self.members

    def after(self, state: Any, params: Any, traj: Trajectory, key: Key) -> Any:
        assert traj.seating is not None
        member = traj.seating.member
        partner, response = self.pair_of(member)
        found = returns_by_table(traj, len(member))
        returns = jnp.zeros((self.members, self.members)).at[partner, response].set(found)
        return next_multipliers(
            state, returns, self.margin, self.multiplier_rate, self.max_multiplier
        )


def pair_weights(multipliers: Array) -> Array:
    """[partner, response]: the weight of each return in the Lagrangian, own pairs 1 on average."""
    same_partner, same_response = multipliers
    own = 1.0 + (same_partner + same_response).sum(1)
    weights = jnp.where(
        jnp.eye(len(own), dtype=bool), jnp.diag(own), -(same_partner + same_response.T)
    )
    return weights / own.mean()


def next_multipliers(
    multipliers: Array, returns: Array, margin: float, rate: float, largest: float
) -> Array:
    """Gradient descent on the slack of every constraint; `returns` [partner, response]."""
    own = jnp.diag(returns)[:, None]
    slack = jnp.stack([own - margin - returns, own - margin - returns.T])
    moved = jnp.clip(multipliers - rate * slack, 0.0, largest)
    return moved * (1.0 - jnp.eye(len(returns)))

"""Co-play: one policy, the ego, learns with partners that change while it learns.

A strategy says how often each partner is met, and may supply the partners' parameters: copies of
the ego, snapshots of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import (
    Array,
    Cast,
    Key,
    LearnerState,
    Metrics,
    Outputs,
    Pairing,
    ParameterGroups,
    Seating,
    Trajectory,
)
from brigade.core.streams import STRATEGY
from brigade.learners.ppo import PPO
from brigade.nets import ActorCriticPolicy
from brigade.populations.tables import returns_by_table

RETURNS_RATE = 0.3  # how fast estimates of returns follow the latest rollout


class CoPlay:
    """How the ego meets its partners. The defaults are the task's weights and the given cast."""

    def partners(self, policy: ActorCriticPolicy) -> Cast:
        """The partners that the strategy supplies; none if the run names them."""
        return Cast()

    def evaluated(self) -> tuple[str, ...]:
        """The names of the partners of evaluations."""
        return ()

    def start(self, params: Any, policy: ActorCriticPolicy, key: Key) -> Any:
        """The initial state of the strategy: a pytree."""
        return ()

    def weights(self, state: Any, weights: Array) -> Array:
        """[cast]: relative frequency of each partner; `weights` are the task's."""
        return weights

    def cast(self, state: Any, params: Any, cast: Any) -> Any:
        """The parameters of all partners, per group of the cast."""
        return cast

    def after_rollout(self, state: Any, params: Any, traj: Trajectory, key: Key) -> Any:
        """The state after a rollout was learned from."""
        return state


@dataclass(frozen=True)
class CoPlayLearner:
    """The learner `base` with a co-play strategy, whose state is `aux` of the learner's state."""

    base: PPO
    strategy: CoPlay

    @property
    def policy(self) -> ActorCriticPolicy:
        """The ego's policy."""
        return self.base.policy

    def groups(self, params: Any) -> ParameterGroups:
        """The roles of the parameters."""
        return self.base.groups(params)

    def init(self, key: Key) -> LearnerState:
        """Initial parameters and the strategy's initial state."""
        state = self.base.init(key)
        strategy_key = jax.random.fold_in(key, STRATEGY)
        return state.replace(aux=self.strategy.start(state.params, self.policy, strategy_key))

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Restart the schedules."""
        return self.base.begin_task(state)

    def seat(
        self, state: LearnerState, pairing: Pairing, tables: int, seats: int, key: Key
    ) -> Seating:
        """Seats and partners, by the strategy's weights."""
        weights = self.strategy.weights(state.aux, pairing.weights)
        return pairing.replace(weights=weights).sample(key, tables, seats)

    def cast(self, state: LearnerState, cast: Any) -> Any:
        """The parameters of the partners."""
        return self.strategy.cast(state.aux, state.params, cast)

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Any, Any]:
        """The minibatches of a rollout."""
        return self.base.prepare(state, traj, key)

    def take(self, data: Any, index: Any) -> Any:
        """One minibatch."""
        return self.base.take(data, index)

    def standalone(self, batch: Any) -> Any:
        """The batch in a form that can be stored."""
        return self.base.standalone(batch)

    def loss(self, params: Any, state: LearnerState, batch: Any, key: Key) -> tuple[Array, Metrics]:
        """The loss of the base."""
        return self.base.loss(params, state, batch, key)

    def rehearse(self, params: Any, state: LearnerState, batch: Any) -> tuple[Array, Metrics]:
        """The loss on replayed samples."""
        return self.base.rehearse(params, state, batch)

    def outputs(self, params: Any, batch: Any) -> Outputs:
        """Logits and values."""
        return self.base.outputs(params, batch)

    def diagnose(self, params: Any, batch: Any) -> Metrics:
        """Extra metrics."""
        return self.base.diagnose(params, batch)

    def apply_gradients(self, state: LearnerState, grads: Any) -> LearnerState:
        """One optimiser step."""
        return self.base.apply_gradients(state, grads)

    def after_update(self, state: LearnerState, index: Any, metrics: Metrics) -> LearnerState:
        """Nothing to do after a gradient step."""
        return state

    def after_rollout(self, state: LearnerState, traj: Trajectory, key: Key) -> LearnerState:
        """Update the strategy's state."""
        aux = self.strategy.after_rollout(state.aux, state.params, traj, key)
        return state.replace(aux=aux)


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


def partner_returns(known: Array, traj: Trajectory) -> Array:
    """[cast]: running estimates of the ego's return with each partner, NaN before the first."""
    latest, met = latest_returns(traj, len(known))
    followed = jnp.where(jnp.isnan(known), latest, known + RETURNS_RATE * (latest - known))
    return jnp.where(met, followed, known)


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

    size: int  # of the cast
    exponent: float = 1.0

    def start(self, params: Any, policy: ActorCriticPolicy, key: Key) -> Array:
        """Returns [cast], not known yet."""
        return jnp.full(self.size, jnp.nan)

    def weights(self, state: Array, weights: Array) -> Array:
        return rank_weights(state, self.exponent, weights > 0)

    def after_rollout(self, state: Array, params: Any, traj: Trajectory, key: Key) -> Array:
        return partner_returns(state, traj)

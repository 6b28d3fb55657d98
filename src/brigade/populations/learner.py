"""A learner that trains many policies in parallel, in the same training loop as one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import (
    Array,
    Everyone,
    Key,
    LearnerState,
    Metrics,
    Outputs,
    Pairing,
    ParameterGroups,
    Policy,
    Seating,
    Trajectory,
    View,
)
from brigade.learners.ppo import PPO
from brigade.populations.generator import Generator
from brigade.train.players import by_member, over_members, places_of


@dataclass(frozen=True)
class PopulationLearner:
    """Applies the learner `base` to every policy, on the seats it played.

    Parameters, optimiser states and batches have leaves [policies, ...]. `aux` of the learner's
    state is the generator's state.
    """

    base: PPO
    generator: Generator

    @property
    def policy(self) -> Policy:
        """The architecture that all policies share."""
        return self.base.policy

    @property
    def members(self) -> int:
        """The number of trained policies."""
        return self.generator.policies

    def groups(self, params: Any) -> ParameterGroups:
        """The roles of the parameters, the same for all policies."""
        return self.base.groups(params)

    def init(self, key: Key) -> LearnerState:
        """Initial parameters of all policies."""
        # In turn: XLA's batched QR (for orthogonal weights) can deadlock on two cores.
        keys = jax.random.split(key, self.members)
        states = jax.lax.map(self.base.init, keys)
        aux = self.generator.init(jax.random.fold_in(key, self.members))
        return LearnerState(states.params, states.opt_state, jnp.int32(0), aux)

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Restart the schedules of all policies."""
        after = jax.vmap(self.base.begin_task)(self._each(state))
        return state.replace(params=after.params, opt_state=after.opt_state, updates=jnp.int32(0))

    def seat(
        self, state: LearnerState, pairing: Pairing, tables: int, seats: int, key: Key
    ) -> Seating:
        """The generator's seating."""
        return self.generator.seat(state.aux, tables, seats, key)

    def cast(self, state: LearnerState, cast: Any) -> Any:
        """The parameters of the generator's partners, if it has any."""
        return self.generator.cast(state.aux, state.params, cast)

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Any, Any]:
        """Prepare each policy's own samples, with the rewards edited by the generator."""
        traj = self.base.per_seat(traj)
        traj = self.generator.pay(state.aux, self.base, state.params, traj)
        each = self.split(traj)
        keys = jax.random.split(key, self.members)
        after, data, index = over_members(self.base.prepare)(self._each(state), each, keys)
        by_batch = jax.tree.map(lambda x: x.swapaxes(0, 1), index)
        return state.replace(updates=after.updates[0]), data, by_batch

    def split(self, traj: Trajectory) -> Trajectory:
        """The rollout of each policy: leaves [policies, T, places * environments, 1 seat, ...]."""
        seating = traj.seating
        assert seating is not None
        tables = len(seating.member)
        own_seats = own_seats_of(traj, tables)
        member = at_seats(seating.member, own_seats)
        seats = member.shape[1]
        places = places_of(member, self.members)

        def per_seat(tree: Any, axis: int = 1) -> Any:
            """Leaves [T, B, seats, ...], or [B, seats, ...] with axis 0."""
            grouped = by_member(tree, places, tables, axis)
            return jax.tree.map(lambda x: jnp.expand_dims(x, axis + 2), grouped)

        def per_env(x: Array) -> Array:
            """Leaves [T, B], the same for every seat."""
            return by_member(jnp.broadcast_to(x[..., None], (*x.shape, seats)), places, tables, 1)

        view, last_view = traj.view, traj.last_view
        if self.generator.critic_ids:
            ids = at_seats(self.generator.critic_id(seating), own_seats)
            ids = jnp.repeat(ids, traj.valid.shape[1] // tables, axis=0)
            view, last_view = with_partner_ids(view, ids), with_partner_ids(last_view, ids)
        shaped = traj.info.get("shaped_reward")
        if shaped is not None and traj.seat is not None:  # partners have the other seats
            shaped = jnp.take_along_axis(shaped, traj.seat[None], axis=-1)
        info = {} if shaped is None else {"shaped_reward": per_seat(shaped)}
        return Trajectory(
            view=per_seat(view),
            action=per_seat(traj.action),
            reward=per_seat(traj.reward),
            terminated=per_env(traj.terminated),
            truncated=per_env(traj.truncated),
            valid=per_env(traj.valid),
            info=info,
            extras=per_seat(traj.extras),
            last_view=per_seat(last_view, 0),
            last=per_seat(traj.last, 0),
        )

    def take(self, data: Any, index: Any) -> Any:
        """One minibatch of every policy."""
        return over_members(self.base.take)(data, index)

    def standalone(self, batch: Any) -> Any:
        """The batches of all policies in a form that can be stored."""
        return over_members(self.base.standalone)(batch)

    def loss(self, params: Any, state: LearnerState, batch: Any, key: Key) -> tuple[Array, Metrics]:
        """The sum over policies, so that each gets the gradient it would get on its own."""
        own_key, shared_key = jax.random.split(key)
        keys = jax.random.split(own_key, self.members)
        losses, metrics = over_members(self.base.loss)(params, self._each(state), batch, keys)
        shared = self.generator.loss(state.aux, self.base, params, batch, shared_key)
        return losses.sum() + shared, jax.tree.map(jnp.mean, metrics)

    def rehearse(self, params: Any, state: LearnerState, batch: Any) -> tuple[Array, Metrics]:
        """The sum of the policies' losses on replayed samples."""
        losses, metrics = over_members(self.base.rehearse)(params, self._each(state), batch)
        return losses.sum(), jax.tree.map(jnp.mean, metrics)

    def outputs(self, params: Any, batch: Any) -> Outputs:
        """The outputs of every policy on its own batch."""
        outputs: Outputs = over_members(self.base.outputs)(params, batch)
        return outputs

    def diagnose(self, params: Any, batch: Any) -> Metrics:
        """Means over the policies."""
        return jax.tree.map(jnp.mean, over_members(self.base.diagnose)(params, batch))

    def apply_gradients(self, state: LearnerState, grads: Any) -> LearnerState:
        """One optimiser step of every policy."""
        after = jax.vmap(self.base.apply_gradients)(self._each(state), grads)
        return state.replace(params=after.params, opt_state=after.opt_state)

    def after_update(self, state: LearnerState, index: Any, metrics: Metrics) -> LearnerState:
        """Nothing to do after a gradient step."""
        return state

    def after_rollout(self, state: LearnerState, traj: Trajectory, key: Key) -> LearnerState:
        """Update the generator's state."""
        return state.replace(aux=self.generator.after(state.aux, state.params, traj, key))

    def _each(self, state: LearnerState) -> LearnerState:
        """The states of all policies, leaves [policies, ...]."""
        updates = jnp.broadcast_to(state.updates, (self.members,))
        return LearnerState(state.params, state.opt_state, updates)


def population_learner(generator: Generator, base: PPO, seats: int) -> PopulationLearner:
    """The learner of a population in a game with so many seats."""
    check_seats(generator, seats)
    own = seats_at_own_tables(generator, seats)
    return PopulationLearner(per_policy_schedules(base, own), generator)


def check_seats(generator: Generator, seats: int) -> None:
    """Check that all policies have the same number of seats; later code relies on it."""
    key = jax.random.key(0)
    trained = generator.seat(generator.init(key), generator.tables, seats, key)
    for seating in (trained, generator.evaluation(seats)[0]):
        own = seating.member[seating.own]
        counts = jnp.bincount(own, length=generator.policies)
        if len(set(counts.tolist())) > 1 or own.size % generator.policies:
            raise ValueError(
                f"{type(generator).__name__} gives its policies {counts.tolist()} seats; each must "
                "have the same number"
            )


def seats_at_own_tables(generator: Generator, seats: int) -> float:
    """How many seats a policy has at a table it plays at, on average."""
    key = jax.random.key(0)
    seating = generator.seat(generator.init(key), generator.tables, seats, key)
    own = [member[at].tolist() for member, at in zip(seating.member, seating.own, strict=True)]
    return sum(map(len, own)) / sum(len(set(table)) for table in own)


def per_policy_schedules(learner: PPO, seats: float) -> PPO:
    """Decay shaped rewards by the environment steps of each policy: it has a sample per seat."""
    shaping = learner.config.shaping_steps
    if shaping is None:
        return learner
    return replace(learner, config=replace(learner.config, shaping_steps=shaping * seats))


def own_seats_of(traj: Trajectory, tables: int) -> Array | None:
    """[tables, own seats]: the population's seats; None if it has all of them."""
    if traj.seat is None:
        return None
    return traj.seat.reshape(tables, -1, traj.seat.shape[-1])[:, 0]


def at_seats(by_seat: Array, seats: Array | None) -> Array:
    """[tables, all seats] -> [tables, own seats]."""
    return by_seat if seats is None else jnp.take_along_axis(by_seat, seats, axis=1)


def with_partner_ids(view: View, ids: Array) -> View:
    """The view with the partner `ids` [B, seats] that the critics get."""
    seat = jnp.broadcast_to(ids, view.active.shape)
    return view.replace(state=Everyone(None, seat))

"""Proximal policy optimisation (PPO), with parameters shared by the seats.

This module turns rollouts into minibatches; the losses are in `losses`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from brigade.core import (
    Array,
    Batch,
    Everyone,
    Key,
    LearnerState,
    Metrics,
    Outputs,
    ParameterGroups,
    Trajectory,
    View,
)
from brigade.learners.losses import (
    clipped_surrogate,
    clipped_value_loss,
    generalised_advantage,
    normalise,
    shuffled_minibatches,
    total_reward,
    weighted_mean,
)
from brigade.learners.ppo_settings import PPOConfig
from brigade.learners.return_scale import ReturnScale
from brigade.learners.scheduled import ScheduledLearner
from brigade.nets import ActorCriticPolicy, ChangingInputs, Joint
from brigade.nets.dormant import dormant_share, recorded_activations
from brigade.nets.encoders import encoder_class
from brigade.nets.layers import FAST_MULTIPLE
from brigade.nets.policy import joint_view


class OneTask(struct.PyTreeNode):
    """What all samples of a rollout have in common because they are of one task."""

    id: Array
    columns: Array  # [kept] int32: indices of the observation entries that change
    constant: Array  # [*observation]: values of the other entries

    def inputs(self, values: Array) -> ChangingInputs:
        """Observations whose changing entries are `values` [..., kept]."""
        return ChangingInputs(values, self.columns, self.constant)

    def joint_inputs(self, values: Array, seats: int) -> ChangingInputs:
        """Concatenated observations of all seats; `values` is [..., seats * kept]."""
        starts = self.constant.size * jnp.arange(seats)[:, None]
        columns = (starts + self.columns).reshape(-1)
        return ChangingInputs(values, columns, jnp.tile(self.constant.reshape(-1), seats))


class NetworkInputs(struct.PyTreeNode):
    """The network's inputs: leaves [samples, ...], or [sequences, T, ...] if it is recurrent."""

    obs: Array  # with `task`, only the columns that change
    avail: Array  # uint8: available actions, eight per byte
    task_id: Array
    joint: Joint | None = None  # extra input of the critic; added when a minibatch is taken
    task: OneTask | None = None  # not per sample
    # For the critic. With partners on some seats: the observations of all seats, not per sample but
    # [timesteps * all seats, ...], and the seat of each sample. In a population: its partner's id.
    everyone: Array | None = None
    seat: Array | None = None
    # For a recurrent core: where its state is reset, and the initial states [sequences, ...].
    first: Array | None = None
    carry: Any = None


class Samples(Batch):
    """One entry per timestep, environment and seat: leaves [samples, ...]."""

    inputs: Any  # NetworkInputs, or sequences of them
    action: Array
    log_prob: Array
    value: Array
    advantage: Array
    target: Array
    weight: Array  # f32: 1 where the seat was active, for the policy loss
    value_weight: Array  # f32: 1 for every step that was played, for the value loss

    @property
    def weights(self) -> Array:
        """Where the seat was active."""
        return self.weight

    @property
    def timesteps(self) -> int:
        """1, or the length of a sequence."""
        return math.prod(self.weight.shape[1:])


@dataclass(frozen=True)
class PPO(ScheduledLearner):
    """PPO on the learner's own seats."""

    policy: ActorCriticPolicy
    config: PPOConfig
    changing_inputs: int | None = None  # upper bound on observation entries that change in a task

    @property
    def seats(self) -> int:
        """The number of seats a central critic sees; 0 without one."""
        return self.policy.network.central_seats

    @property
    def joins_seats(self) -> bool:
        """Whether the critic sees all seats of a table."""
        return bool(self.seats)

    @property
    def num_tasks(self) -> int:
        """The number of tasks that the network was built for."""
        return self.policy.network.num_tasks

    def groups(self, params: Any) -> ParameterGroups:
        """The roles of the parameters, as declared by the network."""
        return self.policy.network.groups(params)

    def init(self, key: Key) -> LearnerState:
        """Initial parameters and optimiser state, and the scale of returns if it is used."""
        scale = ReturnScale.initial() if self.config.normalise_value else None
        return super().init(key).replace(aux=scale)

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Samples, Array]:
        """Compute advantages, and shuffle the samples into minibatches for every epoch."""
        inputs = self._inputs_of(traj.view)
        value, log_prob = self._values_and_log_probs(state.params, traj, inputs)
        state, samples = self._samples(state, traj, log_prob, value)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), samples).replace(inputs=inputs)
        return state, flat, self._minibatches(key, traj.view.active.size)

    def per_seat(self, traj: Trajectory) -> Trajectory:
        """The rollout with shared shaped rewards summed, so that seats can be separated."""
        if "shaped_reward" not in traj.info or not self.config.share_shaping:
            return traj
        shaped = traj.info["shaped_reward"]
        shared = jnp.broadcast_to(shaped.sum(-1, keepdims=True), shaped.shape)
        return traj.replace(info=traj.info | {"shaped_reward": shared})

    def _minibatches(self, key: Key, samples: int) -> Array:
        """Indices [epochs * minibatches, ...], with every sample once per epoch."""
        return shuffled_minibatches(key, samples, self.config.epochs, self.config.minibatches)

    def _samples(
        self, state: LearnerState, traj: Trajectory, log_prob: Array, value: Array
    ) -> tuple[LearnerState, Samples]:
        """The next state, and the samples without the inputs: leaves [T, B, seats, ...]."""
        cfg, scale = self.config, state.aux
        expected = value if scale is None else scale.returns(value)
        shaping = self.shaping_weight(state.updates, traj.steps)
        bootstraps = cfg.time_limit == "bootstrap"
        advantage = generalised_advantage(
            total_reward(traj, shaping, cfg.share_shaping),
            expected,
            traj.terminated if bootstraps else traj.terminated | traj.truncated,
            traj.terminated | traj.truncated,
            cfg.gamma,
            cfg.gae_lambda,
        )
        played = jnp.broadcast_to(traj.valid[..., None], traj.view.active.shape)
        target, value_weight = advantage + expected[:-1], played.astype(jnp.float32)
        if scale is not None:
            scale = scale.updated(target, value_weight)
            target = scale.values(target)
        return state.replace(updates=state.updates + 1, aux=scale), Samples(
            inputs=None,
            action=traj.action,
            log_prob=log_prob,
            value=value[:-1],
            advantage=advantage,
            target=target,
            weight=(traj.view.active & played).astype(jnp.float32),
            value_weight=value_weight,
        )

    def _inputs_of(self, view: View) -> NetworkInputs:
        """The views of a rollout as samples, without observation entries that never change."""
        obs, avail, task_id = (
            x.reshape(-1, *x.shape[3:])
            for x in (view.obs, jnp.packbits(view.avail, axis=-1), view.task_id)
        )
        everyone, seat = None, None
        if isinstance(view.state, Everyone):
            seat = view.state.seat.reshape(-1)
            if view.state.obs is not None:  # partners have some of the seats
                everyone = view.state.obs.reshape(-1, *obs.shape[1:])
        if self.changing_inputs is None:
            return NetworkInputs(obs, avail, task_id, everyone=everyone, seat=seat)
        inputs = ChangingInputs.of(obs if everyone is None else everyone, self.changing_inputs)
        task = OneTask(task_id[0], inputs.columns, inputs.constant)
        if everyone is None:
            return NetworkInputs(inputs.values, avail, task_id, task=task, seat=seat)
        values = jnp.take(obs.reshape(len(obs), -1), inputs.columns, axis=1, mode="clip")
        return NetworkInputs(values, avail, task_id, task=task, everyone=inputs.values, seat=seat)

    def _values_and_log_probs(
        self, params: Any, traj: Trajectory, inputs: NetworkInputs
    ) -> tuple[Array, Array]:
        """Values [T + 1, B, seats] and log-probabilities [T, B, seats] of a rollout.

        Recurrent policies record both while acting. Otherwise they are computed here for all steps
        at once, which is faster than step by step.
        """
        if "value" in traj.extras:
            value, last = traj.extras["value"], traj.last["value"]
            return jnp.concatenate([value, last[None]]), traj.extras["log_prob"]
        end, shape = traj.last_view, traj.view.active.shape
        out = self._rollout_outputs(params, inputs)
        joint = joint_view(end, self.seats, len(self.policy.obs_shape))
        after = self.policy.outputs(params, end.obs, end.task_id, end.avail, joint)
        assert out.value is not None
        assert after.value is not None
        logits = out.logits.reshape(*shape, -1)
        value = jnp.concatenate([out.value.reshape(shape), after.value[None]])
        return value, self.policy.distribution.log_prob(logits, traj.action)

    def _rollout_outputs(self, params: Any, inputs: NetworkInputs) -> Outputs:
        """Outputs for all samples of a rollout."""
        samples = jnp.arange(len(inputs.task_id))
        if encoder_class(self.policy.network.encoder).flattens:
            return self._forward(params, self._with_joint(inputs, inputs, samples))
        # The feature maps of all samples at once would not fit into GPU memory.
        parts = samples.reshape(self.config.minibatches, -1)
        out: Outputs = jax.lax.map(
            lambda index: self._forward(params, self._take_inputs(inputs, index)), parts
        )
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), out)

    def take(self, data: Samples, index: Array) -> Samples:
        """One minibatch."""
        rows: Samples = take_rows(data.replace(inputs=None), index)
        return rows.replace(inputs=self._take_inputs(data.inputs, index))

    def _take_inputs(self, inputs: NetworkInputs, index: Array) -> NetworkInputs:
        rows = take_rows(inputs.replace(task=None, everyone=None), index)
        return self._with_joint(inputs, rows.replace(task=inputs.task), index)

    def _with_joint(
        self, everything: NetworkInputs, rows: NetworkInputs, index: Array
    ) -> NetworkInputs:
        """Add the critic's extra input: the observations of all seats, or the partner's id."""
        if self.policy.network.critic_ids and rows.seat is not None:
            return rows.replace(joint=Joint(None, rows.seat), seat=None)
        if not self.seats:
            return rows
        obs, seat = everything.obs, index % self.seats
        if everything.everyone is not None and rows.seat is not None:
            obs, seat = everything.everyone, rows.seat
        by_timestep = obs.reshape(len(obs) // self.seats, -1)
        own_seats = len(everything.obs) // len(by_timestep)
        joint_obs = jnp.take(by_timestep, index // own_seats, axis=0, mode="clip")
        return rows.replace(joint=Joint(joint_obs, seat), everyone=None, seat=None)

    def standalone(self, batch: Samples) -> Samples:
        """The batch with full observations, to be stored and mixed with other tasks' samples."""
        inputs, task = batch.inputs, batch.inputs.task
        if task is None:
            return batch
        joint = inputs.joint
        if joint is not None and joint.obs is not None:
            joint = joint.replace(obs=task.joint_inputs(joint.obs, self.seats).whole())
        whole = task.inputs(inputs.obs).whole()
        return batch.replace(inputs=inputs.replace(obs=whole, joint=joint, task=None))

    def loss(
        self, params: Any, state: LearnerState, batch: Samples, key: Key
    ) -> tuple[Array, Metrics]:
        """Policy loss, value loss and entropy bonus. Inactive seats count for the value only."""
        cfg, distribution = self.config, self.policy.distribution
        out = self.outputs(params, batch)
        assert out.value is not None
        advantage = batch.advantage
        if cfg.normalise_advantage:
            advantage = normalise(advantage, batch.weight)
        new_log_prob = distribution.log_prob(out.logits, batch.action)
        surrogate = clipped_surrogate(new_log_prob, batch.log_prob, advantage, cfg.clip)
        value_error = clipped_value_loss(out.value, batch.value, batch.target, cfg.value_clip)
        policy_loss = -weighted_mean(surrogate, batch.weight)
        value_loss = weighted_mean(value_error, batch.value_weight)
        entropy = weighted_mean(distribution.entropy(out.logits), batch.weight)
        entropy_coef = self._entropy_coef(state.updates)
        total = policy_loss + cfg.value_coef * value_loss - entropy_coef * entropy
        approx_kl = weighted_mean(batch.log_prob - new_log_prob, batch.weight)
        return total, {
            "loss": total,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": approx_kl,
        }

    def rehearse(
        self, params: Any, state: LearnerState, batch: Samples, probability: Array | None = None
    ) -> tuple[Array, Metrics]:
        """Behaviour cloning of the stored actions, plus the value loss.

        The surrogate is no use here. It improves on an old policy that no longer exists, and it has
        no gradient where a good action has become unlikely, because the ratio there is 0.
        """
        out = self.outputs(params, batch)
        assert out.value is not None
        negative_log_prob = -self.policy.distribution.log_prob(out.logits, batch.action)
        value_error = clipped_value_loss(out.value, batch.value, batch.target, clip=None)
        cloning = weighted_mean(negative_log_prob, batch.weight)
        value_loss = weighted_mean(value_error, batch.value_weight)
        return cloning + self.config.value_coef * value_loss, {}

    def outputs(self, params: Any, batch: Samples) -> Outputs:
        """Logits and values of a batch."""
        return self._forward(params, batch.inputs)

    def diagnose(self, params: Any, batch: Samples) -> Metrics:
        """The share of dormant units in the policy's hidden layers."""
        with recorded_activations() as layers:
            self.outputs(params, batch)
        return {"dormant": dormant_share(layers)}

    def _forward(self, params: Any, inputs: NetworkInputs) -> Outputs:
        obs, task_id, avail, joint = self._arguments(inputs)
        return self.policy.outputs(params, obs, task_id, avail, joint)

    def _arguments(
        self, inputs: NetworkInputs
    ) -> tuple[Array | ChangingInputs, Array, Array, Joint | None]:
        """The network's arguments: observations, task ids, available actions, critic input."""
        task, joint = inputs.task, inputs.joint
        avail = unpacked_avail(inputs.avail, self.policy.network.num_actions)
        if task is None:
            return inputs.obs, inputs.task_id, avail, joint
        if joint is not None and joint.obs is not None:
            joint = joint.replace(obs=task.joint_inputs(joint.obs, self.seats))
        return task.inputs(inputs.obs), task.id, avail, joint

    def optimizer(self) -> optax.GradientTransformation:
        """Adam with clipped gradients."""
        # All parameters as one vector: a few GPU kernels instead of a few per parameter.
        return optax.flatten(
            optax.chain(
                optax.clip_by_global_norm(self.config.max_grad_norm),
                optax.scale_by_adam(eps=self.config.adam_eps),
            )
        )

    def _entropy_coef(self, updates: Array) -> Array | float:
        cfg = self.config
        if not cfg.entropy_schedule:
            return cfg.entropy_coef
        weights = jnp.array(cfg.entropy_schedule)
        return jnp.interp(self.share_done(updates), jnp.array(cfg.milestones), weights)


def take_rows(tree: Any, index: Array) -> Any:
    """Leaves [rows, ...] -> [chosen, ...]."""
    return jax.tree.map(lambda x: jnp.take(x, index, axis=0, mode="clip"), tree)


def unpacked_avail(bits: Array, num_actions: int) -> Array:
    """Unpack bytes to one bool per action."""
    return jnp.unpackbits(bits, axis=-1, count=num_actions).astype(bool)


def kept_inputs(changing: int | None, entries: int) -> int | None:
    """How many columns to keep, rounded up to a fast size; None if that would not save any."""
    if changing is None:
        return None
    kept = -(-changing // FAST_MULTIPLE) * FAST_MULTIPLE
    return kept if kept < entries else None

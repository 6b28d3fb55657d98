"""Recurrent Q-learning with prioritised replay (R2D2), each seat for itself or seats summed (VDN).

Rollouts are cut into sequences. Each is stored with the recurrent state the policy had at its
start. A rollout is followed by a number of gradient steps on sequences sampled from the buffer.

Reference: S. Kapturowski and others, *Recurrent experience replay in distributed reinforcement
learning*, ICLR 2019; P. Sunehag and others, *Value-decomposition networks for cooperative
multi-agent learning based on team reward*, AAMAS 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from flax import struct

from brigade.core import Array, Key, LearnerState, Metrics, Trajectory
from brigade.learners import prioritised
from brigade.learners.ppo import take_rows
from brigade.learners.q_sequences import (
    SequenceBatch,
    SequenceLearner,
    Sequences,
    at_action,
    counted,
    outputs_of,
    prediction_loss,
)
from brigade.learners.q_settings import QConfig, QLearning
from brigade.nets.q_network import QOutputs

FEW_SHOT_TARGET_EVERY = 5  # gradient steps of a clone between updates of its target network
LEAST_PRIORITY = 1e-3  # of sequences without reward, when rewards are the priority


class QBatch(SequenceBatch):
    """A minibatch of sequences from the buffer."""

    importance: Array  # [sequences] f32


class Sampled(struct.PyTreeNode):
    """What selects minibatches: leaves [gradient steps, batch size]."""

    slot: Array  # int32, in the buffer
    importance: Array  # f32


class ReplayState(struct.PyTreeNode):
    """What Q-learning keeps beside the parameters."""

    target: Any  # parameters of the target network
    steps: Array  # int32: gradient steps so far
    buffer: Any = None  # a prioritised.Buffer once `allocate` has seen a rollout


@dataclass(frozen=True)
class QLearner(SequenceLearner):
    """Recurrent double Q-learning on the learner's own seats."""

    config: QConfig

    def init(self, key: Key) -> LearnerState:
        """Initial parameters and optimiser state, without a buffer."""
        state = super().init(key)
        return state.replace(aux=ReplayState(state.params, jnp.int32(0)))

    @property
    def keeps_samples(self) -> bool:
        return True

    def allocate(self, state: LearnerState, traj: Trajectory) -> LearnerState:
        """Reserve the replay buffer, for sequences such as those of `traj`."""
        sequences = self.sequences(state, traj)
        number, cfg = len(sequences.reward), self.config
        if cfg.burn_in >= sequences.length:
            raise ValueError(
                f"burn_in is {cfg.burn_in}; it must be below {sequences.length}, a sequence"
            )
        if number > cfg.buffer_size:
            raise ValueError(
                f"buffer_size is {cfg.buffer_size}, but a rollout has {number} sequences; use a "
                "larger buffer or fewer environments"
            )
        if cfg.warm_up > number * self.updates_per_task:
            raise ValueError(
                f"warm_up is {cfg.warm_up}, but a task has {number * self.updates_per_task} "
                "sequences, so nothing would be learned; use a smaller warm-up or more steps"
            )
        buffer = prioritised.empty(sequences, self.config.buffer_size)
        return state.replace(aux=state.aux.replace(buffer=buffer))

    def for_few_shot(self) -> QLearner:
        """The learner of a clone that is trained for a few updates.

        It has a smaller buffer, learns from the first batch on, at the rate that a task ends with,
        and renews its target network every few gradient steps.
        """
        cfg = self.config
        size, warm_up = min(cfg.buffer_size, cfg.few_shot_buffer), min(cfg.warm_up, cfg.batch_size)
        config = replace(
            cfg,
            buffer_size=size,
            warm_up=warm_up,
            learning_rate=cfg.final_learning_rate or cfg.learning_rate,
            final_learning_rate=None,
            target_every=min(cfg.target_every, FEW_SHOT_TARGET_EVERY),
        )
        return replace(self, config=config)

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Empty the buffer and restart the schedules; the target network catches up."""
        replay = state.aux.replace(target=state.params)
        if replay.buffer is not None:
            replay = replay.replace(buffer=prioritised.cleared(replay.buffer))
        return super().begin_task(state).replace(aux=replay)

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Sequences, Sampled]:
        """Store the rollout, and sample the sequences of all gradient steps."""
        cfg, replay = self.config, state.aux
        fresh = self.sequences(state, traj)
        rewards = jnp.abs(fresh.reward).sum(-1) + LEAST_PRIORITY
        given = rewards if cfg.priority == "reward" else None
        buffer = prioritised.add(replay.buffer, fresh, given)
        ready = (buffer.filled >= cfg.warm_up).astype(jnp.float32)

        def sampled(key: Key) -> Sampled:
            slot, probability = prioritised.sample(
                buffer, cfg.batch_size, self._priority_exponent, key
            )
            weights = prioritised.importance_weights(
                probability, buffer.filled, cfg.importance_exponent
            )
            return Sampled(slot, ready * weights)

        index = jax.vmap(sampled)(jax.random.split(key, cfg.gradient_steps))
        state = state.replace(updates=state.updates + 1, aux=replay.replace(buffer=buffer))
        return state, buffer.entries, index

    @property
    def _priority_exponent(self) -> float:
        return 0.0 if self.config.priority == "uniform" else self.config.priority_exponent

    def take(self, data: Sequences, index: Sampled) -> QBatch:
        """One minibatch."""
        return QBatch(take_rows(data, index.slot), index.importance)

    def loss(
        self, params: Any, state: LearnerState, batch: QBatch, key: Key
    ) -> tuple[Array, Metrics]:
        """Huber loss of the n-step errors, summed over a sequence, and the auxiliary loss."""
        error, predicted = self._errors(params, state.aux.target, batch.sequences, key)
        total = (batch.importance * (optax.huber_loss(error).sum(-1) + predicted)).mean()
        size = jnp.abs(jax.lax.stop_gradient(error))
        share = self.config.priority_max_share
        number = jnp.maximum(counted(batch.sequences, self.config.burn_in).sum(-1), 1.0)
        priority = share * size.max(-1) + (1 - share) * size.sum(-1) / number
        return total, {"loss": total, "td_error": size.mean(), "priority": priority}

    def keep(self, state: LearnerState, number: int, key: Key) -> tuple[QBatch, Array]:
        """Different sequences of the task, sampled later as they are now: by their priorities.

        If there are fewer, they are repeated without weight.
        """
        buffer: prioritised.Buffer = state.aux.buffer
        number = min(number, buffer.size)
        in_use = jnp.arange(buffer.size) < buffer.filled
        order = jnp.argsort(jnp.where(in_use, jax.random.uniform(key, (buffer.size,)), 2.0))
        slots = order[jnp.arange(number) % jnp.maximum(buffer.filled, 1)]
        weight = buffer.priority[slots] ** self._priority_exponent
        different = jnp.arange(number) < buffer.filled
        return QBatch(take_rows(buffer.entries, slots), jnp.ones(number)), weight * different

    def rehearse(
        self, params: Any, state: LearnerState, batch: QBatch, probability: Array | None = None
    ) -> tuple[Array, Metrics]:
        """The same loss on sequences of earlier tasks."""
        error, predicted = self._errors(params, state.aux.target, batch.sequences)
        each = optax.huber_loss(error).sum(-1) + predicted
        if probability is not None:
            each *= prioritised.importance_weights(
                probability, jnp.int32(1), self.config.importance_exponent
            )
        return each.mean(), {}

    def _errors(
        self, params: Any, target: Any, sequences: Sequences, dropout: Key | None = None
    ) -> tuple[Array, Array]:
        """Errors of the chosen actions' values [sequences, T], 0 where they do not count, and the
        auxiliary loss [sequences]."""
        cfg = self.config
        counts = counted(sequences, cfg.burn_in)
        out = outputs_of(self.policy, params, sequences, cfg.burn_in, dropout)
        chosen = at_action(out.values[:, :-1], sequences.action).sum(-1)
        of_target = jax.lax.stop_gradient(
            outputs_of(self.policy, target, sequences, cfg.burn_in).values
        )
        best = (out.values if cfg.double else of_target).argmax(-1)
        after = at_action(of_target, best).sum(-1)  # [sequences, T + 1]
        returns = n_step_returns(
            sequences.reward,
            after,
            sequences.terminated,
            sequences.truncated,
            cfg.gamma,
            cfg.n_step,
        )
        return (returns - chosen) * counts, self._auxiliary(out, sequences, counts)

    def _auxiliary(self, out: QOutputs, sequences: Sequences, counts: Array) -> Array:
        """The weighted auxiliary loss [sequences], summed over timesteps, the mean over seats."""
        if not self.aux or out.predictions is None or sequences.target is None:
            return jnp.zeros(len(counts))
        each = prediction_loss(out.predictions[:, :-1], sequences.target)
        return self.aux * (each.mean(-1) * counts).sum(-1)

    def apply_gradients(self, state: LearnerState, grads: Any) -> LearnerState:
        """One step of the optimiser at the current learning rate; none in the warm-up."""
        stepped = super().apply_gradients(state, grads)
        # Momentum and the gradients of continual methods would move the parameters, too.
        ready = state.aux.buffer.filled >= self.config.warm_up
        params, opt_state = jax.tree.map(
            lambda new, old: jnp.where(ready, new, old),
            (stepped.params, stepped.opt_state),
            (state.params, state.opt_state),
        )
        return state.replace(params=params, opt_state=opt_state)

    def after_update(self, state: LearnerState, index: Sampled, metrics: Metrics) -> LearnerState:
        """New priorities of the sampled sequences; from time to time a new target network."""
        replay = state.aux
        learned = index.importance.max() > 0  # not in the warm-up
        old = replay.buffer.priority[index.slot]
        by_error = learned & (self.config.priority != "reward")
        priority = jnp.where(by_error, metrics["priority"], old)
        steps = replay.steps + learned.astype(jnp.int32)
        renew = learned & (steps % self.config.target_every == 0)
        target = jax.tree.map(lambda p, t: jnp.where(renew, p, t), state.params, replay.target)
        buffer = prioritised.reprioritise(replay.buffer, index.slot, priority)
        return state.replace(aux=ReplayState(target, steps, buffer))

    def optimizer(self) -> optax.GradientTransformation:
        """Adam or SGD, with clipped gradients."""
        cfg = self.config
        rule = (
            optax.scale_by_adam(eps=cfg.adam_eps)
            if cfg.optimizer == "adam"
            else optax.trace(cfg.momentum)
        )
        return optax.chain(optax.clip_by_global_norm(cfg.max_grad_norm), rule)

    def learning_rate(self, updates: Array) -> Array | float:
        """It changes exponentially, if at all."""
        first, last = self.config.learning_rate, self.config.final_learning_rate
        if last is None:
            return first
        rate: Array = first * (last / first) ** self.share_done(updates)
        return rate


@dataclass(frozen=True)
class JointQLearner(QLearner):
    """The same, with the values of all own seats summed (VDN)."""

    @property
    def joins_seats(self) -> bool:
        return True


def n_step_returns(
    reward: Array, value: Array, terminated: Array, truncated: Array, gamma: float, steps: int
) -> Array:
    """Up to `steps` rewards and then the value, [..., T]; `value` is [..., T + 1].

    The value comes earlier at the end of the sequence and of a truncated episode. After a
    terminated episode there is none.
    """
    last = value[..., -1:]
    returns = value
    for _ in range(steps):
        later = jnp.where(truncated, value[..., 1:], returns[..., 1:])
        returns = jnp.concatenate([reward + gamma * ~terminated * later, last], axis=-1)
    return returns[..., :-1]


@dataclass(frozen=True)
class IQL(QLearning):
    """Recurrent Q-learning with replay (R2D2), every seat for itself."""

    q: QConfig = field(default_factory=QConfig)

    learner: ClassVar[type[SequenceLearner]] = QLearner


@dataclass(frozen=True)
class VDN(IQL):
    """Like IQL, with the values of all own seats summed (a team's)."""

    learner: ClassVar[type[SequenceLearner]] = JointQLearner

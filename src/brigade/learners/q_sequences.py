"""Rollouts cut into sequences for Q-learning, and what a network says about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Batch, Key, LearnerState, Outputs, ParameterGroups, Trajectory
from brigade.learners.losses import total_reward
from brigade.learners.ppo import unpacked_avail
from brigade.learners.recurrent import sequence_length
from brigade.learners.scheduled import ScheduledLearner
from brigade.nets.q_network import QOutputs
from brigade.nets.q_policy import QPolicy, Seen


class Sequences(struct.PyTreeNode):
    """Experience of T timesteps, of the seats whose values are summed, as each of them saw it."""

    obs: Array  # [sequences, T + 1, seats, *observation]
    avail: Array  # [sequences, T + 1, seats, bytes] packed bits
    first: Array  # [sequences, T + 1, seats] bool
    carry: Any  # [sequences, seats, ...] at the first timestep
    action: Array  # [sequences, T, seats] int32
    active: Array  # [sequences, T, seats] bool
    reward: Array  # [sequences, T] f32: the mean over seats
    terminated: Array  # [sequences, T] bool
    truncated: Array  # [sequences, T] bool
    valid: Array  # [sequences, T] bool: False for a slot without a step
    move: Array | None = None  # [sequences, T + 1, seats] int32: with SAD, the last greedy move
    target: Array | None = None  # [sequences, T, seats, items] int8: classes to predict, or -1

    @property
    def length(self) -> int:
        """Timesteps per sequence."""
        return int(self.valid.shape[1])


class SequenceBatch(Batch):
    """A minibatch of sequences; subclasses add what their loss needs, [sequences, ...]."""

    sequences: Sequences

    @property
    def weights(self) -> Array:
        """[sequences, T * seats] f32: 1 where a seat acted."""
        acted = self.sequences.active & self.sequences.valid[..., None]
        return acted.reshape(len(acted), -1).astype(jnp.float32)

    @property
    def timesteps(self) -> int:
        """Timesteps per sequence, counted for every seat."""
        return int(self.sequences.action[0].size)


@dataclass(frozen=True)
class SequenceLearner(ScheduledLearner):
    """What learners of values from sequences have in common."""

    policy: QPolicy
    num_tasks: int = 1
    aux: float = 0.0  # weight of the auxiliary loss

    @property
    def evaluates_greedily(self) -> bool:
        return True

    def carry_every(self, num_steps: int) -> int:
        """At the start of every sequence; by default the whole rollout is one."""
        return sequence_length(self.config.sequence_length or num_steps, num_steps)

    def sequences(self, state: LearnerState, traj: Trajectory) -> Sequences:
        """The sequences of a rollout."""
        reward = total_reward(
            traj, self.shaping_weight(state.updates, traj.steps), self.config.share_shaping
        )
        return cut(self.policy, traj, reward, self.carry_every(len(traj.action)), self.joins_seats)

    def groups(self, params: Any) -> ParameterGroups:
        """The roles of the parameters, as declared by the network."""
        return self.policy.network.groups(params)

    def outputs(self, params: Any, batch: SequenceBatch) -> Outputs:
        """Values of all actions in place of logits [sequences, T * seats, actions]."""
        values = outputs_of(self.policy, params, batch.sequences).values[:, :-1]
        return Outputs(values.reshape(len(values), -1, values.shape[-1]), None)


def cut(policy: QPolicy, traj: Trajectory, reward: Array, length: int, joint: bool) -> Sequences:
    """Sequences of a rollout; if not `joint`, every seat has its own."""
    view, last, steps = traj.view, traj.last_view, traj.action.shape[0]
    starts = range(0, steps, length)

    def split_seats(x: Array) -> Array:
        """[starts, T, B, seats, ...] -> [sequences, T, summed seats, ...]."""
        x = jnp.moveaxis(x, 1, 2)  # [starts, B, T, seats, ...]
        if not joint:
            x = jnp.moveaxis(x, 3, 2)[:, :, :, :, None]
            return x.reshape(-1, *x.shape[3:])
        return x.reshape(-1, *x.shape[2:])

    def with_end(x: Any, end: Any) -> Array:
        whole = jnp.concatenate([x, end[None]])
        return split_seats(jnp.stack([whole[t : t + length + 1] for t in starts]))

    def steps_of(x: Array) -> Array:
        return split_seats(x.reshape(len(starts), length, *x.shape[1:]))

    def of_game(x: Array) -> Array:
        """[T, B] -> [sequences, T]."""
        every_seat = jnp.broadcast_to(x[..., None], (*x.shape, view.active.shape[2]))
        return steps_of(every_seat)[:, :, 0]

    def seen(view: Any, extras: Any) -> Seen:
        renamed = policy.seen(view.obs, view.avail, extras["symmetry"], None)
        return Seen(renamed.obs, jnp.packbits(renamed.avail, -1), extras["move"])

    now, end = seen(view, traj.extras), seen(last, traj.last)
    target = traj.extras.get("targets", {})
    return Sequences(
        obs=with_end(now.obs, end.obs),
        avail=with_end(now.avail, end.avail),
        first=with_end(view.resets, last.resets),
        carry=jax.tree.map(lambda x: split_seats(x[:, None])[:, 0], traj.carry_at(length)),
        action=steps_of(traj.extras["choice"]),
        active=steps_of(view.active),
        reward=steps_of(reward).mean(-1),
        terminated=of_game(traj.terminated),
        truncated=of_game(traj.truncated),
        valid=of_game(traj.valid),
        move=None if now.move is None else with_end(now.move, end.move),
        target=steps_of(target[policy.predicts[0]]) if policy.predicts else None,
    )


def outputs_of(
    policy: QPolicy, params: Any, sequences: Sequences, burn_in: int = 0, dropout: Key | None = None
) -> QOutputs:
    """Values of all actions [sequences, T + 1, seats, actions], and predictions alike."""
    avail = unpacked_avail(sequences.avail, policy.network.num_actions)
    seen, first = jax.tree.map(
        lambda x: x.swapaxes(0, 1), (Seen(sequences.obs, avail, sequences.move), sequences.first)
    )
    carry, parts = sequences.carry, []
    for start, end in ((0, burn_in), (burn_in, len(first))):
        if start == end:
            continue
        steps = jax.tree.map(lambda x, s=start, e=end: x[s:e], seen)
        out = policy.values(params, steps, first[start:end], carry, dropout)
        if end == burn_in:  # no gradient goes through the burn-in
            out = jax.lax.stop_gradient(out)
        carry = out.carry
        parts.append(out._replace(carry=()))
    whole = jax.tree.map(lambda *x: jnp.concatenate(x).swapaxes(0, 1), *parts)
    return QOutputs(whole.values, carry, whole.predictions)


def counted(sequences: Sequences, burn_in: int) -> Array:
    """[sequences, T] f32: 1 for steps that were played, after the burn-in."""
    later = jnp.arange(sequences.length) >= burn_in
    return (sequences.valid & later).astype(jnp.float32)


def prediction_loss(logits: Array, target: Array) -> Array:
    """Cross-entropy [...] of classes: the mean over the items that have one (`target` >= 0).

    `logits` are [..., items * classes], `target` [..., items].
    """
    logits = logits.reshape(*target.shape, -1)
    known = target >= 0
    label = jnp.where(known, target, 0).astype(jnp.int32)
    cross_entropy = -jnp.take_along_axis(jax.nn.log_softmax(logits), label[..., None], axis=-1)
    return (cross_entropy[..., 0] * known).sum(-1) / jnp.maximum(known.sum(-1), 1)


def at_action(values: Array, action: Array) -> Array:
    """[..., actions], [...] -> [...]."""
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]

"""PPO for policies that remember: whole sequences are shuffled, not single steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Everyone, Key, LearnerState, Outputs, Trajectory
from brigade.learners.ppo import PPO, Samples, allowed
from brigade.nets import Joint, RecurrentPolicy


class Sequences(struct.PyTreeNode):
    """What one seat of one environment was shown in a rollout: leaves [sequences, T, ...]."""

    obs: Array
    avail: Array  # uint8: which actions are allowed, eight to a byte
    task_id: Array
    first: Array
    carry: Any  # [sequences, size]: the memories before the first step
    joint: Joint | None = None
    # For a central critic where partners have some of the seats: what all seats saw [environments,
    # T, seats, ...], and which seat a sequence is of [sequences, T].
    everyone: Array | None = None
    seat: Array | None = None


@dataclass(frozen=True)
class RecurrentPPO(PPO):
    """The gradient flows back through a whole rollout of each seat."""

    policy: RecurrentPolicy

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Samples, Array]:
        """One sequence per environment and seat, shuffled into minibatches every epoch."""
        value = jnp.concatenate([traj.extras["value"], traj.last["value"][None]])
        samples = self._samples(state, traj, traj.extras["log_prob"], value)
        view = traj.view
        shown = (view.obs, jnp.packbits(view.avail, axis=-1), view.task_id, view.first)
        samples, (obs, avail, task_id, first) = jax.tree.map(by_sequence, (samples, shown))
        carry = jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), traj.carry)
        seen = Sequences(obs, avail, task_id, first, carry)
        if isinstance(view.state, Everyone):
            everyone, seat = jnp.moveaxis(view.state.obs, 0, 1), by_sequence(view.state.seat)
            seen = seen.replace(everyone=everyone, seat=seat)
        index = self._minibatches(key, len(obs))
        return state.replace(updates=state.updates + 1), samples.replace(seen=seen), index

    def take(self, data: Samples, index: Array) -> Samples:
        """The sequences of one minibatch."""
        everyone = data.seen.everyone
        rows = jax.tree.map(
            lambda x: jnp.take(x, index, axis=0, mode="clip"),
            data.replace(seen=data.seen.replace(everyone=None)),
        )
        if not self.seats:
            return rows
        sequences, steps = data.seen.obs.shape[:2]
        seat = jnp.broadcast_to((index % self.seats)[:, None], (len(index), steps))
        if everyone is None:
            obs = data.seen.obs.reshape(-1, self.seats, *data.seen.obs.shape[1:])
            everyone = obs.swapaxes(1, 2)  # [environments, T, seats, ...]
        else:
            seat = rows.seen.seat
        num_envs = len(everyone)
        together = everyone.reshape(num_envs, steps, -1)
        theirs = jnp.take(together, index // (sequences // num_envs), axis=0)
        return rows.replace(seen=rows.seen.replace(joint=Joint(theirs, seat), seat=None))

    def standalone(self, batch: Samples) -> Samples:
        """Sequences stand alone already."""
        return batch

    def outputs(self, params: Any, batch: Samples) -> Outputs:
        """Logits and values [sequences, T, ...]."""
        seen = batch.seen
        in_time: Any = jax.tree.map(
            lambda x: x.swapaxes(0, 1), (seen.obs, seen.task_id, seen.avail, seen.first, seen.joint)
        )
        obs, task_id, avail, first, joint = in_time
        avail = allowed(avail, self.policy.network.num_actions)
        out, _ = self.policy.recall(params, obs, task_id, avail, first, seen.carry, joint)
        assert out.value is not None
        return Outputs(out.logits.swapaxes(0, 1), out.value.swapaxes(0, 1))


def by_sequence(x: Array) -> Array:
    """[T, B, seats, ...] -> [B * seats, T, ...]."""
    steps, *rest = x.shape
    return jnp.moveaxis(x, 0, 2).reshape(rest[0] * rest[1], steps, *rest[2:])

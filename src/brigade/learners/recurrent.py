"""PPO for recurrent policies, with minibatches of whole sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, LearnerState, Outputs, Trajectory
from brigade.learners.ppo import PPO, NetworkInputs, Samples, take_rows
from brigade.nets import Joint, RecurrentPolicy

USUAL_LENGTH = 50


@dataclass(frozen=True)
class RecurrentPPO(PPO):
    """PPO with truncated backpropagation through time.

    A rollout is cut into sequences. Each starts from the recurrent state the policy had there when
    it acted. Shorter sequences mean wider minibatches and shorter loops, which are faster.
    """

    policy: RecurrentPolicy

    def carry_every(self, num_steps: int) -> int:
        """At the start of every sequence."""
        return sequence_length(self.config.sequence_length, num_steps)

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Samples, Array]:
        """Compute advantages, and shuffle the sequences into minibatches for every epoch."""
        shape = traj.view.active.shape  # [T, B, seats]
        length = sequence_length(self.config.sequence_length, shape[0])
        flat = self._inputs_of(traj.view)
        value, log_prob = self._values_and_log_probs(state.params, traj, flat)
        state, samples = self._samples(state, traj, log_prob, value)

        def cut(x: Array) -> Array:
            return by_sequence(x.reshape(*shape, *x.shape[1:]), length)

        everyone = flat.everyone
        if everyone is not None:  # [sequences of environments, T, all seats, ...]
            everyone = everyone.reshape(*shape[:2], 1, -1, *everyone.shape[1:])
            everyone = by_sequence(everyone, length)
        inputs = NetworkInputs(
            obs=cut(flat.obs),
            avail=cut(flat.avail),
            task_id=cut(flat.task_id),
            task=flat.task,
            everyone=everyone,
            seat=None if flat.seat is None else cut(flat.seat),
            first=by_sequence(traj.view.resets, length),
            carry=jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), traj.carry_at(length)),
        )
        sequences = jax.tree.map(lambda x: by_sequence(x, length), samples).replace(inputs=inputs)
        return state, sequences, self._minibatches(key, len(inputs.task_id))

    def _take_inputs(self, inputs: NetworkInputs, index: Array) -> NetworkInputs:
        rows = take_rows(inputs.replace(task=None, everyone=None), index)
        rows = rows.replace(task=inputs.task)
        if self.policy.network.critic_ids:
            return rows.replace(joint=Joint(None, rows.seat), seat=None)
        if not self.seats:
            return rows
        number, length = inputs.task_id.shape
        everyone, seat = inputs.everyone, rows.seat
        if everyone is None:
            obs = inputs.obs.reshape(-1, self.seats, *inputs.obs.shape[1:])
            everyone = obs.swapaxes(1, 2)  # [sequences of environments, T, seats, ...]
            seat = jnp.broadcast_to((index % self.seats)[:, None], (len(index), length))
        joint_obs = everyone.reshape(len(everyone), length, -1)
        joint_obs = jnp.take(joint_obs, index // (number // len(everyone)), axis=0, mode="clip")
        return rows.replace(joint=Joint(joint_obs, seat), seat=None)

    def _forward(self, params: Any, inputs: NetworkInputs) -> Outputs:
        """Logits and values [sequences, T, ...]."""
        per_timestep = inputs.replace(carry=None, task=None, everyone=None)
        time_major = jax.tree.map(lambda x: x.swapaxes(0, 1), per_timestep)
        obs, task_id, avail, joint = self._arguments(time_major.replace(task=inputs.task))
        out, _ = self.policy.sequence_outputs(
            params, obs, task_id, avail, time_major.first, inputs.carry, joint
        )
        assert out.value is not None
        return Outputs(out.logits.swapaxes(0, 1), out.value.swapaxes(0, 1))


def sequence_length(setting: int | None, num_steps: int) -> int:
    """The setting, or the divisor of `num_steps` closest to 50 (by ratio)."""
    if setting is None:
        divisors = [n for n in range(1, num_steps + 1) if num_steps % n == 0]
        return min(divisors, key=lambda n: (abs(math.log(n / USUAL_LENGTH)), n))
    if num_steps % setting:
        raise ValueError(
            f"sequence_length is {setting} and num_steps {num_steps}; it must divide num_steps"
        )
    return setting


def by_sequence(x: Array, length: int) -> Array:
    """[T, B, seats, ...] -> [T / length * B * seats, length, ...]."""
    steps, num_envs, seats, *rest = x.shape
    parts = x.reshape(steps // length, length, num_envs, seats, *rest)
    return jnp.moveaxis(parts, 1, 3).reshape(-1, length, *rest)

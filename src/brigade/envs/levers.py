"""Levers: two seats earn 1 whenever they pull the same lever, and neither sees the other's.

A partner pulls a sequence of its own, the same in every episode. It tests whether a policy finds
out a partner's convention within its context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import (
    Array,
    Cast,
    Environment,
    Group,
    Key,
    PlainTask,
    Policy,
    TaskSequence,
    TimeStep,
    View,
)


class State(struct.PyTreeNode):
    """How far the episode is."""

    time: Array  # [] int32
    matched: Array  # [] f32: timesteps with the same lever so far


@dataclass(frozen=True)
class Levers(Environment):
    """Two seats earn 1 by pulling the same lever; nothing is seen."""

    levers: int = 6
    horizon: int = 8

    num_agents = 2
    obs_shape = (1,)
    fixed_length = True

    @property
    def num_actions(self) -> int:
        """One per lever."""
        return self.levers

    @property
    def action_names(self) -> tuple[str, ...]:
        """The levers."""
        return tuple(f"lever {number}" for number in range(1, self.levers + 1))

    def reset(self, key: Key, task: PlainTask) -> tuple[State, TimeStep]:
        """Start an episode."""
        state = State(jnp.int32(0), jnp.float32(0.0))
        return state, self._now(state, task, jnp.full(2, -1, jnp.int32), jnp.float32(0.0))

    def step(self, key: Key, state: State, action: Array, task: PlainTask) -> Any:
        """Both pull a lever."""
        action = action.astype(jnp.int32)
        reward = (action[0] == action[1]).astype(jnp.float32)
        state = State(state.time + 1, state.matched + reward)
        return state, self._now(state, task, action, reward)

    def _now(self, state: State, task: PlainTask, action: Array, reward: Array) -> TimeStep:
        paid = jnp.broadcast_to(reward, (2,))
        view = View(
            obs=jnp.zeros((2, 1), jnp.uint8),
            avail=jnp.ones((2, self.levers), bool),
            prev_action=action,
            prev_reward=paid,
            first=jnp.broadcast_to(state.time == 0, (2,)),
            active=jnp.ones(2, bool),
            task_id=jnp.broadcast_to(jnp.asarray(task.id, jnp.int32), (2,)),
        )
        info = {"score": state.matched / self.horizon}
        return TimeStep(view, paid, jnp.bool_(False), state.time >= self.horizon, info)

    def describe(self, state: State, task: PlainTask, seat: int | None = None) -> dict[str, Any]:
        """How far the episode is; seats see no more than what they earned."""
        return {
            "time": int(state.time),
            "timesteps with the same lever": float(state.matched),
            "levers": self.levers,
        }

    @classmethod
    def example(cls) -> tuple[Levers, TaskSequence]:
        """A small instance for contract tests."""
        return cls(levers=3, horizon=4), meetings(3, steps=240)


def meetings(number: int, steps: int) -> TaskSequence:
    """So many tasks, all alike: partners are what differs."""
    names = [f"meeting {index}" for index in range(1, number + 1)]
    return TaskSequence.from_tasks([PlainTask(jnp.int32(0))] * number, names, steps)


@dataclass(frozen=True)
class Convention(Policy):
    """Pulls the levers of a sequence, its parameters [steps] int32, in every episode."""

    steps: int

    def init(self, key: Key) -> Array:
        """A sequence of the first lever."""
        return jnp.zeros(self.steps, jnp.int32)

    def initial_carry(self, batch: tuple[int, ...]) -> Array:
        """The timestep within the episode."""
        return jnp.zeros(batch, jnp.int32)

    def act(
        self, params: Array, carry: Array, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Array, dict[str, Any]]:
        """The lever of this timestep."""
        step = jnp.where(view.first, 0, carry)
        return jnp.take(params, step, mode="wrap").astype(jnp.int32), step + 1, {}


def conventions(sequences: np.ndarray) -> Cast:
    """A cast of partners with these sequences [partners, steps]."""
    number, steps = sequences.shape
    names = tuple(f"convention {index}" for index in range(1, number + 1))
    params = jnp.asarray(sequences, jnp.int32)
    return Cast((Group(Convention(steps), number),), (params,), names)

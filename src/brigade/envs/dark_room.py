"""A dark room: one agent finds a cell that it cannot see, and can go straight to it from then on.

It tests whether a policy adapts within its context: episodes start alike, and only what happened in
those before tells where the goal is.

Reference: M. Laskin and others, *In-context reinforcement learning with algorithm distillation*,
ICLR 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Environment, Key, TaskSequence, TimeStep, View

MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]])  # up, down, left, right, stay


class Room(struct.PyTreeNode):
    """A task: where the goal is."""

    goal: Array  # [2] int32: row and column
    id: Array  # [] int32


class State(struct.PyTreeNode):
    """Where the agent is."""

    cell: Array  # [2] int32
    time: Array  # [] int32
    found: Array  # [] f32: timesteps on the goal so far


@dataclass(frozen=True)
class DarkRoom(Environment):
    """A room with a goal that is not seen.

    Every timestep there earns 1.
    """

    side: int = 9
    horizon: int = 20

    num_agents = 1
    num_actions = 5
    fixed_length = True
    stay_action = 4

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """[2 * side]: one-hots of the row and of the column, so that what is learned of some cells
        holds for others."""
        return (2 * self.side,)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Four directions, and to stay."""
        return ("up", "down", "left", "right", "stay")

    def best(self, goal: Array) -> Array:
        """What the shortest way to a goal [..., 2] earns, from the centre."""
        distance = abs(goal - self.side // 2).sum(-1)
        return self.horizon + 1 - jnp.maximum(distance, 1)

    def reset(self, key: Key, task: Room) -> tuple[State, TimeStep]:
        """Start in the centre."""
        cell = jnp.full(2, self.side // 2, jnp.int32)
        state = State(cell, jnp.int32(0), jnp.float32(0.0))
        return state, self._now(state, task, jnp.int32(-1), jnp.float32(0.0))

    def step(self, key: Key, state: State, action: Array, task: Room) -> tuple[State, TimeStep]:
        """Move by a cell; walls stop the agent."""
        chosen = action[0].astype(jnp.int32)
        move = jnp.asarray(MOVES, jnp.int32)[chosen]
        cell = jnp.clip(state.cell + move, 0, self.side - 1)
        reward = (cell == task.goal).all().astype(jnp.float32)
        state = State(cell, state.time + 1, state.found + reward)
        return state, self._now(state, task, chosen, reward)

    def _now(self, state: State, task: Room, action: Array, reward: Array) -> TimeStep:
        here = jax.nn.one_hot(state.cell, self.side, dtype=jnp.uint8)
        view = View(
            obs=here.reshape(1, -1),
            avail=jnp.ones((1, self.num_actions), bool),
            prev_action=action[None],
            prev_reward=reward[None],
            first=(state.time == 0)[None],
            active=jnp.ones(1, bool),
            task_id=jnp.asarray(task.id, jnp.int32)[None],
        )
        score = state.found / self.best(task.goal)
        over = state.time >= self.horizon
        return TimeStep(view, reward[None], jnp.bool_(False), over, {"score": score})

    def describe(self, state: State, task: Room, seat: int | None = None) -> dict[str, Any]:
        """Where the agent is; and where the goal is, which it may not see."""
        row, column = np.asarray(state.cell).tolist()
        seen = {"side": self.side, "row": row, "column": column, "time": int(state.time)}
        if seat is not None:
            return seen
        goal = np.asarray(task.goal).tolist()
        return {**seen, "goal": goal, "timesteps on the goal": float(state.found)}

    @classmethod
    def example(cls) -> tuple[DarkRoom, TaskSequence]:
        """A small instance for contract tests."""
        return cls(side=5, horizon=6), rooms([(0, 0), (2, 4), (4, 1)], steps=240)


def rooms(goals: Sequence[tuple[int, int]], steps: int) -> TaskSequence:
    """A task for every goal (row, column)."""
    tasks = [Room(jnp.asarray(goal, jnp.int32), jnp.int32(0)) for goal in goals]
    return TaskSequence.from_tasks(tasks, [f"row {row} column {col}" for row, col in goals], steps)

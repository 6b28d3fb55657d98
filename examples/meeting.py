"""An environment and a benchmark in one file: two agents on a line must find where to meet."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Benchmark, Environment, Key, TaskSequence, TimeStep, View


class Task(struct.PyTreeNode):
    """Where to meet. It is not observed: the agents must find it by exploration."""

    cell: Array  # [] int32
    id: Array  # [] int32, set by TaskSequence


class State(struct.PyTreeNode):
    """Where the agents are."""

    place: Array  # [seats] int32
    time: Array  # [] int32


@dataclass(frozen=True)
class Meeting(Environment):
    """A line of cells. An episode ends when both agents are on the task's cell."""

    cells: int = 9
    horizon: int = 12

    num_agents = 2
    num_actions = 3  # left, stay, right

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """[cells, 2]: one-hot position of the seat itself and of the other."""
        return (self.cells, 2)

    def reset(self, key: Key, task: Task) -> tuple[State, TimeStep]:
        """Two different random cells."""
        place = jax.random.permutation(key, self.cells)[: self.num_agents].astype(jnp.int32)
        state = State(place, jnp.int32(0))
        return state, self._time_step(state, task, jnp.full(self.num_agents, -1, jnp.int32))

    def step(self, key: Key, state: State, action: Array, task: Task) -> tuple[State, TimeStep]:
        """Each agent moves one cell or stays; the ends of the line are walls."""
        action = action.astype(jnp.int32)
        place = jnp.clip(state.place + action - 1, 0, self.cells - 1)
        state = State(place, state.time + 1)
        return state, self._time_step(state, task, action)

    def _time_step(self, state: State, task: Task, action: Array) -> TimeStep:
        seats = (self.num_agents,)
        met = (state.place == task.cell).all()
        reward = jnp.full(seats, met, jnp.float32)
        here = jax.nn.one_hot(state.place, self.cells, dtype=jnp.uint8)  # [seats, cells]
        view = View(
            obs=jnp.stack([here, here[::-1]], axis=-1),
            avail=jnp.ones((*seats, self.num_actions), bool),
            prev_action=action,
            prev_reward=reward,
            first=jnp.broadcast_to(state.time == 0, seats),
            active=jnp.ones(seats, bool),
            task_id=jnp.broadcast_to(task.id, seats),
            state=state,
        )
        info = {"score": met.astype(jnp.float32)}
        return TimeStep(view, reward, met, ~met & (state.time >= self.horizon), info)

    @classmethod
    def example(cls) -> tuple[Meeting, TaskSequence]:
        """A small instance for contract tests."""
        return cls(cells=5, horizon=6), places_to_meet([0, 4, 2], steps=240)


def places_to_meet(cells: list[int], steps: int) -> TaskSequence:
    """One task per cell; a cell that comes back keeps its task id."""
    tasks = [Task(jnp.int32(cell), jnp.int32(0)) for cell in cells]
    names = [f"place {number}" for number in range(1, len(cells) + 1)]
    ids = [cells.index(cell) for cell in cells]
    return TaskSequence.from_tasks(tasks, names, steps, ids)


def meeting() -> Benchmark:
    """Places to meet, in a random order for every seed."""
    env = Meeting()

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        order = np.random.default_rng(seed).permutation(env.cells).tolist()
        return places_to_meet([order[n % env.cells] for n in range(num_tasks)], steps)

    return Benchmark(
        id="meeting",
        summary="two agents on a line learn one meeting place after another",
        env=env,
        sequence=sequence,
        num_tasks=3,
        steps_per_task=60_000,
        num_seeds=3,
        num_envs=32,
        num_steps=48,
        eval_every=5,
        eval_episodes=50,
        learner="ippo",
        presets={"laptop": {"ppo": {"epochs": 4, "minibatches": 4}, "network": {"hidden": [32]}}},
    )

"""JaxNav as an environment: its rules behind Brigade's protocol."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Environment, Key, TaskSequence, TimeStep, View
from brigade.core.checks import at_least, one_of, within
from brigade.envs.jaxnav import rules
from brigade.envs.jaxnav.lidar import lidar
from brigade.envs.jaxnav.maps import MapSpec, Task, check_size, sequence
from brigade.envs.jaxnav.rules import ACTIONS, Rewards, Robot, State

OTHER_INPUTS = 5  # besides the lidar: two speeds, goal distance and angle, the reward mix


@dataclass(frozen=True)
class JaxNav(Environment):
    """Robots with lidar on a map of cells; the task is the map."""

    num_agents: int = 2
    height: int = 7
    width: int = 7
    horizon: int = 500
    actions: Literal["discrete", "continuous"] = "discrete"
    robot: Robot = rules.STANDARD_ROBOT
    rewards: Rewards = rules.STANDARD_REWARDS

    events = rules.EVENTS  # the kinds of `info["events"]` [seats, kinds]
    meanings = MappingProxyType({"score": "the share of robots that reached their goal"})

    def __post_init__(self) -> None:
        within("num_agents", self.num_agents, 1, 4)
        one_of("actions", self.actions, ("discrete", "continuous"))
        at_least("horizon", self.horizon, 1)
        check_size(self.height, self.width)

    @property
    def continuous(self) -> bool:
        """Whether actions are [seats, num_actions] floats from -1 to 1."""
        return self.actions == "continuous"

    @property
    def stay_action(self) -> int | tuple[float, ...]:
        """The action that neither drives nor turns."""
        return (-1.0, 0.0) if self.continuous else ACTIONS.index((0.0, 0.0))

    @property
    def num_actions(self) -> int:
        """The number of discrete actions, or of components of a continuous one."""
        return 2 if self.continuous else len(ACTIONS)

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """One entry per lidar beam, and five more."""
        return (self.robot.beams + OTHER_INPUTS,)

    def reset(self, key: Key, task: Task) -> tuple[State, TimeStep]:
        """Sample one of the task's situations (starts and goals); steps are deterministic."""
        self._check_fit(task)
        state = rules.start(task, jax.random.randint(key, (), 0, task.start.shape[0]))
        shape = (self.num_agents, 2) if self.continuous else (self.num_agents,)
        action = jnp.full(shape, -1, jnp.float32 if self.continuous else jnp.int32)
        events = jnp.zeros((self.num_agents, len(rules.EVENTS)), bool)
        reward = jnp.zeros(self.num_agents, jnp.float32)
        return state, self._time_step(state, task, action, reward, events, self._lidar(state, task))

    def step(self, key: Key, state: State, action: Array, task: Task) -> tuple[State, TimeStep]:
        """Play one joint action [seats], or [seats, 2] if actions are continuous."""
        if self.continuous:
            action = action.astype(jnp.float32)
            command = rules.continuous_command(action, self.robot)
        else:
            action = action.astype(jnp.int32)
            command = rules.discrete_command(action)
        after, events = rules.step(state, command, task, self.robot)
        seen = self._lidar(after, task)
        reward = rules.reward(state, after, events, seen.min(-1), self.robot, self.rewards)
        return after, self._time_step(after, task, action, reward, events, seen)

    def _check_fit(self, task: Task) -> None:
        wanted = (self.height, self.width, self.num_agents)
        if (*task.walls.shape, task.start.shape[1]) != wanted:
            raise ValueError(
                f"the task has {task.walls.shape} cells and {task.start.shape[1]} robots; the "
                f"environment expects {wanted[:2]} cells and {wanted[2]} robots"
            )

    def _lidar(self, state: State, task: Task) -> Array:
        return lidar(state.place, state.heading, task.walls, self.robot)

    def _observe(self, state: State, seen: Array) -> Array:
        """[seats, beams + 5] f32, scaled so that entries are of order 1."""
        robot = self.robot
        to_goal = state.goal - state.place
        distance = jnp.minimum(rules.distances(state.place, state.goal), robot.lidar_range)
        angle = rules.wrap(jnp.arctan2(to_goal[:, 1], to_goal[:, 0]) - state.heading)
        others = [
            state.speed[:, 0] / robot.max_speed - 0.5,
            state.speed[:, 1] / robot.max_turning,
            distance / robot.lidar_range - 0.5,
            angle / np.pi,
            jnp.full(self.num_agents, self.rewards.own_share - 0.5),
        ]
        return jnp.concatenate(
            [seen / robot.lidar_range - 0.5, jnp.stack(others, axis=-1)], axis=-1
        )

    def _time_step(
        self, state: State, task: Task, action: Array, reward: Array, events: Array, seen: Array
    ) -> TimeStep:
        seats = (self.num_agents,)
        view = View(
            obs=self._observe(state, seen),
            avail=jnp.ones((*seats, self.num_actions), bool),
            prev_action=action,
            prev_reward=reward,
            first=jnp.broadcast_to(state.time == 0, seats),
            active=~state.done,
            task_id=jnp.broadcast_to(task.id, seats),
            state=state,
        )
        info = {"events": events, "score": state.reached.mean(dtype=jnp.float32)}
        over = state.done.all()
        return TimeStep(view, reward, over, ~over & (state.time >= self.horizon), info)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Speed and turning: the share of the most, left is positive."""
        if self.continuous:
            return ("speed", "turning")
        return tuple(f"speed {speed:g}, turn {turn:+g}" for speed, turn in ACTIONS)

    def describe(self, state: State, task: Task, seat: int | None = None) -> dict[str, Any]:
        """The map and all robots; a seat knows where it is, its goal and what its lidar hits."""
        seen = self._lidar(state, task)
        state, task, seen = jax.device_get((state, task, seen))
        robots = [
            {
                "place": state.place[robot].tolist(),
                "heading": float(state.heading[robot]),
                "goal": state.goal[robot].tolist(),
                "reached": bool(state.reached[robot]),
                "crashed": bool(state.crashed[robot]),
                "lidar": seen[robot].tolist(),
            }
            for robot in range(self.num_agents)
        ]
        about = {"time": int(state.time), "horizon": self.horizon}
        if seat is not None:
            return about | {"robots": [robots[seat]]}
        return about | {"robots": robots, "walls": task.walls.astype(int).tolist()}

    def picture(self, task: Task) -> np.ndarray:
        """RGB picture of a map with the robots at the starts of its first situation."""
        from brigade.envs.jaxnav.render import render

        return render(rules.start(task), task, self.robot)

    def frames(self, states: State, task: Task) -> list[np.ndarray]:
        """RGB pictures of an episode; `states` has leaves [timesteps, ...]."""
        from brigade.envs.jaxnav.render import render_states

        return render_states(states, task, self.robot)

    @classmethod
    def example(cls) -> tuple[JaxNav, TaskSequence]:
        """A small instance for contract tests and documents."""
        env = cls(height=6, width=5, horizon=20)
        return env, sequence(0, 3, 2000, MapSpec(6, 5, 0.2, situations=3))

"""A Brigade environment as a PettingZoo parallel environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Environment, Key, TaskSequence, TimeStep
from brigade.core.types import State, Task
from brigade.envs.adapters import common

try:
    import pettingzoo  # type: ignore[import-untyped]
    from gymnasium import spaces
except ImportError as error:
    raise ImportError(common.missing_package("pettingzoo")) from error

Value = TypeVar("Value")
PerAgent = dict[str, Value]
Infos = PerAgent[dict[str, Any]]
Transition = tuple[PerAgent[np.ndarray], PerAgent[float], PerAgent[bool], PerAgent[bool], Infos]


def compiled(env: Environment) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compiled functions that start an episode and play a step; both return a new key."""

    def start(key: Key, task: Task) -> tuple[Key, State, TimeStep]:
        key, reset_key = jax.random.split(key)
        state, now = env.reset(reset_key, task)
        return key, state, common.public(now)

    def play(key: Key, state: State, action: Array, task: Task) -> tuple[Key, State, TimeStep]:
        key, step_key = jax.random.split(key)
        state, now = env.step(step_key, state, action, task)
        return key, state, common.public(now)

    return jax.jit(start), jax.jit(play)


class ParallelEnv(pettingzoo.ParallelEnv):
    """NumPy in and out, one episode at a time.

    `reset(options={"task": index})` changes the task. `render` draws (state, task), for example
    `brigade.envs.overcooked.render`.
    """

    def __init__(
        self,
        env: Environment,
        task: Task | TaskSequence,
        seed: int = 0,
        render: common.Render | None = None,
    ) -> None:
        self.metadata = {
            "name": f"brigade_{type(env).__name__.lower()}",
            "is_parallelizable": True,
            **common.drawing(render),
        }
        self.render_mode = "rgb_array" if render else None
        self.possible_agents = common.agent_names(env.num_agents)
        self.agents: list[str] = []  # no agents before the first reset
        self._env, self._tasks, self._index = env, common.as_tasks(task), 0
        self._task = self._tasks[0]
        self._key, self._picture = jax.random.key(seed), render
        self._state: State = None
        self._start, self._play = common.made_once(compiled, env)
        self.observation_spaces: PerAgent[spaces.Box] = {
            agent: common.observation_space(spaces.Box, env, self._task)
            for agent in self.possible_agents
        }
        self.action_spaces: PerAgent[spaces.Discrete] = {
            agent: spaces.Discrete(env.num_actions) for agent in self.possible_agents
        }

    def observation_space(self, agent: str) -> spaces.Box:
        """The observation space of `agent`."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """The action space of `agent`."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[PerAgent[np.ndarray], Infos]:
        """Start a new episode. Without a seed, the random stream continues."""
        index = common.chosen_task(options, self._tasks, self._index)
        task = self._tasks[index]
        key = self._key if seed is None else jax.random.key(seed)
        key, state, now = self._start(key, task)
        # Changed only now: a reset that is refused leaves the episode as it was.
        self._index, self._task, self._key, self._state = index, task, key, state
        self.agents = list(self.possible_agents)
        step = jax.device_get(now)
        return self._observations(step), self._infos(step)

    def step(self, actions: Mapping[str, int]) -> Transition:
        """Play one action per agent."""
        joint = jnp.asarray(self._joint_action(actions), jnp.int32)
        self._key, self._state, now = self._play(self._key, self._state, joint, self._task)
        step = jax.device_get(now)
        agents, terminated, truncated = self.agents, bool(step.terminated), bool(step.truncated)
        if terminated or truncated:
            self.agents = []
        return (
            self._observations(step),
            {agent: float(step.reward[seat]) for seat, agent in enumerate(agents)},
            dict.fromkeys(agents, terminated),
            dict.fromkeys(agents, truncated),
            self._infos(step),
        )

    def render(self) -> np.ndarray | None:
        """A picture of the current state; None without `render`."""
        if self._picture is None or self._state is None:
            return None
        return self._picture(self._state, self._task)

    def _joint_action(self, actions: Mapping[str, int]) -> list[int]:
        if not self.agents:
            raise RuntimeError("no episode is running; call reset()")
        for agent in self.agents:
            if agent not in actions or not self.action_spaces[agent].contains(actions[agent]):
                raise ValueError(
                    f"the action of {agent} is {actions.get(agent)!r}; "
                    f"give every agent one from 0 to {self._env.num_actions - 1}"
                )
        return [int(actions[agent]) for agent in self.agents]

    def _observations(self, now: TimeStep) -> PerAgent[np.ndarray]:
        # Copies, since arrays from JAX are read-only.
        return {agent: np.array(now.view.obs[s]) for s, agent in enumerate(self.possible_agents)}

    def _infos(self, now: TimeStep) -> Infos:
        return {
            agent: common.seat_info(now, seat) for seat, agent in enumerate(self.possible_agents)
        }

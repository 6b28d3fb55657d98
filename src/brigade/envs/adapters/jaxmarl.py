"""A Brigade environment with JaxMARL's interface."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Environment, Key, TaskSequence, TimeStep, View
from brigade.core.types import Task
from brigade.envs.adapters import common

PerAgent = dict[str, Array]
Transition = tuple[PerAgent, "JaxMARLState", PerAgent, PerAgent, dict[str, PerAgent]]


class JaxMARLState(struct.PyTreeNode):
    """The state of an episode, with its task, so that steps and auto-resets keep the task."""

    game: Any
    view: View  # what the seats observe now, without the privileged state
    task: Array  # int32
    step: Array  # int32
    done: Array  # bool


class JaxMARLEnv:
    """Dictionaries keyed by agent, auto-reset, one `done` for termination and truncation.

    `task` is the index of the task that `reset` plays. Hashed by identity, like JaxMARL's own.
    """

    def __init__(
        self, env: Environment, task_or_sequence: Task | TaskSequence, task: int = 0
    ) -> None:
        tasks = common.as_tasks(task_or_sequence)
        self.env = env
        self.task = common.check_task_index(task, len(tasks))
        self.num_agents = env.num_agents
        self.agents = common.agent_names(env.num_agents)
        self.max_steps = env.horizon
        self._tasks, self._num_tasks = tasks.tasks, len(tasks)

    @property
    def name(self) -> str:
        """The environment's name; JaxMARL's wrappers treat some names of its own specially."""
        return type(self.env).__name__

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """All agents are of one kind."""
        return {"agent": self.agents}

    def reset(self, key: Key, task: Array | int | None = None) -> tuple[PerAgent, JaxMARLState]:
        """Start an episode of the default task, or of another, whose index may be traced."""
        index = self.task if task is None else task
        if not isinstance(index, jax.Array):  # those may be traced
            index = common.check_task_index(index, self._num_tasks)
        return self._reset(key, jnp.asarray(index, jnp.int32))

    @partial(jax.jit, static_argnums=0)
    def _reset(self, key: Key, index: Array) -> tuple[PerAgent, JaxMARLState]:
        game, now = self.env.reset(key, self._task(index))
        state = _state(game, now, index, jnp.int32(0))
        return self.get_obs(state), state

    @partial(jax.jit, static_argnums=0)
    def step(
        self,
        key: Key,
        state: JaxMARLState,
        actions: PerAgent,
        reset_state: JaxMARLState | None = None,
    ) -> Transition:
        """Play one step; an episode that ended is replaced by a new one, or by `reset_state`."""
        step_key, reset_key = jax.random.split(key)
        _, after, rewards, dones, infos = self.step_env(step_key, state, actions)
        fresh = self.reset(reset_key, state.task)[1] if reset_state is None else reset_state
        after = jax.tree.map(lambda new, old: jnp.where(dones["__all__"], new, old), fresh, after)
        return self.get_obs(after), after, rewards, dones, infos

    @partial(jax.jit, static_argnums=0)
    def step_env(self, key: Key, state: JaxMARLState, actions: PerAgent) -> Transition:
        """Play one step without auto-reset."""
        joint = jnp.stack([jnp.asarray(actions[agent], jnp.int32) for agent in self.agents])
        game, now = self.env.step(key, state.game, joint, self._task(state.task))
        after = _state(game, now, state.task, state.step + 1)
        dones = dict.fromkeys([*self.agents, "__all__"], after.done)
        # Training loops reshape every info to one number per agent, so only this one is passed on.
        shaped = now.info.get("shaped_reward", jnp.zeros_like(now.reward))
        infos = {"shaped_reward": self._by_agent(shaped)}
        return self.get_obs(after), after, self._by_agent(now.reward), dones, infos

    def get_obs(self, state: JaxMARLState) -> PerAgent:
        """The observation of each agent."""
        return self._by_agent(state.view.obs)

    def get_avail_actions(self, state: JaxMARLState) -> PerAgent:
        """The available actions of each agent."""
        return self._by_agent(state.view.avail)

    # The name in JaxMARL's Hanabi and in its wrapper for Q-learning.
    get_legal_moves = get_avail_actions

    @cached_property
    def observation_spaces(self) -> dict[str, Any]:
        """One JaxMARL box per agent."""
        space = common.observation_space(_spaces().Box, self.env, self._task(jnp.int32(self.task)))
        return dict.fromkeys(self.agents, space)

    @cached_property
    def action_spaces(self) -> dict[str, Any]:
        """One JaxMARL discrete space per agent."""
        return dict.fromkeys(self.agents, _spaces().Discrete(self.env.num_actions))

    def observation_space(self, agent: str) -> Any:
        """The observation space of `agent`."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The action space of `agent`."""
        return self.action_spaces[agent]

    def _task(self, index: Array) -> Task:
        return jax.tree.map(lambda leaf: leaf[index], self._tasks)

    def _by_agent(self, values: Array) -> PerAgent:
        return {agent: values[seat] for seat, agent in enumerate(self.agents)}


def _state(game: Any, now: TimeStep, task: Array, step: Array) -> JaxMARLState:
    # `game` already holds the privileged state.
    return JaxMARLState(
        game, now.view.replace(state=None), task, step, now.terminated | now.truncated
    )


def _spaces() -> Any:
    """JaxMARL's spaces, the only part of it that is needed, imported on demand."""
    try:
        from jaxmarl.environments import spaces
    except ImportError as error:
        raise ImportError(common.missing_package("jaxmarl")) from error
    return spaces

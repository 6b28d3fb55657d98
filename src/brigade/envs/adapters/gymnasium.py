"""One seat of a Brigade environment as a Gymnasium environment, with partners on the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Environment, Key, Policy, TaskSequence, TimeStep
from brigade.core.types import Carry, Params, State, Task
from brigade.envs.adapters import common

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise ImportError(common.missing_package("gymnasium")) from error


class Playing(struct.PyTreeNode):
    """Everything that changes from step to step."""

    key: Key
    state: State
    now: TimeStep
    carry: Carry  # the partners' recurrent state


def compiled(
    env: Environment, partners: Policy, seat: int, greedy: bool
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Compiled functions that start an episode and play a step with the agent's `own` action."""

    def start(key: Key, task: Task) -> tuple[Playing, TimeStep]:
        key, reset_key = jax.random.split(key)
        state, now = env.reset(reset_key, task)
        carry = partners.initial_carry((env.num_agents,))
        return Playing(key, state, now, carry), common.public(now)

    def play(params: Params, playing: Playing, own: Array, task: Task) -> tuple[Playing, TimeStep]:
        key, act_key, step_key = jax.random.split(playing.key, 3)
        # The partners' policy acts for every seat; the agent's action then replaces one.
        joint, carry, _ = partners.act(params, playing.carry, playing.now.view, act_key, greedy)
        state, now = env.step(step_key, playing.state, joint.at[seat].set(own), task)
        return Playing(key, state, now, carry), common.public(now)

    return jax.jit(start), jax.jit(play)


class SeatEnv(gymnasium.Env[np.ndarray, np.int64]):
    """The agent plays one seat and `partners` all others.

    `reset(options={"task": index})` changes the task. Without `partner_params`, `partners` gets
    initial parameters: right for a script, otherwise an untrained policy. `render` draws (state,
    task).
    """

    def __init__(
        self,
        env: Environment,
        task: Task | TaskSequence,
        seat: int = 0,
        *,
        partners: Policy,
        partner_params: Params = None,
        greedy_partners: bool = False,
        render: common.Render | None = None,
    ) -> None:
        if not 0 <= seat < env.num_agents:
            raise ValueError(f"there is no seat {seat}; use 0 to {env.num_agents - 1}")
        self.metadata = common.drawing(render)
        self.render_mode = "rgb_array" if render else None
        self.seat = seat
        self._env, self._tasks, self._index = env, common.as_tasks(task), 0
        self._task = self._tasks[0]
        self._picture = render
        if partner_params is None:
            partner_params = partners.init(jax.random.key(0))
        self._params = partner_params
        self._playing: Playing | None = None
        self._over = True
        self._start, self._play = common.made_once(compiled, env, partners, seat, greedy_partners)
        self.observation_space = common.observation_space(spaces.Box, env, self._task)
        self.action_space = spaces.Discrete(env.num_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new episode; the partners' recurrent state is reset."""
        index = common.chosen_task(options, self._tasks, self._index)
        task = self._tasks[index]
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        playing, now = self._start(key, task)
        # Changed only now: a reset that is refused leaves the episode as it was.
        self._index, self._task, self._playing, self._over = index, task, playing, False
        return self._seen(jax.device_get(now))

    def step(self, action: np.int64 | int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play `action`; the partners act on their own observations."""
        if self._over:
            raise RuntimeError("no episode is running; call reset()")
        if not self.action_space.contains(action):
            raise ValueError(f"action is {action!r}; use 0 to {self._env.num_actions - 1}")
        own = jnp.int32(action)
        self._playing, now = self._play(self._params, self._playing, own, self._task)
        step = jax.device_get(now)
        terminated, truncated = bool(step.terminated), bool(step.truncated)
        self._over = terminated or truncated
        obs, info = self._seen(step)
        return obs, float(step.reward[self.seat]), terminated, truncated, info

    def render(self) -> Any:
        """A picture of the current state; None without `render`."""
        if self._picture is None or self._playing is None:
            return None
        return self._picture(self._playing.state, self._task)

    def _seen(self, now: TimeStep) -> tuple[np.ndarray, dict[str, Any]]:
        # A copy, since arrays from JAX are read-only.
        return np.array(now.view.obs[self.seat]), common.seat_info(now, self.seat)

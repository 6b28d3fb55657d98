"""Rollouts on the device: one scan over steps of many environments at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Environment, Key, Memories, Policy, TimeStep, Trajectory
from brigade.train.compile import unroll

UNROLLED_STEPS = 4


class Loop(struct.PyTreeNode):
    """What a rollout hands to the next one. Leaves [num_envs, ...]."""

    env_state: Any
    step: TimeStep  # what the seats see now
    carry: Any  # the policy's memory


def begin(env: Environment, policy: Policy, key: Key, task: Any, num_envs: int) -> Loop:
    """Fresh games and an empty memory."""
    env_state, step = reset_all(env, key, task, num_envs)
    return Loop(env_state, step, policy.initial_carry((num_envs,)))


def collect(
    env: Environment,
    policy: Policy,
    params: Any,
    loop: Loop,
    key: Key,
    task: Any,
    num_steps: int,
    restarts: bool = True,
) -> tuple[Loop, Trajectory]:
    """Play `num_steps` in every environment.

    A game that is over starts again at once. A game cut by its time limit is looked at once more,
    because the value of what would have followed is needed: if that happens inside the rollout, one
    slot goes by unplayed (`valid` is False there); at its end, `last` has the value and the next
    rollout starts the game anew. Without `restarts` games end at the ends of rollouts only.
    """
    num_envs = loop.step.truncated.shape[0]
    start_key, scan_key, last_key = jax.random.split(key, 3)
    loop = restart(loop, loop.step.truncated, *reset_all(env, start_key, task, num_envs))

    def play(loop: Loop, keys: Key) -> tuple[Loop, Trajectory]:
        act_key, step_key, reset_key = keys
        now = loop.step
        action, carry, extras = policy.act(params, loop.carry, now.view, act_key)
        env_state, then = step_all(env, step_key, loop.env_state, action, task)
        valid = ~now.truncated
        record = Trajectory(
            view=now.view.replace(state=None),  # privileged and large: not experience
            action=action,
            reward=then.reward,
            terminated=then.terminated & valid,
            truncated=then.truncated & valid,
            valid=valid,
            info=then.info,
            extras=extras,
            carry=(),
            last_view=None,
            last={},
        )
        after = Loop(env_state, then, carry)
        if restarts:
            over = then.terminated | now.truncated
            after = restart(after, over, *reset_all(env, reset_key, task, num_envs))
        return after, record

    keys = jax.random.split(scan_key, (num_steps, 3))
    end, traj = jax.lax.scan(play, loop, keys, unroll=unroll(UNROLLED_STEPS))
    _, _, last = policy.act(params, end.carry, end.step.view, last_key)
    last_view = end.step.view.replace(state=None)
    memory = loop.carry
    if isinstance(memory, Memories):  # what partners remember is no experience of the learner's
        memory = memory.learner
    return end, traj.replace(carry=memory, last_view=last_view, last=last)


def restart(loop: Loop, over: Array, env_state: Any, step: TimeStep) -> Loop:
    """Put fresh games where `over` [num_envs] says so. `first` in the view restarts memories."""
    state, now = restart_where(over, (env_state, step), (loop.env_state, loop.step))
    return loop.replace(env_state=state, step=now)


def restart_where(over: Array, fresh: Any, running: Any) -> Any:
    """Leaves [num_envs, ...] of `fresh` where a game is over, else of `running`."""

    def pick(new: Array, old: Array) -> Array:
        return jnp.where(over.reshape(over.shape + (1,) * (old.ndim - 1)), new, old)

    return jax.tree.map(pick, fresh, running)


def reset_all(env: Environment, key: Key, task: Any, num_envs: int) -> tuple[Any, TimeStep]:
    """`num_envs` games of one task, each from its own key."""
    keys = jax.random.split(key, num_envs)
    return jax.vmap(env.reset, in_axes=(0, None))(keys, task)


def step_all(
    env: Environment, key: Key, env_state: Any, action: Array, task: Any
) -> tuple[Any, TimeStep]:
    """One joint action [num_envs, seats] in every game."""
    keys = jax.random.split(key, action.shape[0])
    return jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, env_state, action, task)


@dataclass(frozen=True)
class DeviceSource:
    """Experience from JAX environments; pure, so it fuses with the update."""

    env: Environment
    policy: Policy
    num_envs: int = 2048
    num_steps: int = 400

    def __post_init__(self) -> None:
        if self.num_envs < 1 or self.num_steps < 1:
            raise ValueError(
                f"num_envs is {self.num_envs} and num_steps {self.num_steps}; both are at least 1"
            )

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps in one trajectory."""
        return self.num_envs * self.num_steps

    def start(self, key: Key, task: Any) -> Loop:
        """Fresh games."""
        return begin(self.env, self.policy, key, task, self.num_envs)

    def next(self, state: Loop, params: Any, task: Any, key: Key) -> tuple[Loop, Trajectory]:
        """Go on playing."""
        restarts = not ends_with_rollouts(self.env, self.num_steps)
        return collect(self.env, self.policy, params, state, key, task, self.num_steps, restarts)


def ends_with_rollouts(env: Environment, num_steps: int) -> bool:
    """Whether games that started with a rollout end with one: no step need look for the end."""
    return getattr(env, "fixed_length", False) and env.horizon % num_steps == 0

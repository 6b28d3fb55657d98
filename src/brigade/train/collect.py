"""Rollouts on the device: one scan over the steps of many parallel environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import (
    Acting,
    Array,
    Environment,
    Key,
    Memories,
    Seating,
    TimeStep,
    Trajectory,
)
from brigade.core.compile import unroll
from brigade.train.players import Players, Seated, take_seats

UNROLLED_STEPS = 4


class RolloutState(struct.PyTreeNode):
    """What one rollout passes to the next: leaves [num_envs, ...], except for the last two."""

    env_state: Any
    step: TimeStep  # the current timestep
    memory: Memories  # recurrent states
    seating: Seating | None = None  # None: the learner has every seat
    rollouts: Array | None = None  # int32: rollouts with this seating; 0 when it may change


def start_games(
    env: Environment, players: Players, key: Key, task: Any, num_envs: int, tables: int = 1
) -> RolloutState:
    """New episodes with initial recurrent states; seats are not assigned yet."""
    env_state, step = reset_all(env, key, task, num_envs)
    memory = players.initial_memory(num_envs, env.num_agents, tables)
    if players.alone:
        return RolloutState(env_state, step, memory)
    unassigned = jnp.zeros((tables, env.num_agents), jnp.int32)
    seating = Seating(unassigned, unassigned == 1)
    return RolloutState(env_state, step, memory, seating, jnp.int32(0))


def collect(
    env: Environment,
    players: Players,
    acting: Acting,
    state: RolloutState,
    key: Key,
    task: Any,
    num_steps: int,
    restarts: bool = True,
) -> tuple[RolloutState, Trajectory]:
    """Play `num_steps` in every environment.

    A terminated episode is replaced by a new one at once. After a truncated one the policy sees its
    last state once more, since the advantage needs its value. Inside a rollout that takes one slot
    without a step (`valid` is False). At the end of a rollout `last` has the value, and the next
    rollout starts a new episode. Without `restarts`, episodes only end with a rollout.
    """
    num_envs = state.step.truncated.shape[0]
    start_key, scan_key, last_key = jax.random.split(key, 3)
    state, over = reseated(env, acting, state, num_steps)
    state = restart(state, over, *reset_all(env, start_key, task, num_envs))
    seated = players.take_seats(acting.replace(seating=state.seating))

    def play(state: RolloutState, keys: Key) -> tuple[RolloutState, Trajectory]:
        act_key, step_key, reset_key = keys
        now = state.step
        action, memory, extras = players.act(seated, state.memory, now.view, act_key)
        extras = extras | targets_of(env, players, seated, state.env_state, task)
        env_state, then = step_all(env, step_key, state.env_state, action, task)
        valid = ~now.truncated
        record = Trajectory(
            view=players.own_view(seated, now.view),
            action=of_own_seats(players, seated, action),
            reward=of_own_seats(players, seated, then.reward),
            terminated=then.terminated & valid,
            truncated=then.truncated & valid,
            valid=valid,
            info=then.info,
            extras=extras,
            last_view=None,
            last={},
        )
        after = state.replace(env_state=env_state, step=then, memory=memory)
        if restarts:
            ended = then.terminated | now.truncated
            after = restart(after, ended, *reset_all(env, reset_key, task, num_envs))
        return after, record

    keys = jax.random.split(scan_key, (num_steps, 3))
    end, traj = jax.lax.scan(play, state, keys, unroll=unroll(UNROLLED_STEPS))
    _, _, last = players.act(seated, end.memory, end.step.view, last_key)
    traj = traj.replace(
        last_view=players.own_view(seated, end.step.view),
        last=last,
        seating=state.seating,
        seat=players.seat_numbers(seated, num_envs) if players.own_seats else None,
    )
    return end, traj


def targets_of(
    env: Environment, players: Players, seated: Seated, env_state: Any, task: Any
) -> dict[str, Any]:
    """Labels for the learner's auxiliary loss, if its policy `predicts` any of the targets."""
    names = players.learner.predicts
    if not names:
        return {}
    targets = jax.vmap(env.targets, in_axes=(0, None))(env_state, task)
    return {"targets": {name: of_own_seats(players, seated, targets[name]) for name in names}}


def of_own_seats(players: Players, seated: Seated, x: Array) -> Array:
    """[num_envs, seats, ...] -> [num_envs, own seats, ...]."""
    return x if seated.own is None or not players.own_seats else take_seats(x, seated.own)


def reseated(
    env: Environment, acting: Acting, state: RolloutState, num_steps: int
) -> tuple[RolloutState, Array]:
    """The state with the next seating, and which episodes must restart [num_envs].

    A seating lasts long enough for an episode to reach its horizon. An episode still running when
    it changes is truncated; the rollout before has bootstrapped from its last view.
    """
    over = state.step.truncated
    if state.seating is None or state.rollouts is None:
        return state, over
    pairs = zip(jax.tree.leaves(acting.seating), jax.tree.leaves(state.seating), strict=True)
    differs = jnp.stack([(new != old).any() for new, old in pairs]).any()
    change = (state.rollouts == 0) & differs  # the same seating again restarts nothing
    seating = jax.tree.map(
        lambda new, old: jnp.where(change, new, old), acting.seating, state.seating
    )
    rollouts = (state.rollouts + 1) % rollouts_per_seating(env, num_steps)
    return state.replace(seating=seating, rollouts=rollouts), over | change


def rollouts_per_seating(env: Environment, num_steps: int) -> int:
    """How many rollouts a seating lasts: enough for an episode to reach its horizon."""
    return max(1, -(-env.horizon // num_steps))


def restart(state: RolloutState, over: Array, env_state: Any, step: TimeStep) -> RolloutState:
    """Start new episodes where `over` [num_envs]; the view's `first` resets recurrent states."""
    env_state, step = restart_where(over, (env_state, step), (state.env_state, state.step))
    return state.replace(env_state=env_state, step=step)


def restart_where(over: Array, fresh: Any, running: Any) -> Any:
    """Leaves [num_envs, ...] of `fresh` where an episode is over, else of `running`."""

    def pick(new: Array, old: Array) -> Array:
        return jnp.where(over.reshape(over.shape + (1,) * (old.ndim - 1)), new, old)

    return jax.tree.map(pick, fresh, running)


def reset_all(env: Environment, key: Key, task: Any, num_envs: int) -> tuple[Any, TimeStep]:
    """Start `num_envs` episodes of one task, each from its own key."""
    keys = jax.random.split(key, num_envs)
    return jax.vmap(env.reset, in_axes=(0, None))(keys, task)


def step_all(
    env: Environment, key: Key, env_state: Any, action: Array, task: Any
) -> tuple[Any, TimeStep]:
    """Play one joint action [num_envs, seats, ...] in every environment."""
    keys = jax.random.split(key, action.shape[0])
    return jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, env_state, action, task)


@dataclass(frozen=True)
class DeviceSource:
    """Rollouts from JAX environments, in the same compiled program as the update."""

    env: Environment
    players: Players
    num_envs: int = 2048
    num_steps: int = 400
    tables: int = 1

    def __post_init__(self) -> None:
        if self.num_envs < 1 or self.num_steps < 1:
            raise ValueError(
                f"num_envs is {self.num_envs} and num_steps {self.num_steps}; "
                "both must be at least 1"
            )
        if self.num_envs % self.tables:
            raise ValueError(
                f"num_envs is {self.num_envs}; it must be a multiple of {self.tables}, the number "
                "of tables"
            )

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps per rollout."""
        return self.num_envs * self.num_steps

    def start(self, key: Key, task: Any) -> RolloutState:
        """Start new episodes."""
        return start_games(self.env, self.players, key, task, self.num_envs, self.tables)

    def next(
        self, state: RolloutState, acting: Acting, task: Any, key: Key
    ) -> tuple[RolloutState, Trajectory]:
        """Collect a rollout."""
        restarts = not ends_with_rollouts(self.env, self.num_steps)
        return collect(self.env, self.players, acting, state, key, task, self.num_steps, restarts)


def ends_with_rollouts(env: Environment, num_steps: int) -> bool:
    """Whether episodes only end with a rollout, so that steps need not check for it."""
    return env.fixed_length and env.horizon % num_steps == 0

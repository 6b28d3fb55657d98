"""Rollouts on the device: one scan over steps of many environments at once."""

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
    """What a rollout hands to the next one. Leaves [num_envs, ...], but for the last two."""

    env_state: Any
    step: TimeStep  # what the seats see now
    memory: Memories
    seating: Seating | None = None  # who sits where; None: the learner has every seat
    rollouts: Array | None = None  # int32: how many the seating has lasted


def begin(
    env: Environment, players: Players, key: Key, task: Any, num_envs: int, tables: int = 1
) -> RolloutState:
    """Fresh games and empty memories; nobody has taken a seat."""
    env_state, step = reset_all(env, key, task, num_envs)
    memory = players.initial_memory(num_envs, env.num_agents, tables)
    if players.alone:
        return RolloutState(env_state, step, memory)
    nobody = jnp.zeros((tables, env.num_agents), jnp.int32)
    return RolloutState(env_state, step, memory, Seating(nobody, nobody == 1), jnp.int32(0))


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

    A game that is over starts again at once. A game cut by its time limit is looked at once more,
    because the value of what would have followed is needed: if that happens inside the rollout, one
    slot goes by unplayed (`valid` is False there); at its end, `last` has the value and the next
    rollout starts the game anew. Without `restarts` games end at the ends of rollouts only.
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


def of_own_seats(players: Players, seated: Seated, x: Array) -> Array:
    """[num_envs, seats, ...] -> [num_envs, own seats, ...]."""
    return x if seated.own is None or not players.own_seats else take_seats(x, seated.own)


def reseated(
    env: Environment, acting: Acting, state: RolloutState, num_steps: int
) -> tuple[RolloutState, Array]:
    """Whose turn it is to sit, and which games start anew.

    People change when a game may have lasted its horizon, so that whole games are played with
    them. A game that still goes on then is cut: the value of its last view ends the rollout before.
    """
    over = state.step.truncated
    if state.seating is None or state.rollouts is None:
        return state, over
    pairs = zip(jax.tree.leaves(acting.seating), jax.tree.leaves(state.seating), strict=True)
    others = jnp.stack([(new != old).any() for new, old in pairs]).any()
    change = (state.rollouts == 0) & others  # the same people play on
    seating = jax.tree.map(
        lambda new, old: jnp.where(change, new, old), acting.seating, state.seating
    )
    rollouts = (state.rollouts + 1) % rollouts_per_seating(env, num_steps)
    return state.replace(seating=seating, rollouts=rollouts), over | change


def rollouts_per_seating(env: Environment, num_steps: int) -> int:
    """So many that every game can be played to its end."""
    return max(1, -(-env.horizon // num_steps))


def restart(state: RolloutState, over: Array, env_state: Any, step: TimeStep) -> RolloutState:
    """Put fresh games where `over` [num_envs] says so. `first` in the view restarts memories."""
    games, now = restart_where(over, (env_state, step), (state.env_state, state.step))
    return state.replace(env_state=games, step=now)


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
    players: Players
    num_envs: int = 2048
    num_steps: int = 400
    tables: int = 1

    def __post_init__(self) -> None:
        if self.num_envs < 1 or self.num_steps < 1:
            raise ValueError(
                f"num_envs is {self.num_envs} and num_steps {self.num_steps}; both are at least 1"
            )
        if self.num_envs % self.tables:
            raise ValueError(
                f"num_envs is {self.num_envs}; it must be a multiple of {self.tables}, the number "
                "of tables"
            )

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps in one trajectory."""
        return self.num_envs * self.num_steps

    def start(self, key: Key, task: Any) -> RolloutState:
        """Fresh games."""
        return begin(self.env, self.players, key, task, self.num_envs, self.tables)

    def next(
        self, state: RolloutState, acting: Acting, task: Any, key: Key
    ) -> tuple[RolloutState, Trajectory]:
        """Go on playing."""
        restarts = not ends_with_rollouts(self.env, self.num_steps)
        return collect(self.env, self.players, acting, state, key, task, self.num_steps, restarts)


def ends_with_rollouts(env: Environment, num_steps: int) -> bool:
    """Whether games that started with a rollout end with one: no step need look for the end."""
    return getattr(env, "fixed_length", False) and env.horizon % num_steps == 0

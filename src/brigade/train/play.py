"""Games in progress, and one step of them: the only place where policies act and games step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Environment, Key, Memories, Seating, TimeStep, View
from brigade.core.trees import choose, pick
from brigade.train.players import Players, Seated


class Games(struct.PyTreeNode):
    """Games in progress: leaves [num_envs, ...], except for the last two."""

    env_state: Any
    step: TimeStep  # the current timestep
    memory: Memories  # recurrent states
    seating: Seating | None = None  # None: the learner has every seat
    rollouts: Array | None = None  # int32: rollouts with this seating; 0 when it may change


class Played(NamedTuple):
    """One step of all games: what the policies did, and what came of it."""

    action: Array  # [num_envs, seats, ...]
    extras: dict[str, Any]  # what the learner's policy recorded, [num_envs, own seats, ...]
    after: Games  # its `step` is what the environments returned


def start_games(
    env: Environment, players: Players, key: Key, task: Any, num_envs: int, tables: int = 1
) -> Games:
    """New episodes with initial recurrent states; seats are not assigned yet."""
    env_state, step = reset_all(env, key, task, num_envs)
    return games_of(players, env_state, step, env.num_agents, tables)


def games_of(
    players: Players, env_state: Any, step: TimeStep, num_agents: int, tables: int
) -> Games:
    """Games at their first timestep."""
    memory = players.initial_memory(len(step.truncated), num_agents, tables)
    if players.alone:
        return Games(env_state, step, memory)
    unassigned = jnp.zeros((tables, num_agents), jnp.int32)
    return Games(env_state, step, memory, Seating(unassigned, unassigned == 1), jnp.int32(0))


def play_step(
    env: Environment,
    players: Players,
    seated: Seated,
    games: Games,
    keys: tuple[Key, Key],
    task: Any,
    greedy: bool = False,
    view: View | None = None,
) -> Played:
    """All seats act, and all games go one step further; whoever calls it restarts episodes.

    `view`: what they see, if not what the environments show now.
    """
    act_key, step_key = keys
    view = games.step.view if view is None else view
    action, memory, extras = players.act(seated, games.memory, view, act_key, greedy)
    env_state, then = step_all(env, step_key, games.env_state, action, task)
    return Played(action, extras, games.replace(env_state=env_state, step=then, memory=memory))


def restart(games: Games, over: Array, env_state: Any, step: TimeStep) -> Games:
    """Start new episodes where `over` [num_envs]; the view's `first` resets recurrent states."""
    env_state, step = choose(over, (env_state, step), (games.env_state, games.step))
    return games.replace(env_state=env_state, step=step)


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


def film(
    env: Environment,
    players: Players,
    seated: Seated,
    key: Key,
    task: Any,
    tables: int,
    table: int = 0,
    greedy: bool = False,
) -> tuple[Any, TimeStep]:
    """The states [timesteps + 1, ...] of one table's episode and what its steps [timesteps]
    returned. Every table plays an episode; one of them is recorded."""

    def step(games: Games, key: Key) -> tuple[Games, Any]:
        now, later = jax.random.split(key)
        played = play_step(env, players, seated, games, (now, later), task, greedy)
        record = (played.after.env_state, played.after.step.replace(view=None))
        return played.after, pick(record, table)

    start_key, play_key = jax.random.split(key)
    start = start_games(env, players, start_key, task, tables, tables)
    keys = jax.random.split(play_key, env.horizon)
    _, (states, steps) = jax.lax.scan(step, start, keys)
    length = int((steps.terminated | steps.truncated).argmax()) + 1  # later steps do not count
    first = pick(start.env_state, table)
    whole = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b[:length]]), first, states)
    return whole, pick(steps, slice(length))

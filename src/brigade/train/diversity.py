"""What each of many policies would do in the same states (ICRL4AHT, appendix F.2)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Cast, Environment, Group, Key, View
from brigade.core.compile import jit
from brigade.core.distributions import FORBIDDEN
from brigade.train.members import over_members
from brigade.train.play import reset_all, step_all


def actions_in_the_same_states(
    env: Environment, task: Any, cast: Cast, games: int, key: Key
) -> np.ndarray:
    """[policies, states] The actions that all policies choose on seat 1 beside a random one.

    Every policy plays `games` games of one episode; in each state all policies are asked, and the
    one whose game it is plays on. Policies with a memory follow every game with their own.
    """
    if env.num_agents != 2:
        raise ValueError(f"this needs a game with two seats; here there are {env.num_agents}")
    actions = play(env, cast.groups, games, cast.params, task, key)  # [T, policies, games]
    return np.asarray(actions).swapaxes(0, 1).reshape(cast.size, -1)


@partial(jit, static_argnums=(0, 1, 2))
def play(
    env: Environment, groups: tuple[Group, ...], games: int, params: Any, task: Any, key: Key
) -> Array:
    """[T, policies, games * policies]"""
    policies = sum(group.size for group in groups)
    number = games * policies
    plays = jnp.arange(number) % policies
    memories = tuple(group.policy.initial_carry((group.size, number, 1)) for group in groups)
    reset_key, play_key = jax.random.split(key)
    start = (*reset_all(env, reset_key, task, number), memories)

    def step(games: Any, key: Key) -> Any:
        env_state, now, memories = games
        ego_key, asked_key, step_key = jax.random.split(key, 3)
        logits = jnp.where(now.view.avail[:, 0], 0.0, FORBIDDEN)
        of_ego = jax.random.categorical(ego_key, logits).astype(jnp.int32)
        asked, after = [], []
        for index, (group, of_group, memory) in enumerate(
            zip(groups, params, memories, strict=True)
        ):
            group_key = jax.random.fold_in(asked_key, index)
            action, memory = ask(group, of_group, memory, now.view, group_key)
            asked.append(action)
            after.append(memory)
        actions = jnp.concatenate(asked)  # [policies, games]
        played = jnp.take_along_axis(actions, plays[None], axis=0)[0]
        joint = jnp.stack([of_ego, played], axis=1)
        env_state, then = step_all(env, step_key, env_state, joint, task)
        return (env_state, then, tuple(after)), actions

    return jax.lax.scan(step, start, jax.random.split(play_key, env.horizon))[1]


def ask(group: Group, params: Any, memory: Any, view: View, key: Key) -> tuple[Array, Any]:
    """What the members of a group would do on seat 1 [members, games], and their memories."""
    seat = jax.tree.map(lambda x: x[:, 1:], view.replace(state=None))
    if group.policy.sees_state:
        seat = seat.with_state(view.state, jnp.ones(seat.active.shape, jnp.int32))

    def act(params: Any, memory: Any, key: Key) -> tuple[Array, Any]:
        action, memory, _ = group.policy.act(params, memory, seat, key, group.greedy)
        return action[:, 0], memory

    keys = jax.random.split(key, group.size)
    found: tuple[Array, Any] = over_members(act)(params, memory, keys)
    return found

"""Cross-play: every policy plays with every other, in both orders."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import (
    Acting,
    Cast,
    ContinualMethod,
    Environment,
    Group,
    Key,
    Pairing,
    Round,
    Seating,
)
from brigade.core.compile import jit
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.players import Players


class CrossPlay(NamedTuple):
    """Arrays [first, second, episodes]: the first policy has seat 0, the second all others."""

    score: np.ndarray
    returns: np.ndarray  # of seat 0


def cross_play(env: Environment, task: Any, cast: Cast, episodes: int, key: Key) -> CrossPlay:
    """Play all ordered pairs, with one compiled program per pair of architectures."""
    if env.num_agents < 2:
        raise ValueError("cross-play needs a game with two seats or more")
    size = cast.size
    score, returns = np.zeros((2, size, size, episodes), np.float32)
    rows = 0
    for number, (first, first_params) in enumerate(zip(cast.groups, cast.params, strict=True)):
        columns = 0
        for other, (second, second_params) in enumerate(zip(cast.groups, cast.params, strict=True)):
            pair_key = jax.random.fold_in(jax.random.fold_in(key, number), other)
            params = (first_params, second_params)
            block = jax.device_get(play_block(env, first, second, episodes, params, task, pair_key))
            here = (slice(rows, rows + first.size), slice(columns, columns + second.size))
            shape = (first.size, second.size, episodes)
            score[here] = block.score.reshape(shape)
            returns[here] = block.returns.reshape(shape)
            columns += second.size
        rows += first.size
    return CrossPlay(score, returns)


@partial(jit, static_argnums=(0, 1, 2, 3))
def play_block(
    env: Environment, first: Group, second: Group, episodes: int, params: Any, task: Any, key: Key
) -> Evaluation:
    """All policies of one group on seat 0, each with all policies of another on the other seats."""
    players = Players(
        learner=first.policy,
        cast=(Group(second.policy, second.size, second.greedy, balanced=True),),
        own_seats=1,
        members=first.size,
    )
    pairs = np.arange(first.size * second.size)
    own = np.broadcast_to(np.arange(env.num_agents) == 0, (len(pairs), env.num_agents))
    member = np.where(own, (pairs // second.size)[:, None], (pairs % second.size)[:, None])
    seating = Seating(jnp.asarray(member, jnp.int32)[:, None], jnp.asarray(own)[:, None])
    pairing = Pairing(jnp.ones(second.size), jnp.zeros((1, 1), jnp.int32), seating)
    first_params, second_params = params
    if first.size == 1:
        first_params = jax.tree.map(lambda x: x[0], first_params)
    evaluator = Evaluator(env, players, ContinualMethod(), episodes, first.greedy)
    return evaluator.play(Acting(first_params, (second_params,)), Round(task, pairing), key)

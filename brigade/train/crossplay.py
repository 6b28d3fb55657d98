"""Cross-play: every policy with every other, on either side of the table."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import (
    Acting,
    Cast,
    Company,
    ContinualMethod,
    Environment,
    Group,
    Key,
    Round,
    Seating,
)
from brigade.core.compile import jit
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.players import Players


class CrossPlay(NamedTuple):
    """[first, second, episodes]: the first policy on seat 0, the second on all others."""

    score: np.ndarray
    returns: np.ndarray  # of seat 0


def cross_play(env: Environment, task: Any, cast: Cast, episodes: int, key: Key) -> CrossPlay:
    """All ordered pairs; those of two architectures are one program each."""
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
    """All policies of one group on seat 0, with all of another on the other seats."""
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
    company = Company(jnp.ones(second.size), jnp.zeros((1, 1), jnp.int32), seating)
    mine, theirs = params
    if first.size == 1:
        mine = jax.tree.map(lambda x: x[0], mine)
    evaluator = Evaluator(env, players, ContinualMethod(), episodes, first.greedy)
    return evaluator.play(Acting(mine, (theirs,)), Round(task, company), key)

"""Cross-play: every policy plays with every other, in both orders."""

from __future__ import annotations

from collections.abc import Iterator
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
from brigade.core.streams import SECOND_SEAT
from brigade.core.trees import pick
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.players import Players


class CrossPlay(NamedTuple):
    """Arrays [first, second, episodes]: the first policy has seat 0, the second all others."""

    score: np.ndarray
    returns: np.ndarray  # of seat 0


class Block(NamedTuple):
    """A group of one cast and a group of another, and where their members are in the casts."""

    groups: tuple[Group, Group]
    params: tuple[Any, Any]
    place: tuple[slice, slice]
    key: Key

    @property
    def shape(self) -> tuple[int, int]:
        """How many policies meet how many."""
        return self.groups[0].size, self.groups[1].size


def blocks(first: Cast, second: Cast, key: Key) -> Iterator[Block]:
    """All pairs of groups, each of which is one compiled program."""
    rows = 0
    for number, (group, params) in enumerate(zip(first.groups, first.params, strict=True)):
        columns, row_key = 0, jax.random.fold_in(key, number)
        for other, (with_group, with_params) in enumerate(
            zip(second.groups, second.params, strict=True)
        ):
            place = slice(rows, rows + group.size), slice(columns, columns + with_group.size)
            block_key = jax.random.fold_in(row_key, other)
            yield Block((group, with_group), (params, with_params), place, block_key)
            columns += with_group.size
        rows += group.size


def cross_play(env: Environment, task: Any, cast: Cast, episodes: int, key: Key) -> CrossPlay:
    """Play all ordered pairs, with one compiled program per pair of architectures."""
    if env.num_agents < 2:
        raise ValueError("cross-play needs a game with two seats or more")
    return play_all(env, task, cast, cast, episodes, key)


def play_all(
    env: Environment, task: Any, first: Cast, second: Cast, episodes: int, key: Key
) -> CrossPlay:
    """Play all policies of one cast on seat 0 with all of another."""
    score, returns = np.zeros((2, first.size, second.size, episodes), np.float32)
    for block in blocks(first, second, key):
        played = play_block(env, *block.groups, episodes, block.params, task, block.key)
        score[block.place] = np.asarray(played.score).reshape(*block.shape, episodes)
        returns[block.place] = np.asarray(played.returns).reshape(*block.shape, episodes)
    return CrossPlay(score, returns)


def play_with(
    env: Environment, task: Any, egos: Cast, partners: Cast, episodes: int, key: Key
) -> np.ndarray:
    """Returns [ego, partner, the ego's seat, episode] of all egos with all partners."""
    if env.num_agents != 2:
        raise ValueError(f"this needs a game with two seats; here there are {env.num_agents}")
    second_key = jax.random.fold_in(key, SECOND_SEAT)
    first = play_all(env, task, egos, partners, episodes, key).returns
    second = play_all(env, task, partners, egos, episodes, second_key).returns
    return np.stack([first, second.swapaxes(0, 1)], axis=2)


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
        first_params = pick(first_params, 0)
    evaluator = Evaluator(env, players, ContinualMethod(), episodes, first.greedy)
    return evaluator.play(Acting(first_params, (second_params,)), Round(task, pairing), key)

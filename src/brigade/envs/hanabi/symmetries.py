"""Colours of Hanabi are interchangeable: every renaming of them, as indices.

A game in which all colours are renamed is the same game. Its observations and moves are those of
the original in another order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from brigade.core import Symmetries
from brigade.envs.hanabi.observe import part_sizes, parts
from brigade.envs.hanabi.variant import Variant


@cache
def color_symmetries(variant: Variant) -> Symmetries:
    """All renamings; the first one changes nothing."""
    orders = list(itertools.permutations(range(variant.colors)))
    return Symmetries(
        np.stack([observation_order(order, variant) for order in orders]),
        np.stack([action_order(order, variant) for order in orders]),
    )


def observation_order(order: Sequence[int], variant: Variant) -> np.ndarray:
    """Where each entry of the renamed observation is in the original [entries].

    `order` has the original colour of each new one.
    """
    return _reordered(itertools.chain.from_iterable(parts(variant).values()), order)


def action_order(order: Sequence[int], variant: Variant) -> np.ndarray:
    """The original action of each renamed one [actions]."""
    v, others = variant, variant.players - 1
    blocks = [((), 2 * v.hand_size), ((v.colors,), others), ((), others * v.ranks), ((), 1)]
    return _reordered(blocks, order)


def _reordered(blocks: Iterable[tuple[tuple[int, ...], int]], order: Sequence[int]) -> np.ndarray:
    """Indices of blocks one after another: shapes with colours first, or (), and how many."""
    places, start = [], 0
    for shape, number in blocks:
        size = number * math.prod(shape)
        block = np.arange(start, start + size).reshape(number, *shape)
        places.append((block[:, np.array(order)] if shape else block).ravel())
        start += size
    return np.concatenate(places).astype(np.int16)


def shown_moves(variant: Variant) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For every action, which entries of an observation show that it was the last move.

    One of the alternatives must hold: a tuple of entries that are all 1. There is one alternative
    for each player who can have moved, seen from the observer. Nobody sees a wait.
    """
    v, sizes = variant, part_sizes(variant)
    mover = sizes["hands"] + sizes["board"] + sizes["discards"]
    kind = mover + v.players  # play, discard, colour hint, rank hint
    target = kind + 4
    color = target + v.players
    rank = color + v.colors
    slot = rank + v.ranks + v.hand_size
    moves: list[tuple[tuple[int, ...], ...]] = []
    for action in range(v.wait):
        of = v.moves
        if of.slot[action] >= 0:
            is_discard = action < v.hand_size
            moves.append(((kind + is_discard, slot + int(of.slot[action])),))
            continue
        names = (
            color + int(of.color[action]) if of.color[action] >= 0 else rank + int(of.rank[action])
        )
        told = int(of.offset[action])
        moves.append(
            tuple(
                (mover + player, target + (player + told) % v.players, names)
                for player in range(v.players)
            )
        )
    return (*moves, ())

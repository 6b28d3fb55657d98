"""Colours of Hanabi are interchangeable: every renaming of them, as indices.

A game in which all colours are renamed is the same game. Its observations and moves are those of
the original in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations

import numpy as np

from brigade.core import Symmetries
from brigade.envs.hanabi.observe import part_sizes
from brigade.envs.hanabi.variant import Variant


@cache
def color_symmetries(variant: Variant) -> Symmetries:
    """All renamings; the first one changes nothing."""
    orders = list(permutations(range(variant.colors)))
    return Symmetries(
        np.stack([observation_order(order, variant) for order in orders]),
        np.stack([action_order(order, variant) for order in orders]),
    )


def observation_order(order: Sequence[int], variant: Variant) -> np.ndarray:
    """Where each entry of the renamed observation is in the original [entries].

    `order` has the original colour of each new one.
    """
    v, cards = variant, (variant.colors, variant.ranks)
    copies = (v.colors, v.deck_size // v.colors)
    board = part_sizes(v)["board"] - v.cards - v.hint_tokens - v.life_tokens  # the deck
    whole = "-"  # a part without colours
    hands = [(cards, (v.players - 1) * v.hand_size), (whole, v.players)]
    middle = [(whole, board), (cards, 1), (whole, v.hint_tokens + v.life_tokens), (copies, 1)]
    last = [
        (whole, 2 * v.players + 4),
        ((v.colors,), 1),
        (whole, v.ranks + 2 * v.hand_size),
        (cards, 1),
        (whole, 2),
    ]
    known = [(cards, 1), ((v.colors,), 1), (whole, v.ranks)] * (v.players * v.hand_size)
    return _reordered([*hands, *middle, *last, *known], order)


def action_order(order: Sequence[int], variant: Variant) -> np.ndarray:
    """The original action of each renamed one [actions]."""
    v, others, whole = variant, variant.players - 1, "-"
    parts = [
        (whole, 2 * v.hand_size),
        ((v.colors,), others),
        (whole, others * v.ranks),
        (whole, 1),
    ]
    return _reordered(parts, order)


def _reordered(parts: Sequence[tuple[object, int]], order: Sequence[int]) -> np.ndarray:
    """Indices of parts one after another, (shape with colours first, repeats) or ("-", entries)."""
    places, start = [], 0
    for shape, number in parts:
        if isinstance(shape, tuple):
            size = number * int(np.prod(shape))
            block = np.arange(start, start + size).reshape(number, *shape)
            places.append(block[:, np.array(order)].ravel())
        else:
            size = number
            places.append(np.arange(start, start + size))
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

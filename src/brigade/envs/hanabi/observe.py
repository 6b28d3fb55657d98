"""The canonical encoding of the Hanabi Learning Environment: what a player sees, in zeros and ones.

Players are counted from the observer: 0 is the observer, 1 the next player. Five parts follow one
another: hands, board, discards, last move, what hints have told.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from brigade.core import Array
from brigade.envs.hanabi.rules import State
from brigade.envs.hanabi.variant import NO_CARD, Kind, Variant

Blocks = list[tuple[tuple[int, ...], int]]  # shape with colours first, () without; how many


def parts(variant: Variant) -> dict[str, Blocks]:
    """What each part is made of, in order."""
    v, cards, colors = variant, (variant.colors, variant.ranks), (variant.colors,)
    other_hands, tokens = (v.players - 1) * v.hand_size, v.hint_tokens + v.life_tokens
    move_to, rank_and_cards = 2 * v.players + 4, v.ranks + 2 * v.hand_size
    return {
        "hands": [(cards, other_hands), ((), v.players)],
        "board": [((), v.deck_size - v.dealt), (cards, 1), ((), tokens)],
        "discards": [((v.colors, v.deck_size // v.colors), 1)],
        "last move": [((), move_to), (colors, 1), ((), rank_and_cards), (cards, 1), ((), 2)],
        "knowledge": [(cards, 1), (colors, 1), ((), v.ranks)] * (v.players * v.hand_size),
    }


def part_sizes(variant: Variant) -> dict[str, int]:
    """The number of entries of each part."""
    return {
        name: sum(math.prod(shape) * number for shape, number in blocks)
        for name, blocks in parts(variant).items()
    }


def observations(state: State, variant: Variant, beliefs: bool = False) -> Array:
    """What every player sees [players, entries], uint8; with `beliefs` float16.

    Half precision keeps replay buffers small, and tells shares of at most 50 cards apart.
    """
    held = one_hot(state.hands, variant.cards)  # [players, hand_size, cards]
    short = state.hands[:, -1] == NO_CARD
    knowledge = card_knowledge(state, variant, beliefs)
    common = jnp.concatenate([board(state, variant), discard_pile(state, variant)])
    rows = []
    for observer in range(variant.players):
        order = [(observer + offset) % variant.players for offset in range(variant.players)]
        rows.append(
            jnp.concatenate(
                [
                    held[np.array(order[1:])].ravel(),
                    short[np.array(order)],
                    common,
                    last_move(state, observer, variant),
                    knowledge[np.array(order)].ravel(),
                ]
            )
        )
    return jnp.stack(rows).astype(jnp.float16 if beliefs else jnp.uint8)


def one_hot(x: Array, size: int) -> Array:
    """[..., size] bool; all False for -1."""
    return x[..., None] == jnp.arange(size)


def thermometer(number: Array, size: int) -> Array:
    """The first `number` of `size` entries are True."""
    return jnp.arange(size) < number


def board(state: State, variant: Variant) -> Array:
    """Cards left in the deck, the top card of each firework, hint tokens, life tokens."""
    return jnp.concatenate(
        [
            thermometer(variant.deck_size - state.drawn, variant.deck_size - variant.dealt),
            one_hot(state.fireworks - 1, variant.ranks).ravel(),
            thermometer(state.hints, variant.hint_tokens),
            thermometer(state.lives, variant.life_tokens),
        ]
    )


def discard_pile(state: State, variant: Variant) -> Array:
    """A thermometer for every card [deck_size]: how many of its copies were discarded."""
    number_of_copy = np.concatenate([np.arange(copies) for copies in variant.copies])
    return state.discards[variant.deck] > number_of_copy


def last_move(state: State, observer: int, variant: Variant) -> Array:
    """Who moved, how, to whom, what a hint named and touched, which card and with what outcome."""
    last, moves = state.last, variant.moves
    happened = last.player >= 0
    kind = jnp.where(happened, jnp.asarray(moves.kind)[last.action], -1)
    hints = (kind == Kind.HINT_COLOR) | (kind == Kind.HINT_RANK)
    mover = jnp.where(happened, (last.player - observer) % variant.players, -1)
    to = (last.player - observer + jnp.asarray(moves.offset)[last.action]) % variant.players
    color, rank = jnp.asarray(moves.color)[last.action], jnp.asarray(moves.rank)[last.action]
    slot = jnp.asarray(moves.slot)[last.action]
    return jnp.concatenate(
        [
            one_hot(mover, variant.players),
            kind == np.array([Kind.PLAY, Kind.DISCARD, Kind.HINT_COLOR, Kind.HINT_RANK]),
            one_hot(jnp.where(hints, to, -1), variant.players),
            one_hot(jnp.where(hints, color, -1), variant.colors),
            one_hot(jnp.where(hints, rank, -1), variant.ranks),
            last.touched,
            one_hot(jnp.where(happened, slot, -1), variant.hand_size),
            one_hot(last.card, variant.cards),
            jnp.stack([last.scored, last.regained & (kind == Kind.PLAY)]),
        ]
    )


def card_knowledge(state: State, variant: Variant, beliefs: bool) -> Array:
    """What hints told: cards still possible, then colour and rank if a hint named them.

    [players, hand_size, cards + colors + ranks]. What a player can work out from the cards in sight
    is left to the player. With `beliefs`, possible cards count by how many copies are neither
    discarded nor in a firework, as shares that add up to 1: the beliefs of version 0 in SAD's and
    Lifelong Hanabi's releases.
    """
    colors, ranks = state.colors_possible, state.ranks_possible
    possible = colors[..., :, None] & ranks[..., None, :]
    possible = possible.reshape(*possible.shape[:-2], -1)
    if beliefs:
        copies = possible * copies_left(state, variant)
        possible = copies / jnp.maximum(copies.sum(-1, keepdims=True), 1)
    return jnp.concatenate(
        [
            possible,
            colors & state.color_hinted[..., None],
            ranks & state.rank_hinted[..., None],
        ],
        axis=-1,
    )


def copies_left(state: State, variant: Variant) -> Array:
    """Copies of each card that are neither discarded nor in a firework [cards]."""
    played = jnp.arange(variant.ranks) < state.fireworks[:, None]
    return jnp.asarray(variant.copies) - state.discards - played.ravel()


UNKNOWN, PLAYABLE, DISCARDABLE = 0, 1, 2  # classes of one's own cards; -1 for an empty slot


def own_hand(state: State, variant: Variant) -> Array:
    """The class of every card in the players' own hands [players, hand_size] int8.

    Playable: it fits on its firework now. Discardable: its firework is past it, or cannot reach it
    any more because all copies of a lower card are gone.
    """
    gone = (state.discards >= jnp.asarray(variant.copies)).reshape(variant.colors, variant.ranks)
    height = state.fireworks[:, None]
    ranks = jnp.arange(variant.ranks)
    blocked = jnp.cumsum(gone & (ranks >= height), axis=1) > 0  # a card at or below it is gone
    useless = (ranks < height) | blocked
    classes = jnp.where(ranks == height, PLAYABLE, UNKNOWN)
    classes = jnp.where(useless, DISCARDABLE, classes).ravel().astype(jnp.int8)
    return jnp.where(state.hands == NO_CARD, -1, classes[state.hands]).astype(jnp.int8)

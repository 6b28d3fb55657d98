"""The rules of Hanabi.

Every function is about one game; the environment batches them. A card is a number (see `variant`),
`NO_CARD` an empty slot. The newest card of a hand is in its last slot, and cards move up when one
leaves the hand.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import struct

from brigade.core import Array
from brigade.envs.hanabi.variant import NO_CARD, Kind, Variant


class Task(struct.PyTreeNode):
    """A task: with how many tokens a game starts. Players never hold more hint tokens than that."""

    id: Array  # int32
    hint_tokens: Array  # int8, at most the variant's
    life_tokens: Array  # int8, at most the variant's


class LastMove(struct.PyTreeNode):
    """What everybody saw of the last move."""

    player: Array  # int8; -1 before the first move
    action: Array  # int8
    card: Array  # int8: the card played or discarded
    touched: Array  # [hand_size] bool: the cards a hint was about
    scored: Array  # bool: the card was played with success
    regained: Array  # bool: the move gave back a hint token


def nothing_seen(player: Array, action: Array, variant: Variant) -> LastMove:
    """The record of a move, before its outcome is known."""
    no = jnp.zeros((), bool)
    touched = jnp.zeros(variant.hand_size, bool)
    return LastMove(player, action.astype(jnp.int8), jnp.int8(NO_CARD), touched, no, no)


class State(struct.PyTreeNode):
    """A game. Players, slots, colours and ranks are counted from 0."""

    deck: Array  # [deck_size] int8: cards in the order they are drawn
    drawn: Array  # int8: cards drawn so far
    hands: Array  # [players, hand_size] int8
    colors_possible: Array  # [players, hand_size, colors] bool: not excluded by hints
    ranks_possible: Array  # [players, hand_size, ranks] bool
    color_hinted: Array  # [players, hand_size] bool: a hint named the card's colour
    rank_hinted: Array  # [players, hand_size] bool
    fireworks: Array  # [colors] int8: how many cards of each colour were played
    discards: Array  # [cards] int8: how many of each card were discarded
    hints: Array  # int8: hint tokens
    lives: Array  # int8: life tokens
    turn: Array  # int8: whose turn it is
    turns_left: Array  # int8: moves left once the deck is empty
    time: Array  # int16: moves so far
    last: LastMove


def deal(deck: Array, task: Task, variant: Variant) -> State:
    """Deal the hands: the first cards go to player 0, the next to player 1, and so on."""
    hand = (variant.players, variant.hand_size)
    nobody = jnp.int8(-1)
    return State(
        deck=deck.astype(jnp.int8),
        drawn=jnp.int8(variant.dealt),
        hands=deck[: variant.dealt].astype(jnp.int8).reshape(hand),
        colors_possible=jnp.ones((*hand, variant.colors), bool),
        ranks_possible=jnp.ones((*hand, variant.ranks), bool),
        color_hinted=jnp.zeros(hand, bool),
        rank_hinted=jnp.zeros(hand, bool),
        fireworks=jnp.zeros(variant.colors, jnp.int8),
        discards=jnp.zeros(variant.cards, jnp.int8),
        hints=task.hint_tokens.astype(jnp.int8),
        lives=task.life_tokens.astype(jnp.int8),
        turn=jnp.int8(0),
        turns_left=jnp.int8(variant.players),
        time=jnp.int16(0),
        last=nothing_seen(nobody, nobody, variant),
    )


def color_of(card: Array, variant: Variant) -> Array:
    """The colour of a card; that of `NO_CARD` is no colour."""
    return card // variant.ranks


def rank_of(card: Array, variant: Variant) -> Array:
    """The rank of a card; -1 for `NO_CARD`."""
    return jnp.where(card == NO_CARD, NO_CARD, card % variant.ranks)


def score(state: State, lost_scores_zero: bool) -> Array:
    """The number of cards in the fireworks; 0 if all lives are lost, where that is the rule."""
    points = state.fireworks.sum(dtype=jnp.int32)
    return jnp.where(state.lives < 1, 0, points) if lost_scores_zero else points


def over(state: State, variant: Variant) -> Array:
    """Whether the game has ended: no lives, all fireworks complete, or the last round played."""
    complete = state.fireworks.sum(dtype=jnp.int32) == variant.best_score
    return (state.lives < 1) | complete | (state.turns_left < 1)


def legal_moves(state: State, task: Task, variant: Variant) -> Array:
    """The legal moves of the player whose turn it is [actions]; waiting is none of them."""
    moves = variant.moves
    hand = state.hands[state.turn]
    to = (state.turn + moves.offset) % variant.players
    held = hand[moves.slot] != NO_CARD
    receiving = state.hands[to]  # [actions, hand_size]
    touches = matches(receiving, moves.color[:, None], moves.rank[:, None], variant).any(-1)
    is_hint = (moves.kind == Kind.HINT_COLOR) | (moves.kind == Kind.HINT_RANK)
    legal = jnp.where(
        is_hint,
        touches & (state.hints > 0),
        held & ((moves.kind == Kind.PLAY) | (state.hints < task.hint_tokens)),
    )
    return legal & (moves.kind != Kind.WAIT) & ~over(state, variant)


def matches(cards: Array, color: Any, rank: Any, variant: Variant) -> Array:
    """Which cards a hint is about; a colour or rank of -1 is not part of the hint."""
    named = (color_of(cards, variant) == color) | (rank_of(cards, variant) == rank)
    return named & (cards != NO_CARD)


def step(state: State, action: Array, task: Task, variant: Variant) -> State:
    """The move of the player whose turn it is. An illegal move changes nothing but the turn."""
    moves = variant.moves
    legal = legal_moves(state, task, variant)[action]
    kind = jnp.where(legal, jnp.asarray(moves.kind)[action], Kind.WAIT)
    deck_empty = state.drawn >= variant.deck_size
    state = state.replace(
        turns_left=state.turns_left - deck_empty.astype(jnp.int8),
        last=nothing_seen(state.turn, action, variant),
    )
    state = give_hint(state, action, kind, variant)
    state = use_card(state, action, kind, task, variant)
    return state.replace(turn=(state.turn + 1) % variant.players, time=state.time + jnp.int16(1))


def give_hint(state: State, action: Array, kind: Array, variant: Variant) -> State:
    """Tell a player which cards have a colour or a rank, for one hint token."""
    moves = variant.moves
    color, rank = jnp.asarray(moves.color)[action], jnp.asarray(moves.rank)[action]
    names_color, names_rank = kind == Kind.HINT_COLOR, kind == Kind.HINT_RANK
    to = (state.turn + jnp.asarray(moves.offset)[action]) % variant.players
    told = (jnp.arange(variant.players) == to)[:, None]  # [players, 1]
    named = matches(state.hands, color, rank, variant)  # [players, hand_size]
    held = state.hands != NO_CARD
    # A touched card has the named colour, and no other card of that hand has it.
    fits_color = (jnp.arange(variant.colors) == color) == named[..., None]
    fits_rank = (jnp.arange(variant.ranks) == rank) == named[..., None]
    by_color, by_rank = told & held & names_color, told & held & names_rank
    return state.replace(
        colors_possible=state.colors_possible & (fits_color | ~by_color[..., None]),
        ranks_possible=state.ranks_possible & (fits_rank | ~by_rank[..., None]),
        color_hinted=state.color_hinted | (by_color & named),
        rank_hinted=state.rank_hinted | (by_rank & named),
        hints=state.hints - (names_color | names_rank).astype(jnp.int8),
        last=state.last.replace(touched=((by_color | by_rank) & named).any(0)),
    )


def use_card(state: State, action: Array, kind: Array, task: Task, variant: Variant) -> State:
    """Play or discard a card, and draw the next one if the game goes on."""
    slot = jnp.asarray(variant.moves.slot)[action]
    plays, discards = kind == Kind.PLAY, kind == Kind.DISCARD
    card = state.hands[state.turn, slot]
    color, rank = color_of(card, variant), rank_of(card, variant)
    built = jnp.arange(variant.colors) == color
    fits = (built & (state.fireworks == rank)).any()
    scored, misplayed = plays & fits, plays & ~fits
    completes = scored & (rank == variant.ranks - 1)
    regained = (discards | completes) & (state.hints < task.hint_tokens)
    thrown = (jnp.arange(variant.cards) == card) & (discards | misplayed)
    used = plays | discards
    state = state.replace(
        fireworks=state.fireworks + (built & scored).astype(jnp.int8),
        discards=state.discards + thrown.astype(jnp.int8),
        hints=state.hints + regained.astype(jnp.int8),
        lives=state.lives - misplayed.astype(jnp.int8),
        last=state.last.replace(
            card=jnp.where(used, card, NO_CARD).astype(jnp.int8), scored=scored, regained=regained
        ),
    )
    return remove_card(state, slot, used, variant)


def remove_card(state: State, slot: Array, used: Array, variant: Variant) -> State:
    """Close the gap that a used card leaves, and draw into the last slot."""
    draws = used & (state.drawn < variant.deck_size) & ~over(state, variant)
    next_card = state.deck[jnp.minimum(state.drawn, variant.deck_size - 1)]
    mine = (jnp.arange(variant.players) == state.turn)[:, None]
    moved = mine & (jnp.arange(variant.hand_size) >= slot) & used  # [players, hand_size]

    def shifted(x: Array, newest: Any) -> Array:
        """[players, hand_size, ...], the cards behind the slot moved up by one."""
        last = jnp.broadcast_to(jnp.asarray(newest, x.dtype), (x.shape[0], 1, *x.shape[2:]))
        up = jnp.concatenate([x[:, 1:], last], axis=1)
        return jnp.where(moved.reshape(moved.shape + (1,) * (x.ndim - 2)), up, x)

    return state.replace(
        drawn=state.drawn + draws.astype(jnp.int8),
        hands=shifted(state.hands, jnp.where(draws, next_card, NO_CARD)),
        # Nothing is possible in an empty slot.
        colors_possible=shifted(state.colors_possible, draws),
        ranks_possible=shifted(state.ranks_possible, draws),
        color_hinted=shifted(state.color_hinted, False),
        rank_hinted=shifted(state.rank_hinted, False),
    )

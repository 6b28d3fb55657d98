"""A game of Hanabi in words, for the terminal and for captions."""

from __future__ import annotations

from typing import Any

import numpy as np

from brigade.envs.hanabi.rules import State
from brigade.envs.hanabi.variant import NO_CARD, Kind, Variant

COLOR_LETTERS = "RYGWB"  # red, yellow, green, white, blue
COLOR_NAMES = ("red", "yellow", "green", "white", "blue")


def card_name(card: int, variant: Variant) -> str:
    """Such as R1 for the lowest red card."""
    return f"{COLOR_LETTERS[card // variant.ranks]}{card % variant.ranks + 1}"


def hinted_name(state: Any, player: int, slot: int, variant: Variant) -> str:
    """What hints have named of a card: R1, R?, ?1 or ??."""
    name = card_name(int(state.hands[player, slot]), variant)
    color = name[0] if state.color_hinted[player, slot] else "?"
    return color + (name[1] if state.rank_hinted[player, slot] else "?")


def short_name(action: int, variant: Variant) -> str:
    """An action as whoever chooses it would say it; +1 is the next player."""
    moves = variant.moves
    kind, slot = moves.kind[action], moves.slot[action] + 1
    if kind in (Kind.PLAY, Kind.DISCARD):
        return f"{'play' if kind == Kind.PLAY else 'discard'} card {slot}"
    if kind == Kind.HINT_COLOR:
        return f"hint +{moves.offset[action]}: {COLOR_NAMES[moves.color[action]]}"
    if kind == Kind.HINT_RANK:
        return f"hint +{moves.offset[action]}: rank {moves.rank[action] + 1}"
    return "wait"


def move_name(action: int, player: int, variant: Variant) -> str:
    """A move of a player in words, without its outcome."""
    offset = variant.moves.offset[action]
    verb, _, rest = short_name(action, variant).partition(" ")
    rest = rest.replace(f"+{offset}", f"player {(player + offset) % variant.players}")
    return f"player {player} {verb}s {rest}".rstrip()


def plain_state(state: State, variant: Variant, seat: int | None = None) -> dict[str, Any]:
    """A state as plain data; a seat does not see its own cards."""
    hands = [
        [
            {
                "card": None if player == seat else card_name(int(card), variant),
                "hinted": hinted_name(state, player, slot, variant),
            }
            for slot, card in enumerate(np.asarray(state.hands[player]))
            if int(card) != NO_CARD
        ]
        for player in range(variant.players)
    ]
    thrown = np.repeat(np.arange(variant.cards), np.asarray(state.discards))
    return {
        "turn": int(state.turn),
        "hands": hands,
        "fireworks": np.asarray(state.fireworks).tolist(),
        "colors": list(COLOR_LETTERS[: variant.colors]),
        "hints": int(state.hints),
        "lives": int(state.lives),
        "deck": variant.deck_size - int(state.drawn),
        "discards": [card_name(int(card), variant) for card in thrown],
        "last_move": last_move_name(state, variant),
    }


def last_move_name(state: State, variant: Variant) -> str:
    """The last move with its outcome."""
    last = state.last
    if int(last.player) < 0:
        return "cards are dealt"
    action = int(last.action)
    words = move_name(action, int(last.player), variant)
    if int(last.card) != NO_CARD:
        words += f", {card_name(int(last.card), variant)}"
        if variant.moves.kind[action] == Kind.PLAY and not bool(last.scored):
            words += ", which does not fit"
    return words


def describe(state: State, variant: Variant) -> str:
    """The whole state as lines of text; * marks whose turn it is."""
    now = plain_state(state, variant)
    fireworks = " ".join(map("{}{}".format, now["colors"], now["fireworks"]))
    lines = [
        now["last_move"],
        f"fireworks {fireworks}   hints {now['hints']}   lives {now['lives']}   deck {now['deck']}",
    ]
    for player, hand in enumerate(now["hands"]):
        held, hinted = (" ".join(card[what] for card in hand) for what in ("card", "hinted"))
        mark = "*" if now["turn"] == player else " "
        lines.append(f"{mark} player {player}: {held}   hinted: {hinted}")
    return "\n".join([*lines, f"discards: {' '.join(now['discards']) or 'none'}"])

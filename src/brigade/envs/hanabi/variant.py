"""The numbers of a game of Hanabi: players, cards, tokens and moves.

A card is a number, `color * ranks + rank`, with colours and ranks counted from 0. Actions are in
the canonical order of the Hanabi Learning Environment: discard slot 0, 1, ...; play slot 0, 1, ...;
then colour hints and rank hints, to the next player first. One more action, the last, does nothing;
it is for players who wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from brigade.core.checks import at_least, within

LOWEST_COPIES, MIDDLE_COPIES, HIGHEST_COPIES = 3, 2, 1
MAX_PLAYERS, MAX_COLORS, MAX_RANKS = 5, 5, 5
LARGE_HAND, SMALL_HAND = 5, 4  # cards per player, for up to three players and for more
NO_CARD = -1


class Kind:
    """What a move does."""

    PLAY, DISCARD, HINT_COLOR, HINT_RANK, WAIT = range(5)


@dataclass(frozen=True)
class Moves:
    """What each action does, [actions]; entries that do not apply are -1."""

    kind: np.ndarray  # one of Kind
    slot: np.ndarray  # of the card played or discarded
    offset: np.ndarray  # who gets the hint: 1 is the next player
    color: np.ndarray
    rank: np.ndarray


@dataclass(frozen=True)
class Variant:
    """The size of a game; the standard game has five colours and five ranks."""

    players: int
    colors: int
    ranks: int
    hand_size: int
    hint_tokens: int
    life_tokens: int

    def __post_init__(self) -> None:
        within("players", self.players, 2, MAX_PLAYERS)
        within("colors", self.colors, 1, MAX_COLORS)
        within("ranks", self.ranks, 1, MAX_RANKS)
        for name in ("hand_size", "hint_tokens", "life_tokens"):
            at_least(name, getattr(self, name), 1)
        if self.dealt > self.deck_size:
            raise ValueError(
                f"{self.players} hands of {self.hand_size} cards need {self.dealt} cards, and the "
                f"deck has {self.deck_size}; use smaller hands or more colors and ranks"
            )

    @cached_property
    def copies(self) -> np.ndarray:
        """How many of each card the deck has [cards]."""
        per_rank = np.full(self.ranks, MIDDLE_COPIES)
        per_rank[-1] = HIGHEST_COPIES
        per_rank[0] = LOWEST_COPIES
        return np.tile(per_rank, self.colors)

    @property
    def cards(self) -> int:
        """The number of different cards."""
        return self.colors * self.ranks

    @cached_property
    def deck(self) -> np.ndarray:
        """All cards, sorted."""
        return np.repeat(np.arange(self.cards), self.copies)

    @property
    def deck_size(self) -> int:
        """The number of cards."""
        return int(self.copies.sum())

    @property
    def dealt(self) -> int:
        """Cards in the players' hands at the start."""
        return self.players * self.hand_size

    @property
    def best_score(self) -> int:
        """The score of a perfect game."""
        return self.colors * self.ranks

    @property
    def longest_game(self) -> int:
        """No game has more moves: every card drawn, every hint given, and the last round."""
        return 2 * (self.deck_size - self.dealt) + self.hint_tokens + self.players

    @property
    def num_actions(self) -> int:
        """All moves, and waiting."""
        return 2 * self.hand_size + (self.players - 1) * (self.colors + self.ranks) + 1

    @property
    def wait(self) -> int:
        """The action of players who wait for their turn."""
        return self.num_actions - 1

    @cached_property
    def moves(self) -> Moves:
        """What each action does."""
        slots, others = range(self.hand_size), range(1, self.players)
        colors, ranks = range(self.colors), range(self.ranks)
        rows = (
            [(Kind.DISCARD, slot, -1, -1, -1) for slot in slots]
            + [(Kind.PLAY, slot, -1, -1, -1) for slot in slots]
            + [(Kind.HINT_COLOR, -1, to, color, -1) for to in others for color in colors]
            + [(Kind.HINT_RANK, -1, to, -1, rank) for to in others for rank in ranks]
            + [(Kind.WAIT, -1, -1, -1, -1)]
        )
        return Moves(*np.array(rows, np.int32).T)

"""Pictures of a game of Hanabi: hands, what hints told about them, fireworks, tokens, discards."""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from brigade.envs.hanabi.rules import State, over
from brigade.envs.hanabi.text import COLOR_LETTERS, last_move_name
from brigade.envs.hanabi.variant import NO_CARD, Variant

Colour = tuple[int, int, int]

# Apart in brightness too, and every card carries its letter, for colour-blind readers.
CARD_COLOURS: tuple[Colour, ...] = (
    (205, 63, 56),
    (236, 190, 62),
    (58, 142, 92),
    (244, 244, 240),
    (58, 104, 176),
)
FELT, PANEL, INK, FAINT, WHITE = (
    (34, 66, 60),
    (44, 82, 74),
    (28, 30, 36),
    (158, 184, 176),
    (255, 255, 255),
)
HINT_TOKEN, LIFE_TOKEN, SPENT = (120, 190, 232), (232, 108, 92), (58, 98, 90)
MARK = (250, 214, 92)

SCALE = 2  # drawn larger and scaled down, for smooth edges
CARD_W, CARD_H, GAP, MARGIN = 36, 50, 8, 14
SMALL_W, SMALL_H = 15, 20  # discards
LABEL_W, HINT_H, LINE_H = 70, 17, 22
TOKEN = 12


def render(state: State, variant: Variant) -> np.ndarray:
    """RGB uint8 picture of a single game."""
    if np.ndim(state.hands) != 2:
        raise ValueError("render draws one game; index the batch, or use render_states")
    state = jax.tree.map(np.asarray, state)
    picture = Picture(variant)
    title = last_move_name(state, variant)
    if over(state, variant):
        state, title = state.replace(turn=np.int8(-1)), f"{title}; game over"
    picture.line(title)
    picture.board(state)
    for player in range(variant.players):
        picture.hand(state, player)
    picture.discards(state)
    return picture.array()


def render_states(states: State, variant: Variant) -> list[np.ndarray]:
    """Pictures of a game; `states` has leaves [timesteps, ...]."""
    host = jax.tree.map(np.asarray, states)
    steps = len(host.hands)
    return [render(jax.tree.map(lambda x, t=t: x[t], host), variant) for t in range(steps)]


@lru_cache(maxsize=16)
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font."""
    return ImageFont.load_default(size * SCALE)


class Picture:
    """A picture that is filled from top to bottom."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        cards = max(variant.hand_size, variant.colors)
        tokens = max(variant.hint_tokens, variant.life_tokens)
        beside = LABEL_W + cards * (CARD_W + GAP) + GAP
        self.side = MARGIN + beside  # the left edge of what stands beside the cards
        by_cards = beside + max(tokens * (TOKEN + 3), 96)
        self.per_row = (by_cards - LABEL_W) // (SMALL_W + 2)  # discards
        # The pile never holds the cards in the fireworks' last places, but may hold most others.
        self.discard_rows = -(-variant.deck_size // self.per_row)
        self.width = by_cards + 2 * MARGIN
        hand = CARD_H + HINT_H + GAP
        self.height = (
            2 * MARGIN
            + LINE_H
            + (CARD_H + 2 * GAP)
            + variant.players * hand
            + self.discard_rows * (SMALL_H + 2)
        )
        self.image = Image.new("RGB", (self.width * SCALE, self.height * SCALE), FELT)
        self.pen = ImageDraw.Draw(self.image)
        self.y = MARGIN

    def array(self) -> np.ndarray:
        """The finished picture."""
        return np.array(self.image.resize((self.width, self.height), Image.Resampling.LANCZOS))

    def text(
        self, x: float, y: float, words: str, size: int, fill: Colour = WHITE, anchor: str = "la"
    ) -> None:
        """Text at a position."""
        self.pen.text((x * SCALE, y * SCALE), words, fill, font(size), anchor)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: Colour | None,
        outline: Colour | None = None,
        line: float = 1,
    ) -> None:
        """A rounded rectangle."""
        corners = (x * SCALE, y * SCALE, (x + width) * SCALE, (y + height) * SCALE)
        width_px = round(line * SCALE) if line > 1 else 1
        radius = min(width, height) / 8 * SCALE
        self.pen.rounded_rectangle(corners, radius, fill, outline, width_px)

    def line(self, words: str) -> None:
        """A line of text."""
        self.text(MARGIN, self.y, words, 13, MARK)
        self.y += LINE_H

    def card(self, x: float, y: float, color: int, rank: int, small: bool = False) -> None:
        """A card; ranks are counted from 0."""
        width, height = (SMALL_W, SMALL_H) if small else (CARD_W, CARD_H)
        fill = CARD_COLOURS[color]
        ink = INK if sum(fill) > 380 else WHITE
        self.box(x, y, width, height, fill, INK)
        if small:
            self.text(x + width / 2, y + height / 2, str(rank + 1), 12, ink, "mm")
            return
        self.text(x + 4, y + 3, COLOR_LETTERS[color], 10, ink)
        self.text(x + width / 2, y + height / 2 + 3, str(rank + 1), 24, ink, "mm")

    def board(self, state: State) -> None:
        """Fireworks, the deck and the tokens."""
        self.text(MARGIN, self.y + CARD_H / 2, "fireworks", 12, FAINT, "lm")
        x = MARGIN + LABEL_W
        for color, height in enumerate(state.fireworks):
            if height:
                self.card(x, self.y, color, int(height) - 1)
            else:
                self.box(x, self.y, CARD_W, CARD_H, PANEL, CARD_COLOURS[color], 1.5)
            x += CARD_W + GAP
        x = self.side
        left, points = self.variant.deck_size - int(state.drawn), int(state.fireworks.sum())
        self.tokens(x, self.y + 2, int(state.hints), self.variant.hint_tokens, HINT_TOKEN)
        self.tokens(x, self.y + 18, int(state.lives), self.variant.life_tokens, LIFE_TOKEN)
        self.text(x, self.y + 35, f"deck {left}   score {points}", 12, FAINT)
        self.y += CARD_H + 2 * GAP

    def tokens(self, x: float, y: float, number: int, most: int, fill: Colour) -> None:
        """A row of tokens, spent ones dark."""
        for index in range(most):
            left = (x + index * (TOKEN + 3)) * SCALE
            corners = (left, y * SCALE, left + TOKEN * SCALE, (y + TOKEN) * SCALE)
            self.pen.ellipse(corners, fill if index < number else SPENT)

    def hand(self, state: State, player: int) -> None:
        """A player's cards, and below each what hints have named."""
        variant, on_turn = self.variant, int(state.turn) == player
        self.text(
            MARGIN, self.y + CARD_H / 2, f"player {player}", 12, MARK if on_turn else FAINT, "lm"
        )
        touched = np.zeros(variant.hand_size, bool)
        action = int(state.last.action)
        if int(state.last.player) >= 0 and variant.moves.offset[action] > 0:
            to = (int(state.last.player) + variant.moves.offset[action]) % variant.players
            touched = state.last.touched & (to == player)
        x = MARGIN + LABEL_W
        for slot, card in enumerate(state.hands[player]):
            if card != NO_CARD:
                color, rank = divmod(int(card), variant.ranks)
                self.card(x, self.y, color, rank)
                if touched[slot]:
                    self.box(x - 2, self.y - 2, CARD_W + 4, CARD_H + 4, None, MARK, 2)
                self._hinted(state, player, slot, x, color, rank)
            x += CARD_W + GAP
        self.y += CARD_H + HINT_H + GAP

    def _hinted(
        self, state: State, player: int, slot: int, x: float, color: int, rank: int
    ) -> None:
        """What hints have named of a card: a swatch for the colour, a number for the rank."""
        y = self.y + CARD_H + 3
        if state.color_hinted[player, slot]:
            self.box(x + 3, y + 1, 12, 11, CARD_COLOURS[color], INK)
        if state.rank_hinted[player, slot]:
            self.text(x + CARD_W - 10, y + 6, str(rank + 1), 12, WHITE, "mm")

    def discards(self, state: State) -> None:
        """The discard pile, sorted."""
        self.text(MARGIN, self.y + SMALL_H / 2, "discards", 12, FAINT, "lm")
        thrown = np.repeat(np.arange(self.variant.cards), state.discards)
        for index, card in enumerate(thrown):
            row, column = divmod(index, self.per_row)
            color, rank = divmod(int(card), self.variant.ranks)
            x = MARGIN + LABEL_W + column * (SMALL_W + 2)
            self.card(x, self.y + row * (SMALL_H + 2), color, rank, small=True)

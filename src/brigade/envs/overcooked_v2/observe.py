"""What cooks observe: one plane per thing to see, of the whole kitchen or of a window around them.

The planes, for n ingredients: the own cook and then the others, each as position, 4 facings (up,
down, right, left), and what is held (plate, cooked, a count per ingredient); six fixed tiles
(counter, serving, pot, indicator, button, plates); n piles; things on counters and in pots (plate,
cooked, counts); the recipe where it is shown (as things); the timers of pots; and, if asked for,
serving tiles on which the right soup was just served.

What is to be seen of a tile is packed into two words of bits, or a few more with many ingredients.
Every plane is some bits of one of them, so few numbers are looked up per tile and one loop over the
planes unpacks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array
from brigade.envs.overcooked_v2.rules import State
from brigade.envs.overcooked_v2.tasks import Task, num_ingredients
from brigade.envs.overcooked_v2.things import (
    BUTTON,
    COUNTER,
    FLOOR,
    INDICATOR,
    NOTHING,
    PILE,
    PLATE_PILE,
    POT,
    SERVING,
)

FIXED = (COUNTER, SERVING, POT, INDICATOR, BUTTON, PLATE_PILE)
OF_PLACE, OF_TIMER = 5, 5  # bits of a cook's position and facing, and of a timer
WORD = 31  # bits


class Bits(NamedTuple):
    """Where something is in the words."""

    word: int
    first: int
    mask: int


def num_channels(ingredients: int, shows_delivery: bool) -> int:
    """The number of planes."""
    return len(packing(ingredients, shows_delivery)[1])


@lru_cache
def packing(
    ingredients: int, shows_delivery: bool
) -> tuple[tuple[Bits, ...], tuple[Bits, ...], tuple[Bits, ...]]:
    """Where what is to be seen is: two parts of cooks, all planes, and five parts of tiles."""
    thing = (1, 1) + (2,) * ingredients  # plate, cooked, counts
    cooks = [(1,) * OF_PLACE + thing] * 2
    tiles = [(1,) * (len(FIXED) + ingredients), thing, thing, (OF_TIMER,), (1,) * shows_delivery]
    parts: list[Bits] = []
    planes: list[Bits] = []
    word = used = 0
    for number, sizes in enumerate([*cooks, *tiles]):
        if used + sum(sizes) > WORD or number == len(cooks):  # tiles are looked up, cooks are not
            word, used = word + 1, 0
        parts.append(Bits(word, used, (1 << sum(sizes)) - 1))
        for size in sizes:
            planes.append(Bits(word, used, (1 << size) - 1))
            used += size
    return tuple(parts[: len(cooks)]), tuple(planes), tuple(parts[len(cooks) :])


def packed(parts: Sequence[Array], places: Sequence[Bits]) -> list[Array]:
    """The words that these parts fill."""
    words: dict[int, Array] = {}
    for part, place in zip(parts, places, strict=True):
        bits = (part & place.mask) << place.first
        words[place.word] = words[place.word] | bits if place.word in words else bits
    return list(words.values())


def observe(
    state: State, task: Task, ingredients: int, view: int | None, shows_delivery: bool
) -> Array:
    """[seats, height, width, planes] uint8; with a `view`, 2 * view + 1 tiles each way."""
    height, width = task.tile.shape
    cells, inside = seen_cells(state.cell, height, width, view)
    of_cooks, planes, of_tiles = packing(ingredients, shows_delivery)
    words = packed(parts_of_cooks(state, cells, inside), of_cooks)
    for word in packed(parts_of_tiles(state, task), of_tiles):
        words.append(jnp.where(inside, word[cells], 0))
    words = jax.lax.optimization_barrier(words)  # whoever reads planes unpacks those that it needs
    which, first, mask = np.array(planes, np.int32).T
    found = words[0][..., None]
    for number, word in enumerate(words[1:], 1):
        found = jnp.where(which == number, word[..., None], found)
    seen = (found >> first & mask).astype(jnp.uint8)
    size = (height, width) if view is None else (2 * view + 1, 2 * view + 1)
    return seen.reshape(len(state.cell), *size, -1)


def parts_of_cooks(state: State, cells: Array, inside: Array) -> list[Array]:
    """Oneself and the others, [seats, tiles] int32 each: position, facing, what is held."""
    seats = range(len(state.cell))
    cook = 1 | 2 << state.facing | state.held << OF_PLACE
    here = [jnp.where((cells == state.cell[seat]) & inside, cook[seat], 0) for seat in seats]
    own = np.eye(len(seats), dtype=bool)[:, :, None]
    mine = [jnp.where(own[seat], here[seat], 0) for seat in seats]
    others = [jnp.where(own[seat], 0, here[seat]) for seat in seats]
    return [reduce(or_, mine), reduce(or_, others)]


def parts_of_tiles(state: State, task: Task) -> list[Array]:
    """The tile, what is on it, the recipe it shows, its timer, a delivery: [cells] int32 each."""
    tile = task.tile.reshape(-1)
    kinds = [jnp.where(tile == kind, 1 << bit, 0) for bit, kind in enumerate(FIXED)]
    pile = jnp.where(tile >= PILE, 1 << len(FIXED) + jnp.maximum(tile - PILE, 0), 0)
    shown = (tile == INDICATOR) | ((tile == BUTTON) & (state.timer > 0))
    return [
        reduce(or_, kinds, pile),
        state.thing,
        jnp.where(shown, state.recipe, NOTHING),
        jnp.where(tile == POT, state.timer, 0),
        ((tile == SERVING) & state.delivered).astype(jnp.int32),
    ]


def seen_cells(cell: Array, height: int, width: int, view: int | None) -> tuple[Array, Array]:
    """The cells that each cook sees [seats, tiles], and which of them are inside the kitchen."""
    if view is None:
        every = jnp.broadcast_to(jnp.arange(height * width), (len(cell), height * width))
        return every, jnp.ones_like(every, bool)
    down, right = (each.reshape(-1) for each in np.mgrid[-view : view + 1, -view : view + 1])
    rows, columns = (cell // width)[:, None] + down, (cell % width)[:, None] + right
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return jnp.where(inside, rows * width + columns, 0), inside


def changing_entries(tasks: Task, view: int | None, shows_delivery: bool) -> int:
    """How many entries of an observation can change in a kitchen; for several, the maximum.

    Cooks and what they hold are on floor, things on counters and in pots. In a window, fixed tiles
    come into view and leave it, too.
    """
    grids, seats = np.asarray(tasks.tile), tasks.start.shape[-1]
    most = 0
    for tile in grids.reshape(-1, *grids.shape[-2:]):
        ingredients = num_ingredients(tile)
        held = OF_PLACE + 2 + ingredients  # planes of a cook
        planes = changing_planes(tile, held * (seats > 1), ingredients, shows_delivery)
        if view is None:
            entries = sum(number * int(at.sum()) for number, at in planes)
            most = max(most, entries + held * int((tile == FLOOR).sum()))
        else:
            seen = [(number, around(at, tile == FLOOR, view)) for number, at in planes]
            entries = sum(number * int(at.any(0).sum()) for number, at in seen)
            kinds = [*FIXED, *(PILE + number for number in range(ingredients))]
            fixed = [around(tile == kind, tile == FLOOR, view) for kind in kinds]
            entries += sum(int((at.any(0) & ~at.all(0)).sum()) for at in fixed)
            most = max(most, entries + held - 1)  # one is always in the middle of one's own view
    return most


def changing_planes(
    tile: np.ndarray, others: int, ingredients: int, shows_delivery: bool
) -> list[tuple[int, np.ndarray]]:
    """How many planes of others and of things can change, and on which tiles."""
    return [
        (others, tile == FLOOR),
        (2 + ingredients, (tile == COUNTER) | (tile == POT)),
        (2 + ingredients, (tile == INDICATOR) | (tile == BUTTON)),
        (1, tile == POT),
        (int(shows_delivery), tile == SERVING),
    ]


def around(at: np.ndarray, floor: np.ndarray, view: int) -> np.ndarray:
    """[floor cells, 2 view + 1, 2 view + 1] bool: what a cook on each of them sees of `at`."""
    side = 2 * view + 1
    return np.lib.stride_tricks.sliding_window_view(np.pad(at, view), (side, side))[floor]

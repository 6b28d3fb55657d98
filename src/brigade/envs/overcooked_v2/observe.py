"""What cooks observe: one plane per thing to see, of the whole kitchen or of a window around them.

The planes, for n ingredients: the own cook and then the others, each as position, 4 facings (up,
down, right, left), and what is held (plate, cooked, a count per ingredient); six fixed tiles
(counter, serving, pot, indicator, button, plates); n piles; things on counters and in pots (plate,
cooked, counts); the recipe where it is shown (as things); the timers of pots; and, if asked for,
serving tiles on which the right soup was just served.

What is to be seen of a tile is packed into five words of 32 bits, and every plane is a few bits of
one of them: few numbers are looked up per tile, and all planes are unpacked in one loop.
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array
from brigade.envs.overcooked_v2.rules import State
from brigade.envs.overcooked_v2.tasks import Task
from brigade.envs.overcooked_v2.things import (
    BUTTON,
    COUNTER,
    FLOOR,
    INDICATOR,
    MAX_INGREDIENTS,
    NOTHING,
    PILE,
    PLATE_PILE,
    POT,
    SERVING,
)

FIXED = (COUNTER, SERVING, POT, INDICATOR, BUTTON, PLATE_PILE)
MINE, OTHERS, TILE, THING, RECIPE = range(5)  # the words
HELD = 5  # the bit at which what a cook holds begins, after its position and facing
PILES = len(FIXED)  # the bit of the first pile
TIMER = 2 + 2 * MAX_INGREDIENTS  # the bits of the timer, after those of a thing
TIMER_BITS = 5
DELIVERED = TIMER + TIMER_BITS


def num_channels(ingredients: int, shows_delivery: bool) -> int:
    """The number of planes."""
    return len(fields(ingredients, shows_delivery))


@lru_cache
def fields(ingredients: int, shows_delivery: bool) -> tuple[tuple[int, int, int], ...]:
    """Of every plane the word, its first bit there, and a mask of as many bits as it has."""

    def thing(word: int, first: int = 0) -> list[tuple[int, int, int]]:
        counts = [(word, first + 2 + 2 * number, 3) for number in range(ingredients)]
        return [(word, first, 1), (word, first + 1, 1), *counts]

    planes: list[tuple[int, int, int]] = []
    for cook in (MINE, OTHERS):
        planes += [(cook, bit, 1) for bit in range(HELD)] + thing(cook, HELD)
    planes += [(TILE, bit, 1) for bit in range(PILES + ingredients)]
    planes += thing(THING) + thing(RECIPE) + [(THING, TIMER, (1 << TIMER_BITS) - 1)]
    return (*planes, *[(THING, DELIVERED, 1)] * shows_delivery)


def observe(
    state: State, task: Task, ingredients: int, view: int | None, shows_delivery: bool
) -> Array:
    """[seats, height, width, planes] uint8; with a `view`, 2 * view + 1 tiles each way."""
    (height, width), seats = task.tile.shape, len(state.cell)
    cells, inside = seen_cells(state.cell, height, width, view)

    def seen(word: Array) -> Array:
        """[cells] to [seats, tiles]."""
        return jnp.where(inside, word[cells], 0)

    cook = 1 | 2 << state.facing | state.held << HELD
    here = [jnp.where((cells == state.cell[seat]) & inside, cook[seat], 0) for seat in range(seats)]
    own = jnp.eye(seats, dtype=bool)[:, :, None]
    mine = sum(jnp.where(own[seat], here[seat], 0) for seat in range(seats))
    others = sum(jnp.where(own[seat], 0, here[seat]) for seat in range(seats))
    tile, thing, recipe = words_of_cells(state, task)
    words = jnp.stack([mine, others, seen(tile), seen(thing), seen(recipe)], axis=-1)
    which, first, mask = np.array(fields(ingredients, shows_delivery), np.int32).T
    planes = (words[..., which] >> first & mask).astype(jnp.uint8)
    size = (height, width) if view is None else (2 * view + 1, 2 * view + 1)
    return jax.lax.optimization_barrier(planes.reshape(seats, *size, -1))


def words_of_cells(state: State, task: Task) -> tuple[Array, Array, Array]:
    """[cells] int32 each: the words TILE, THING and RECIPE."""
    tile = task.tile.reshape(-1)
    bits = [jnp.where(tile == kind, 1 << bit, 0) for bit, kind in enumerate(FIXED)]
    pile = jnp.where(tile >= PILE, 1 << PILES + jnp.maximum(tile - PILE, 0), 0)
    timer = jnp.where(tile == POT, state.timer, 0) << TIMER
    delivered = ((tile == SERVING) & state.delivered).astype(jnp.int32) << DELIVERED
    shown = (tile == INDICATOR) | ((tile == BUTTON) & (state.timer > 0))
    recipe = jnp.where(shown, state.recipe, NOTHING)
    return sum(bits) + pile, state.thing | timer | delivered, recipe


def seen_cells(cell: Array, height: int, width: int, view: int | None) -> tuple[Array, Array]:
    """The cells that each cook sees [seats, tiles], and which of them are inside the kitchen."""
    if view is None:
        every = jnp.broadcast_to(jnp.arange(height * width), (len(cell), height * width))
        return every, jnp.ones_like(every, bool)
    down, right = (each.reshape(-1) for each in np.mgrid[-view : view + 1, -view : view + 1])
    rows, columns = (cell // width)[:, None] + down, (cell % width)[:, None] + right
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return jnp.where(inside, rows * width + columns, 0), inside


def changing_entries(tasks: Task, ingredients: int, view: int | None, shows_delivery: bool) -> int:
    """How many entries of an observation can change in a kitchen; for several, the maximum.

    Cooks and what they hold are on floor, things on counters and in pots. In a window, fixed tiles
    come into view and leave it, too.
    """
    grids, seats = np.asarray(tasks.tile), tasks.start.shape[-1]
    held = HELD + 2 + ingredients  # planes of a cook
    most = 0
    for tile in grids.reshape(-1, *grids.shape[-2:]):
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

"""A kitchen as data: the Task pytree, built from a grid of symbols and its recipes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, TaskSequence
from brigade.envs.overcooked_v2.solve import cycle_time
from brigade.envs.overcooked_v2.things import (
    BUTTON,
    FLOOR,
    INDICATOR,
    OUTSIDE,
    PILE,
    POT_SIZE,
    TILE_OF_SYMBOL,
    contents,
)

SEAT = "A"  # where a cook starts, in the order of reading unless `swapped`
# Of a grid; a blank is floor, too, and O is a pile of ingredient 0.
SYMBOLS = {**TILE_OF_SYMBOL, SEAT: FLOOR, "O": PILE}
MAX_SIDE = 32
MAX_RECIPES = 128
NEVER = 2**30  # the cycle time of a kitchen in which no soup can be served


class Kitchen(NamedTuple):
    """A kitchen as its author writes it."""

    rows: tuple[str, ...]
    recipes: tuple[tuple[int, ...], ...] = ()  # of three ingredients; (): all that are possible
    swapped: bool = False  # the first cook of the grid has the last seat


class Task(struct.PyTreeNode):
    """One kitchen, with the same shapes for every kitchen of a stream."""

    tile: Array  # [height, width] int32
    start: Array  # [seats] int32 cells
    room: Array  # [cells] int32: the room of each floor cell, from 1; 0 elsewhere
    recipes: Array  # [most recipes] int32: contents; one is sampled among the first `num_recipes`
    num_recipes: Array  # int32
    cycle_time: Array  # int32: steps that one good cook needs per soup; it normalises the score
    id: Array  # int32


class KitchenError(ValueError):
    """A kitchen breaks a rule; the message says where and what would be right."""


def task_from_kitchen(
    kitchen: Kitchen | Sequence[str] | str,
    *,
    num_agents: int | None = None,
    height: int | None = None,
    width: int | None = None,
    max_recipes: int | None = None,
) -> Task:
    """Build a task; smaller kitchens are padded on the right and below."""
    made = kitchen if isinstance(kitchen, Kitchen) else Kitchen(rows_of(kitchen))
    tile = tiles_of(made.rows)
    starts = starts_of(made)
    if num_agents is not None and not 1 <= num_agents <= len(starts):
        raise KitchenError(
            f"num_agents is {num_agents}, but the kitchen has {len(starts)} cooks ({SEAT}); give "
            "at most as many, or more of them in a kitchen of your own"
        )
    starts = starts[:num_agents]
    recipes = recipes_of(made, tile)
    size = (height or tile.shape[0], width or tile.shape[1])
    if tile.shape[0] > size[0] or tile.shape[1] > size[1]:
        raise KitchenError(
            f"the kitchen has {tile.shape[0]} x {tile.shape[1]} tiles; at most "
            f"{size[0]} x {size[1]} fit"
        )
    padded = np.full(size, OUTSIDE, np.int32)
    padded[: tile.shape[0], : tile.shape[1]] = tile
    table = np.full(max(max_recipes or 0, len(recipes)), contents(recipes[0]), np.int32)
    table[: len(recipes)] = [contents(recipe) for recipe in recipes]
    return Task(
        tile=jnp.asarray(padded),
        start=jnp.asarray([row * size[1] + column for row, column in starts], jnp.int32),
        room=jnp.asarray(rooms_of(padded).reshape(-1)),
        recipes=jnp.asarray(table),
        num_recipes=jnp.int32(len(recipes)),
        cycle_time=jnp.int32(cycle_time(tile, recipes) or NEVER),
        id=jnp.int32(0),
    )


def rows_of(text: Sequence[str] | str) -> tuple[str, ...]:
    """The rows of a grid, without empty ones around it; short rows are filled with floor."""
    rows = text.strip("\n").split("\n") if isinstance(text, str) else list(text)
    rows = [row.rstrip().replace(" ", ".") for row in rows]
    width = max(map(len, rows), default=0)
    return tuple(row.ljust(width, ".") for row in rows)


def tiles_of(rows: Sequence[str]) -> np.ndarray:
    """[height, width] int32."""
    height, width = len(rows), len(rows[0]) if rows else 0
    if not 3 <= min(height, width) <= max(height, width) <= MAX_SIDE:
        raise KitchenError(
            f"the kitchen has {height} x {width} tiles; it needs 3 x 3 to {MAX_SIDE} x {MAX_SIDE}"
        )
    tile = np.full((height, width), FLOOR, np.int32)
    for row, symbols in enumerate(rows):
        for column, symbol in enumerate(symbols):
            if symbol not in SYMBOLS:
                raise KitchenError(
                    f"row {row + 1}, column {column + 1} is {symbol!r}; a kitchen has "
                    f"{' '.join(sorted(SYMBOLS))}"
                )
            tile[row, column] = SYMBOLS[symbol]
    border = np.ones_like(tile, bool)
    border[1:-1, 1:-1] = False
    if (found := np.argwhere(border & (tile == FLOOR))).size:
        row, column = found[0]
        raise KitchenError(
            f"row {row + 1}, column {column + 1} is floor; the border needs counters (W) or "
            "stations"
        )
    return tile


def starts_of(kitchen: Kitchen) -> list[tuple[int, int]]:
    """The rows and columns at which cooks start, by seat."""
    found = [
        (row, column)
        for row, symbols in enumerate(kitchen.rows)
        for column, symbol in enumerate(symbols)
        if symbol == SEAT
    ]
    if not 1 <= len(found) <= 4:
        raise KitchenError(f"the kitchen has {len(found)} cooks ({SEAT}); it needs 1 to 4")
    return found[::-1] if kitchen.swapped else found


def recipes_of(kitchen: Kitchen, tile: np.ndarray) -> list[tuple[int, ...]]:
    """The recipes, one of which is wanted at a time."""
    number = num_ingredients(tile)
    if not number:
        raise KitchenError("the kitchen has no ingredients; give it a pile, 0 to 9")
    for recipe in kitchen.recipes:
        if len(recipe) != POT_SIZE or not all(0 <= each < number for each in recipe):
            raise KitchenError(
                f"recipe {recipe}: a recipe has {POT_SIZE} ingredients from 0 to {number - 1}"
            )
    if kitchen.recipes:
        return [tuple(sorted(recipe)) for recipe in kitchen.recipes]
    if not np.isin(tile, (INDICATOR, BUTTON)).any():
        raise KitchenError("nothing shows the recipe (R or L); name the recipes")
    every = list(combinations_with_replacement(range(number), POT_SIZE))
    if len(every) > MAX_RECIPES:
        raise KitchenError(f"{number} ingredients have {len(every)} recipes; name some of them")
    return every


def recipe_of(text: str) -> tuple[int, ...]:
    """A recipe from its digits, such as 012."""
    if len(text) != POT_SIZE or not (text.isascii() and text.isdigit()):
        raise KitchenError(f"recipe {text!r}: write {POT_SIZE} digits, such as 000 or 012")
    return tuple(map(int, text))


def num_ingredients(tile: np.ndarray) -> int:
    """One more than the highest pile."""
    piles = tile[tile >= PILE]
    return int(piles.max() - PILE + 1) if piles.size else 0


def rooms_of(tile: np.ndarray) -> np.ndarray:
    """[height, width] int32: connected floor cells have the same number, from 1."""
    room = np.zeros(tile.shape, np.int32)
    for first in map(tuple, np.argwhere(tile == FLOOR)):
        if room[first]:
            continue
        number, reached = room.max() + 1, [first]
        while reached:
            row, column = reached.pop()
            if tile[row, column] != FLOOR or room[row, column]:
                continue
            room[row, column] = number
            reached += [
                (row - 1, column),
                (row + 1, column),
                (row, column - 1),
                (row, column + 1),
            ]
    return room


def sequence_from_kitchens(
    kitchens: Sequence[Kitchen | Sequence[str] | str],
    names: Sequence[str],
    steps: int,
    *,
    num_agents: int | None = None,
    height: int | None = None,
    width: int | None = None,
) -> TaskSequence:
    """A stream of kitchens, padded to the size of the largest and the number of most recipes."""
    made = [task_from_kitchen(kitchen, num_agents=num_agents) for kitchen in kitchens]
    whole = {
        "height": height or max(task.tile.shape[0] for task in made),
        "width": width or max(task.tile.shape[1] for task in made),
        "max_recipes": max(len(task.recipes) for task in made),
    }
    tasks = [task_from_kitchen(kitchen, num_agents=num_agents, **whole) for kitchen in kitchens]
    return TaskSequence.from_tasks(tasks, names, steps)

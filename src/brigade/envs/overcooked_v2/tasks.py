"""A kitchen as data: the Task pytree, built from a grid of symbols and its recipes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, TaskSequence
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
MAX_RECIPES = 128


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
    best: Array  # int32: soups that one good cook could serve in an episode; normalises the score
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
    horizon: int = 400,
) -> Task:
    """Build a task; smaller kitchens are padded on the right and below."""
    made = kitchen if isinstance(kitchen, Kitchen) else Kitchen(rows_of(kitchen))
    tile = tiles_of(made.rows)
    starts = starts_of(made)
    if num_agents is not None and len(starts) != num_agents:
        raise KitchenError(
            f"the kitchen has {len(starts)} cooks ({SEAT}) and the environment {num_agents}; use "
            "as many"
        )
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
        best=jnp.int32(1),
        id=jnp.int32(0),
    )


def rows_of(text: Sequence[str] | str) -> tuple[str, ...]:
    """The rows of a grid, without empty ones around it; short rows are filled with floor."""
    rows = text.strip("\n").split("\n") if isinstance(text, str) else list(text)
    width = max(map(len, rows), default=0)
    return tuple(row.ljust(width) for row in rows)


def tiles_of(rows: Sequence[str]) -> np.ndarray:
    """[height, width] int32."""
    tile = np.full((len(rows), len(rows[0])), FLOOR, np.int32)
    for row, symbols in enumerate(rows):
        for column, symbol in enumerate(symbols):
            known = TILE_OF_SYMBOL | {SEAT: FLOOR, "O": PILE}
            if symbol not in known:
                raise KitchenError(
                    f"row {row + 1}, column {column + 1} is {symbol!r}; a kitchen has "
                    f"{' '.join(sorted(known))!r}"
                )
            tile[row, column] = known[symbol]
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
    ids: Sequence[int] | None = None,
    **shape: int,
) -> TaskSequence:
    """A stream of kitchens, padded to the size of the largest and the number of most recipes."""
    made = [task_from_kitchen(kitchen, **shape) for kitchen in kitchens]
    height, width, recipes = (
        max(sizes)
        for sizes in zip(*((*each.tile.shape, len(each.recipes)) for each in made), strict=True)
    )
    whole = {"height": height, "width": width, "max_recipes": recipes} | shape
    tasks = [task_from_kitchen(kitchen, **whole) for kitchen in kitchens]
    return TaskSequence.from_tasks(tasks, names, steps, ids)

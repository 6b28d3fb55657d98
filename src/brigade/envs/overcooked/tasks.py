"""A kitchen as data: the Task pytree, built from a grid of symbols."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, TaskSequence
from brigade.core.checks import within
from brigade.envs.overcooked.grid import (
    Cell,
    Grid,
    GridError,
    check_shape,
    parse_grid,
    starts,
    survey,
)
from brigade.envs.overcooked.recipes import RECIPES, Recipe, Recipes, recipe_arrays
from brigade.envs.overcooked.solve import cycle_time
from brigade.envs.overcooked.things import COOK_TIME, MAX_POT_SIZE, POT_SIZE, Role, Tile

NEVER = 2**30  # the cycle time of a kitchen in which no soup can be served


class Task(struct.PyTreeNode):
    """One kitchen, with the same shapes for every kitchen of a sequence."""

    tile: Array  # [height, width] uint8
    start: Array  # [seats] int32 cells
    region: Array  # [height, width] uint8: rooms in which cooks start, from 1; 0 elsewhere
    slippery: Array  # [height, width] bool
    role: Array  # [seats] int8: ANY, CHEF or WAITER
    pot_size: Array  # uint8: ingredients per soup
    cook_time: Array  # uint8: in steps
    recipes: Recipes  # for kitchens with a list of recipes; pot_size and cook_time are for others
    cycle_time: Array  # int32: steps that one good cook needs per soup; it normalises the score
    id: Array  # int32: index of the task in its sequence


def task_from_grid(
    rows: str | Sequence[str],
    *,
    num_agents: int = 2,
    height: int | None = None,
    width: int | None = None,
    cook_time: int = COOK_TIME,
    pot_size: int = POT_SIZE,
    recipes: Mapping[str, Recipe] = RECIPES,
    roles: Sequence[int] | None = None,
    slippery: Collection[Cell] = (),
) -> Task:
    """Build a task from a grid, padded with counters on the right and below to the given size.

    `cook_time` and `pot_size` are for kitchens with one recipe, `recipes` for those with a list.
    `roles` has one of ANY, CHEF and WAITER per seat; `slippery` has (row, column) from 0.
    """
    grid = parse_grid(rows)
    check_shape(grid, num_agents)
    within("pot_size", pot_size, 1, MAX_POT_SIZE)
    within("cook_time", cook_time, 1, 255)
    tile = padded_tiles(grid, height or len(grid), width or len(grid[0]))
    cells = [row * tile.shape[1] + column for row, column in starts(grid, num_agents)]
    return Task(
        tile=jnp.asarray(tile),
        start=jnp.asarray(cells, jnp.int32),
        region=jnp.asarray(regions(grid, num_agents, tile)),
        slippery=jnp.asarray(marked(slippery, tile)),
        role=jnp.asarray(checked_roles(roles, num_agents), jnp.int8),
        pot_size=jnp.uint8(pot_size),
        cook_time=jnp.uint8(cook_time),
        recipes=recipe_arrays(recipes),
        cycle_time=jnp.int32(cycle_time(grid, num_agents, cook_time, pot_size) or NEVER),
        id=jnp.int32(0),
    )


def regions(grid: Grid, num_agents: int, tile: np.ndarray) -> np.ndarray:
    """Number the rooms in which cooks start, from 1; all other tiles are 0."""
    kitchen = survey(grid, num_agents)
    numbers = np.zeros_like(tile)
    for number, region in enumerate(dict.fromkeys(kitchen.regions), 1):
        for cell in kitchen.tiles(region):
            numbers[cell] = number
    return numbers


def marked(cells: Collection[Cell], tile: np.ndarray) -> np.ndarray:
    """[height, width] bool: True on the given floor cells."""
    mask = np.zeros(tile.shape, bool)
    for row, column in cells:
        inside = 0 <= row < tile.shape[0] and 0 <= column < tile.shape[1]
        if not inside or tile[row, column] != Tile.FLOOR:
            raise ValueError(
                f"slippery: row {row + 1}, column {column + 1} is not floor; give floor tiles only"
            )
        mask[row, column] = True
    return mask


def checked_roles(roles: Sequence[int] | None, num_agents: int) -> Sequence[int]:
    """One role per seat; without roles all cooks may take anything."""
    if roles is None:
        return [Role.ANY] * num_agents
    if len(roles) != num_agents or not all(Role.ANY <= role <= Role.WAITER for role in roles):
        raise ValueError(
            f"roles is {tuple(roles)}; give {num_agents} roles: 0 (any), 1 (chef) or 2 (waiter)"
        )
    return roles


def padded_tiles(grid: Grid, height: int, width: int) -> np.ndarray:
    """The tiles of a grid [height, width]; starts are floor."""
    if height < len(grid) or width < len(grid[0]):
        raise GridError(
            f"size: the kitchen has {len(grid)} rows and {len(grid[0])} columns and does not fit "
            f"into {height} x {width}; give a height and a width at least that large",
            rule="size",
        )
    tile = np.full((height, width), Tile.COUNTER, np.uint8)
    tile[: len(grid), : len(grid[0])] = [
        [Tile.OF_SYMBOL.get(symbol, Tile.FLOOR) for symbol in row] for row in grid
    ]
    return tile


def task_of_many(tasks: Sequence[Task]) -> Task:
    """A task with several kitchens, leaves [kitchens, ...], one of which an episode samples."""
    stacked: Task = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    return stacked.replace(id=jnp.int32(0))


def sequence_from_grids(
    grids: Sequence[Grid],
    names: Sequence[str],
    *,
    steps: int,
    num_agents: int = 2,
    height: int | None = None,
    width: int | None = None,
) -> TaskSequence:
    """Stack kitchens into one sequence, padded to a common size."""
    height = height or max(len(grid) for grid in grids)
    width = width or max(len(grid[0]) for grid in grids)
    tasks = [
        task_from_grid(grid, num_agents=num_agents, height=height, width=width) for grid in grids
    ]
    return TaskSequence.from_tasks(tasks, names, steps)

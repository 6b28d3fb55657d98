"""A kitchen as data: the Task pytree, made from a grid of symbols."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, TaskSequence
from brigade.envs.overcooked.grid import Grid, GridError, check_shape, parse_grid, starts
from brigade.envs.overcooked.solve import cycle_time
from brigade.envs.overcooked.things import COOK_TIME, COUNTER, FLOOR, TILE_OF_SYMBOL

NEVER = 2**30  # the cycle time of a kitchen where no soup can be served


class Task(struct.PyTreeNode):
    """One kitchen. The same shapes for every kitchen of a sequence."""

    tile: Array  # [height, width] uint8
    start: Array  # [seats] int32 cells
    cook_time: Array  # uint8
    cycle_time: Array  # int32: steps one good cook needs per soup; scores are divided by it
    id: Array  # int32: which task of a sequence this is


def task_from_grid(
    rows: str | Sequence[str],
    *,
    num_agents: int = 2,
    height: int | None = None,
    width: int | None = None,
) -> Task:
    """Read a grid into a Task, padded with counters on the right and below to the given size."""
    grid = parse_grid(rows)
    check_shape(grid, num_agents)
    tile = padded_tiles(grid, height or len(grid), width or len(grid[0]))
    cells = [row * tile.shape[1] + column for row, column in starts(grid, num_agents)]
    return Task(
        tile=jnp.asarray(tile),
        start=jnp.asarray(cells, jnp.int32),
        cook_time=jnp.uint8(COOK_TIME),
        cycle_time=jnp.int32(cycle_time(grid, num_agents) or NEVER),
        id=jnp.int32(0),
    )


def padded_tiles(grid: Grid, height: int, width: int) -> np.ndarray:
    """The grid's tiles [height, width], starts as floor."""
    if height < len(grid) or width < len(grid[0]):
        raise GridError(
            f"size: the kitchen has {len(grid)} rows and {len(grid[0])} columns and does not fit "
            f"into {height} x {width}; give a height and a width at least that large",
            rule="size",
        )
    tile = np.full((height, width), COUNTER, np.uint8)
    tile[: len(grid), : len(grid[0])] = [
        [TILE_OF_SYMBOL.get(symbol, FLOOR) for symbol in row] for row in grid
    ]
    return tile


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

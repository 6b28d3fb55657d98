"""How H1 gives way in cramped kitchens."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from brigade.core import Array
from brigade.envs.overcooked_v2.teammates.kitchen import (
    FAR,
    STAY,
    Kitchen,
    Way,
    first_of,
    is_dish,
)
from brigade.envs.overcooked_v2.things import is_ingredient

MOST_FLOOR = 8  # cells


def is_cramped(kitchen: Kitchen) -> Array:
    """Whether there is little room."""
    return kitchen.floor.sum() <= MOST_FLOOR


def tenths(kitchen: Kitchen) -> Array:
    """[cells] What a side of a station costs more, in tenths of a step: seats prefer corners."""
    height, width = kitchen.size
    first_seat = kitchen.rows + kitchen.columns
    tenth = jnp.where(kitchen.scene.seat == 0, first_seat, height + width - first_seat)
    return jnp.where(is_cramped(kitchen), tenth, 0)


def step(kitchen: Kitchen, way: Way, held: Array) -> Array:
    """The move on its way; in a cramped kitchen another one if the other cook is there.

    The first cook keeps to its way if it has no choice, or with an ingredient only one.
    """
    k = kitchen
    after = k.scene.cell + jnp.asarray((*k.shifts, 0, 0))[way.step]
    taken = is_cramped(k) & (way.step < STAY) & (after == k.scene.other)
    others = k.free_moves & (np.arange(4) != way.step)
    enough = jnp.where(is_ingredient(held), 2, 1)
    keeps = (k.scene.seat == 0) & ~is_dish(held) & (others.sum() < enough)
    return jnp.where(taken & ~keeps, first_of(others), way.step)


def yield_at(kitchen: Kitchen, target: Array) -> tuple[Array, Array]:
    """Whether the second cook lets the first one use a pot with one side, and its move away."""
    k, scene = kitchen, kitchen.scene
    sides = (target + k.shifts) % k.cells
    side = jnp.where(k.floor[sides], sides, 0).max()
    both_carry = is_cramped(k) & (scene.seat > 0) & is_ingredient(scene.other_held)
    first_come = k.to_other(side) <= k.manhattan(scene.cell, side) + 1
    away = jnp.where(k.free_moves, k.manhattan(k.next_cells, side), -1)
    move = jnp.where(k.free_moves.any(), away.argmax(), STAY)
    return both_carry & (k.floor[sides].sum() == 1) & first_come, move


def avoid(kitchen: Kitchen) -> Array:
    """A move out of the way of the other cook, who is about to serve."""
    k, scene = kitchen, kitchen.scene
    goals = k.floor & k.beside(k.serving)
    distances = jnp.abs(k.rows[:, None] - k.rows) + jnp.abs(k.columns[:, None] - k.columns)
    to_goal = jnp.where(goals, distances, FAR).min(1)
    to_goal = jnp.where(goals.any(), to_goal, 0)  # [cells]
    row, column = scene.other // k.width, scene.other % k.width
    rows, columns = k.rows, k.columns
    in_rows = (rows >= jnp.minimum(row, rows[:, None])) & (rows <= jnp.maximum(row, rows[:, None]))
    in_columns = (columns >= jnp.minimum(column, columns[:, None])) & (
        columns <= jnp.maximum(column, columns[:, None])
    )
    between = (goals[:, None] & in_rows & in_columns).any(0)
    avoided = k.floor & (goals | between | k.beside(k.numbers == scene.other))
    calm = k.floor & ~avoided
    # Moves onto calm cells, the farthest from the goals first.
    possible = k.free_moves & calm[k.next_cells]
    farthest = jnp.where(possible, to_goal[k.next_cells], -1).argmax()
    # Otherwise nearer to the calm cell that is farthest from the goals.
    refuge = jnp.where(calm, to_goal, -1).argmax()
    nearer = jnp.where(k.free_moves, k.manhattan(k.next_cells, refuge), FAR)
    helps = calm.any() & (nearer.min() < k.manhattan(scene.cell, refuge))
    flight = jnp.where(helps, nearer.argmin(), STAY)
    move = jnp.where(possible.any(), farthest, flight)
    return jnp.where(avoided[scene.cell], move, STAY)

"""What chance decides within a game: where cooks start, and what becomes of their actions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from brigade.core import Array, Key
from brigade.envs.overcooked.tasks import Task
from brigade.envs.overcooked.things import STAY


def start_cells(key: Key, task: Task) -> Array:
    """[seats] int32: different floor cells, each in the room where its seat starts.

    The cells are ranked at random once, and seat by seat the best one that is free is taken.
    """
    rank = jax.random.uniform(key, task.tile.shape).reshape(-1)
    region = task.region.reshape(-1)
    cells: list[Array] = []
    for start in task.start:
        best = jnp.argmax(jnp.where(region == region[start], rank, -1.0)).astype(jnp.int32)
        rank = rank.at[best].set(-1.0)
        cells.append(best)
    return jnp.stack(cells)


def stick(key: Key, action: Array, last: Array, probability: float) -> Array:
    """Each seat repeats its last action with some probability; there is none (-1) at first."""
    repeats = jax.random.bernoulli(key, probability, action.shape) & (last >= 0)
    return jnp.where(repeats, last, action)


def slip(key: Key, action: Array, cell: Array, task: Task, probability: float) -> Array:
    """A cook who walks off a slippery tile goes any of the four ways with some probability."""
    slip_key, way_key = jax.random.split(key)
    slips = jax.random.bernoulli(slip_key, probability, action.shape)
    slips &= (action < STAY) & task.slippery.reshape(-1)[cell]
    return jnp.where(slips, jax.random.randint(way_key, action.shape, 0, 4), action)

"""Randomness within an episode: start positions, sticky actions and slippery tiles."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from brigade.core import Array, Key
from brigade.envs.overcooked.tasks import Task
from brigade.envs.overcooked.things import STAY


def start_cells(key: Key, task: Task) -> Array:
    """[seats] int32: distinct random floor cells, each in the room where its seat starts.

    All cells get a random rank, and each seat takes the free cell of its room with the highest.
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
    """Each seat repeats its last action with this probability, except in the first step (-1)."""
    repeats = jax.random.bernoulli(key, probability, action.shape) & (last >= 0)
    return jnp.where(repeats, last, action)


def slip(key: Key, action: Array, cell: Array, task: Task, probability: float) -> Array:
    """A move off a slippery tile goes in a random direction with this probability."""
    slip_key, direction_key = jax.random.split(key)
    slips = jax.random.bernoulli(slip_key, probability, action.shape)
    slips &= (action < STAY) & task.slippery.reshape(-1)[cell]
    return jnp.where(slips, jax.random.randint(direction_key, action.shape, 0, 4), action)

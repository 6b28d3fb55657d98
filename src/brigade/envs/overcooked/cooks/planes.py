"""Planes: arrays [..., height, width] with a value for every tile of a kitchen.

Marks are planes of bool. Distances and rooms are found by loops of a fixed length, so they compile
and batch.
"""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp

from brigade.core import Array

UNREACHABLE = 2**15  # as a distance

Planes = TypeVar("Planes", bound=tuple[Array, ...])


def neighbour(plane: Array, direction: int, outside: bool | int) -> Array:
    """For each tile the value of its neighbour in a direction: up, down, right, left."""
    down, right = ((1, 0), (-1, 0), (0, -1), (0, 1))[direction]  # where values move
    unmoved = [(0, 0, 0)] * (plane.ndim - 2)
    shift = [*unmoved, (down, -down, 0), (right, -right, 0)]
    return jax.lax.pad(plane, jnp.asarray(outside, plane.dtype), shift)


def beside(plane: Array) -> Array:
    """The tiles next to marked ones."""
    up, down, right, left = (neighbour(plane, direction, False) for direction in range(4))
    return up | down | right | left


def values_around(mark: Array, plane: Array, outside: bool | int) -> Array:
    """[..., 4]: the values of a plane above, below, right and left of the marked tile."""
    return jnp.stack([at(neighbour(plane, way, outside), mark) for way in range(4)], -1)


def ahead(around: Array, facing: Array) -> Array:
    """Of the values around a tile, the one that it faces."""
    return jnp.take_along_axis(around, facing[..., None], axis=-1)[..., 0]


def flood(start: Array, passable: Array) -> tuple[Array, Array]:
    """All passable tiles that can be reached from `start`, with itself, and all tiles beside them.

    The loop carries both, so that the second is computed once and not by everything that uses it.
    """

    def grow(_: int, reached: tuple[Array, Array]) -> tuple[Array, Array]:
        room = reached[0] | (reached[1] & passable)
        return room, beside(room)

    return jax.lax.fori_loop(0, longest_walk(start), grow, (start, beside(start)))


def walking_distance(goal: Array, passable: Array) -> Array:
    """int32: steps over passable tiles onto the nearest goal, or UNREACHABLE."""
    start = jnp.where(goal, 0, UNREACHABLE)

    def relax(_: int, distance: Array) -> Array:
        nearest = distance
        for direction in range(4):
            nearest = jnp.minimum(nearest, 1 + neighbour(distance, direction, UNREACHABLE))
        return jnp.where(passable, jnp.minimum(nearest, UNREACHABLE), start)

    return jax.lax.fori_loop(0, longest_walk(goal), relax, start)


def longest_walk(plane: Array) -> int:
    """An upper bound on the length of a shortest path: the number of inner tiles."""
    height, width = plane.shape[-2:]
    return (height - 2) * (width - 2)


def at(plane: Array, mark: Array) -> Array:
    """The value on the marked tile, or the sum over marked tiles."""
    return jnp.sum(jnp.where(mark, plane, 0), axis=(-2, -1))


def anywhere(plane: Array) -> Array:
    """Whether any tile is marked."""
    return plane.any(axis=(-2, -1))


def count(plane: Array) -> Array:
    """int32: how many tiles are marked."""
    return plane.sum(axis=(-2, -1), dtype=jnp.int32)


def only_if(condition: Array, plane: Array) -> Array:
    """The plane where the condition [...] holds, and nothing elsewhere."""
    return plane & condition[..., None, None]


def within(planes: Planes, mask: Array) -> Planes:
    """The marked parts of all planes of a tuple."""
    return type(planes)(*(plane & mask for plane in planes))

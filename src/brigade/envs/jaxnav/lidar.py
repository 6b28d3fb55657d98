"""Lidar: exact distances along beams, to walls and to other robots.

A beam enters every cell through a grid line. All crossings of a beam with all grid lines are
computed at once; the cell entered is looked up in a row or column stored as the bits of an integer,
and the nearest crossing into a wall is the distance. This is arithmetic only: no gather and no loop
on the device.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from brigade.core import Array
from brigade.envs.jaxnav.rules import Robot

PARALLEL = 1e-9  # the smallest slope of a beam to a grid line, to avoid division by zero


def lidar(place: Array, heading: Array, walls: Array, robot: Robot) -> Array:
    """[robots, beams]: distances from the centres of the robots, at most the lidar's range."""
    dx, dy = directions(heading, robot.beams)
    to_walls = wall_distances(place, dx, dy, walls)
    to_robots = disc_distances(place, dx, dy, robot.radius)
    return jnp.minimum(jnp.minimum(to_walls, to_robots), robot.lidar_range)


def directions(heading: Array, beams: int) -> tuple[Array, Array]:
    """Unit vectors [robots, beams]: a full turn counterclockwise, from straight behind."""
    angle = np.linspace(-np.pi, np.pi, beams)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    ahead, aside = jnp.cos(heading)[:, None], jnp.sin(heading)[:, None]
    return ahead * cos - aside * sin, aside * cos + ahead * sin


def wall_distances(place: Array, dx: Array, dy: Array, walls: Array) -> Array:
    """[robots, beams]: distance to the first wall; there is one, since the border is wall."""
    x, y = place[:, :1], place[:, 1:]
    return jnp.minimum(
        first_crossing(x, y, dx, dy, as_bits(walls.T)), first_crossing(y, x, dy, dx, as_bits(walls))
    )


def as_bits(walls: Array) -> Array:
    """[lines, cells] -> [lines] uint32, with bit i for cell i."""
    place = jnp.arange(walls.shape[1], dtype=jnp.uint32)
    return (walls.astype(jnp.uint32) << place).sum(1, dtype=jnp.uint32)


def first_crossing(along: Array, across: Array, ahead: Array, aside: Array, bits: Array) -> Array:
    """Distance at which a beam first enters a wall through a grid line of one direction.

    Lookups beyond the border are wrong, but the beam has hit the border before.
    """
    forwards = ahead > 0
    per_line = 1.0 / jnp.where(jnp.abs(ahead) < PARALLEL, PARALLEL, ahead)
    nearest = jnp.full(ahead.shape, jnp.inf, jnp.float32)
    for line in range(1, bits.shape[0]):
        distance = (line - along) * per_line
        cell = (across + distance * aside).astype(jnp.int32).astype(jnp.uint32) & 31
        entered = jnp.where(forwards, bits[line], bits[line - 1])
        hit = (distance >= 0) & ((entered >> cell) & 1 == 1)
        nearest = jnp.minimum(nearest, jnp.where(hit, distance, jnp.inf))
    return nearest


def disc_distances(place: Array, dx: Array, dy: Array, radius: float) -> Array:
    """[robots, beams]: distance to the nearest other robot, infinite if a beam hits none."""
    nearest = jnp.full(dx.shape, jnp.inf, jnp.float32)
    for shift in range(1, place.shape[0]):
        between = jnp.roll(place, -shift, axis=0) - place
        x, y = between[:, :1], between[:, 1:]
        passed = x * dy - y * dx  # distance of the beam from the other's centre
        half_chord = jnp.sqrt(jnp.maximum(radius**2 - passed**2, 0.0))
        distance = x * dx + y * dy - half_chord
        hit = (jnp.abs(passed) <= radius) & (distance >= 0)
        nearest = jnp.minimum(nearest, jnp.where(hit, distance, jnp.inf))
    return nearest

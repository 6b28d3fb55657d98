"""What differs from kitchen to kitchen beside its tiles, drawn from a random stream."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from brigade.core.checks import within
from brigade.envs.overcooked.grid import Cell, Grid, survey
from brigade.envs.overcooked.solve import servable_roles
from brigade.envs.overcooked.things import MAX_POT_SIZE

POT_SIZES = range(1, MAX_POT_SIZE + 1)
COOK_TIMES = range(10, 31)

Item = TypeVar("Item")


def draw_pot_size(rng: Random) -> int:
    """How many ingredients a soup takes: 1 to 5."""
    return _one_of(POT_SIZES, rng)


def draw_cook_time(rng: Random) -> int:
    """How many steps a soup takes: 10 to 30."""
    return _one_of(COOK_TIMES, rng)


def draw_roles(grid: Grid, num_agents: int, rng: Random) -> tuple[int, ...]:
    """A chef or a waiter for every seat, at least one of each, so that soup can be served."""
    splits = servable_roles(grid, num_agents)
    if not splits:
        raise ValueError(
            f"no chefs and waiters among {num_agents} cooks can serve a soup in this kitchen; draw "
            "it with require_roles, or open its rooms"
        )
    return _one_of(splits, rng)


def draw_slippery(grid: Grid, num_agents: int, share: float, rng: Random) -> list[Cell]:
    """A share of the floor that cooks can walk on, rounded to whole tiles."""
    within("slippery", share, 0, 1)
    kitchen = survey(grid, num_agents)
    floor = [
        (row, column)
        for row, line in enumerate(grid)
        for column in range(len(line))
        if kitchen.reachable >> (row * kitchen.stride + column) & 1
    ]
    ranked = sorted((rng.random(), cell) for cell in floor)
    return [cell for _, cell in ranked[: round(share * len(floor))]]


def _one_of(options: Sequence[Item], rng: Random) -> Item:
    """One of them, all equally likely; random() gives the same numbers in every Python version."""
    return options[int(rng.random() * len(options))]

"""What varies between kitchens besides the tiles, sampled from a random stream."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from brigade.core.checks import within
from brigade.envs.overcooked.grid import Cell, Grid, survey
from brigade.envs.overcooked.solve import servable_roles
from brigade.envs.overcooked.things import MAX_POT_SIZE

POT_SIZES = range(1, MAX_POT_SIZE + 1)  # ingredients per soup
COOK_TIMES = range(10, 31)  # of a soup in steps

Item = TypeVar("Item")


def one_of(options: Sequence[Item], rng: Random) -> Item:
    """A uniform sample; random() gives the same numbers in every Python version."""
    return options[int(rng.random() * len(options))]


def sample_roles(grid: Grid, num_agents: int, rng: Random) -> tuple[int, ...]:
    """A role for every seat, at least one chef and one waiter, such that soup can be served."""
    splits = servable_roles(grid, num_agents)
    if not splits:
        raise ValueError(
            f"no assignment of chefs and waiters to {num_agents} cooks can serve a soup in this "
            "kitchen; generate it with require_roles, or connect its rooms"
        )
    return one_of(splits, rng)


def sample_slippery(grid: Grid, num_agents: int, share: float, rng: Random) -> list[Cell]:
    """A random share of the floor tiles that cooks can reach."""
    within("slippery", share, 0, 1)
    kitchen = survey(grid, num_agents)
    floor = list(kitchen.tiles(kitchen.reachable))
    ranked = sorted((rng.random(), cell) for cell in floor)
    return [cell for _, cell in ranked[: round(share * len(floor))]]

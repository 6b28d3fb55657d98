"""How fast soups can be served in a kitchen: the length of one cook-and-deliver cycle.

It is the cycle of one cook that knows the recipe, does everything in sequence and walks shortest
paths; a team that works in parallel can be faster. Where stations lie in separate rooms, the way
goes across a counter, over which cooks hand things.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from brigade.envs.overcooked.solve import (
    INTERACTIONS_PER_INGREDIENT,
    OTHER_INTERACTIONS,
    STEPS_BETWEEN_LEGS,
    STEPS_PER_INTERACTION,
)
from brigade.envs.overcooked_v2.things import (
    COOK_TIME,
    COUNTER,
    FLOOR,
    PILE,
    PLATE_PILE,
    POT,
    POT_SIZE,
    SERVING,
)

INTERACTIONS = INTERACTIONS_PER_INGREDIENT * POT_SIZE + OTHER_INTERACTIONS
BESIDE = ((-1, 0), (1, 0), (0, -1), (0, 1))


def cycle_time(tile: np.ndarray, recipes: Sequence[Sequence[int]]) -> int | None:
    """Steps per soup, on average over the recipes; None if no recipe can be cooked and served."""
    times = [time for recipe in recipes if (time := recipe_time(tile, recipe)) is not None]
    return round(sum(times) / len(times)) if times else None


def recipe_time(tile: np.ndarray, recipe: Sequence[int]) -> int | None:
    """Steps per soup by this recipe, with the best of the pots."""
    stations = [*(PILE + number for number in recipe), PLATE_PILE, SERVING]
    times = []
    for pot in np.argwhere(tile == POT):
        at_pot = np.zeros(tile.shape, bool)
        at_pot[tuple(pot)] = True
        legs = [distance(tile, at_pot, tile == station) for station in stations]
        times += [sum(leg for leg in legs if leg is not None)] if None not in legs else []
    walking = min(times, default=None)
    if walking is None:
        return None
    return walking + STEPS_BETWEEN_LEGS + COOK_TIME + INTERACTIONS * STEPS_PER_INTERACTION


def distance(tile: np.ndarray, here: np.ndarray, there: np.ndarray) -> int | None:
    """Steps from beside one station to beside another: over floor, or across counters."""
    floor = tile == FLOOR
    goal = beside(there) & floor
    for over in (np.zeros_like(floor), tile == COUNTER):
        reached, steps = beside(here) & floor, 0
        while not (reached & goal).any():
            # After a counter the way goes on over floor, for somebody has to take the thing.
            grown = reached | (beside(reached) & floor) | (beside(reached & floor) & over)
            if (grown == reached).all():
                break
            reached, steps = grown, steps + 1
        else:
            return steps
    return None


def beside(cells: np.ndarray) -> np.ndarray:
    """The neighbours of cells."""
    padded = np.pad(cells, 1)
    rows, columns = cells.shape
    found = np.zeros_like(cells)
    for down, right in BESIDE:
        found |= padded[1 + down : 1 + down + rows, 1 + right : 1 + right + columns]
    return found

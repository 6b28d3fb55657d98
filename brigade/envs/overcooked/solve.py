"""How fast a kitchen can be worked: the length of one cook-and-deliver cycle, and the soups in it.

The cycle is that of one cook who does everything one thing after the other on shortest paths, so
a team that works side by side can beat it.
"""

from __future__ import annotations

from brigade.envs.overcooked.grid import Grid, Survey, survey
from brigade.envs.overcooked.things import COOK_TIME, INGREDIENTS_PER_SOUP

# Every ingredient is picked up and put down; plate, soup and delivery take one action each.
INTERACTIONS = 2 * INGREDIENTS_PER_SOUP + 3
STEPS_PER_INTERACTION = 2  # turn to the station, then interact
# Steps between the legs of a cycle, which start and end beside stations: 1 after the plate leg
# and 3 after the last one.
STEPS_BETWEEN_LEGS = 1 + 3


def cycle_time(grid: Grid, num_agents: int = 2, cook_time: int = COOK_TIME) -> int | None:
    """Steps from one served soup to the next, or None when no soup can be served at all."""
    kitchen = survey(grid, num_agents)
    pots = _servable_pots(kitchen)
    if not pots:
        return None
    ingredient, plate, serving = (
        _distance(kitchen, pots, kitchen.families[family])
        for family in ("ingredient", "plate", "serving")
    )
    walking = INGREDIENTS_PER_SOUP * ingredient + plate + serving + STEPS_BETWEEN_LEGS
    return walking + cook_time + INTERACTIONS * STEPS_PER_INTERACTION


def max_soups(
    grid: Grid, horizon: int = 400, num_agents: int = 2, cook_time: int = COOK_TIME
) -> int:
    """Whole cycles in an episode of `horizon` steps; 0 when no soup can be served at all."""
    cycle = cycle_time(grid, num_agents, cook_time)
    return 0 if cycle is None else horizon // cycle


def _servable_pots(kitchen: Survey) -> int:
    """Pots that ingredients get to, and whose soup can be plated and served.

    Filling and emptying may happen from two sides that share nothing but the pot itself.
    """
    filled = emptied = 0
    for cells in kitchen.components:
        missing = kitchen.missing(cells)
        pots = kitchen.around(cells) & kitchen.families["pot"]
        if "ingredient" not in missing:
            filled |= pots
        if "plate" not in missing and "serving" not in missing:
            emptied |= pots
    return filled & emptied


def _distance(kitchen: Survey, pots: int, stations: int) -> int:
    """Steps between standing beside one of the pots and standing beside one of the stations."""
    beside_pots = kitchen.around(pots) & kitchen.reachable
    beside_stations = kitchen.around(stations) & kitchen.reachable
    walked = _path_length(kitchen, beside_pots, beside_stations, over=0)
    if walked is not None:
        return walked
    handed = _path_length(kitchen, beside_pots, beside_stations, over=kitchen.handoffs)
    assert handed is not None  # a servable pot is linked to the stations
    return handed


def _path_length(kitchen: Survey, cells: int, goal: int, over: int) -> int | None:
    """Length of the shortest path over floor and over the counters `over`, None without one.

    From a counter the path can only go on over floor: somebody has to pick the thing up.
    """
    steps = 0
    while not cells & goal:
        to_floor = kitchen.around(cells) & kitchen.reachable
        to_counter = kitchen.around(cells & kitchen.reachable) & over
        grown = cells | to_floor | to_counter
        if grown == cells:
            return None
        cells = grown
        steps += 1
    return steps

"""How fast a kitchen can be worked: the length of one cook-and-deliver cycle, and the soups in it.

The cycle is that of one cook who does everything one thing after the other on shortest paths, so
a team that works side by side can beat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from brigade.envs.overcooked.grid import Grid, Survey, survey
from brigade.envs.overcooked.things import CHEF, COOK_TIME, POT_SIZE, WAITER

# Every ingredient is picked up and put down; plate, soup and delivery take one action each.
INTERACTIONS_PER_INGREDIENT, OTHER_INTERACTIONS = 2, 3
STEPS_PER_INTERACTION = 2  # turn to the station, then interact
# Steps between the legs of a cycle, which start and end beside stations: 1 after the plate leg
# and 3 after the last one.
STEPS_BETWEEN_LEGS = 1 + 3


def cycle_time(
    grid: Grid, num_agents: int = 2, cook_time: int = COOK_TIME, pot_size: int = POT_SIZE
) -> int | None:
    """Steps from one served soup to the next, or None when no soup can be served at all."""
    kitchen = survey(grid, num_agents)
    pots = _servable_pots(kitchen, kitchen, kitchen)
    if not pots:
        return None
    ingredient, plate, serving = (
        _distance(kitchen, pots, kitchen.families[family])
        for family in ("ingredient", "plate", "serving")
    )
    walking = pot_size * ingredient + plate + serving + STEPS_BETWEEN_LEGS
    interactions = INTERACTIONS_PER_INGREDIENT * pot_size + OTHER_INTERACTIONS
    return walking + cook_time + interactions * STEPS_PER_INTERACTION


def max_soups(
    grid: Grid, horizon: int = 400, num_agents: int = 2, cook_time: int = COOK_TIME
) -> int:
    """Whole cycles in an episode of `horizon` steps; 0 when no soup can be served at all."""
    cycle = cycle_time(grid, num_agents, cook_time)
    return 0 if cycle is None else horizon // cycle


def needs_handoff(grid: Grid, num_agents: int = 2) -> bool:
    """Whether soup can be served, but only if things are passed over counters."""
    kitchen = survey(grid, num_agents)
    apart = replace(kitchen, counters=0)  # nothing can be put down between two rooms
    return bool(
        _servable_pots(kitchen, kitchen, kitchen) and not _servable_pots(apart, apart, apart)
    )


def can_serve(grid: Grid, roles: Sequence[int]) -> bool:
    """Whether soup can be served by chefs, who take no plates, and waiters, who take no food."""
    kitchen = survey(grid, len(roles))
    return bool(
        _servable_pots(kitchen, _without(kitchen, roles, WAITER), _without(kitchen, roles, CHEF))
    )


def servable_roles(grid: Grid, num_agents: int) -> list[tuple[int, ...]]:
    """Every way to make at least one seat a chef and one a waiter with which soup can be served."""
    splits = product((CHEF, WAITER), repeat=num_agents)
    return [roles for roles in splits if len(set(roles)) == 2 and can_serve(grid, roles)]


def _without(kitchen: Survey, roles: Sequence[int], left_out: int) -> Survey:
    """The kitchen for those seats only who do not have a role."""
    seats = zip(kitchen.regions, roles, strict=True)
    return replace(kitchen, regions=tuple(region for region, role in seats if role != left_out))


def _servable_pots(kitchen: Survey, of_food: Survey, of_plates: Survey) -> int:
    """Pots that ingredients get to, and whose soup can be plated and served.

    `of_food` and `of_plates` are the kitchen for those who may carry them. Filling and emptying
    may happen from two sides that share nothing but the pot itself.
    """
    filled = emptied = 0
    for cells in of_food.components:
        if kitchen.touches(cells, "ingredient"):
            filled |= kitchen.around(cells) & kitchen.families["pot"]
    for cells in of_plates.components:
        way_of_soup = next(linked for linked in kitchen.components if linked & cells)
        if kitchen.touches(cells, "plate") and kitchen.touches(way_of_soup, "serving"):
            emptied |= kitchen.around(cells) & kitchen.families["pot"]
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

"""How fast soups can be served in a kitchen: the length of one cook-and-deliver cycle.

It is the cycle of one cook that does everything in sequence on shortest paths; a team that works in
parallel can be faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from brigade.envs.overcooked.grid import Grid, Survey, survey
from brigade.envs.overcooked.things import COOK_TIME, POT_SIZE, Role

# Every ingredient is picked up and put down; plate, soup and delivery take one interaction each.
INTERACTIONS_PER_INGREDIENT, OTHER_INTERACTIONS = 2, 3
STEPS_PER_INTERACTION = 2  # turn to the station, then interact
# Steps between the legs of a cycle, which start and end next to stations: 1 after the plate leg
# and 3 after the last one.
STEPS_BETWEEN_LEGS = 1 + 3


def cycle_time(
    grid: Grid, num_agents: int = 2, cook_time: int = COOK_TIME, pot_size: int = POT_SIZE
) -> int | None:
    """Steps from one served soup to the next, or None if no soup can be served."""
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


def needs_handoff(grid: Grid, num_agents: int = 2) -> bool:
    """Whether soup can be served, but only by passing items over counters."""
    kitchen = survey(grid, num_agents)
    apart = replace(kitchen, counters=0)  # no hand-offs between rooms
    return bool(
        _servable_pots(kitchen, kitchen, kitchen) and not _servable_pots(apart, apart, apart)
    )


def can_serve(grid: Grid, roles: Sequence[int]) -> bool:
    """Whether soup can be served with these roles: chefs take no plates, waiters no ingredients."""
    kitchen = survey(grid, len(roles))
    of_food, of_plates = (_without(kitchen, roles, role) for role in (Role.WAITER, Role.CHEF))
    return bool(_servable_pots(kitchen, of_food, of_plates))


def servable_roles(grid: Grid, num_agents: int) -> list[tuple[int, ...]]:
    """All assignments with at least one chef and one waiter with which soup can be served."""
    splits = product((Role.CHEF, Role.WAITER), repeat=num_agents)
    return [roles for roles in splits if len(set(roles)) == 2 and can_serve(grid, roles)]


def _without(kitchen: Survey, roles: Sequence[int], left_out: int) -> Survey:
    """The kitchen without the seats of one role."""
    seats = zip(kitchen.regions, roles, strict=True)
    return replace(kitchen, regions=tuple(region for region, role in seats if role != left_out))


def _servable_pots(kitchen: Survey, of_food: Survey, of_plates: Survey) -> int:
    """Pots that can be filled, and whose soup can be plated and served.

    `of_food` and `of_plates` are the kitchen for the seats that may carry them. A pot may be filled
    and emptied from two rooms that share nothing but the pot.
    """
    filled = emptied = 0
    for cells in of_food.components:
        if kitchen.touches(cells, "ingredient"):
            filled |= kitchen.around(cells) & kitchen.families["pot"]
    for cells in of_plates.components:
        soup_region = next(linked for linked in kitchen.components if linked & cells)
        if kitchen.touches(cells, "plate") and kitchen.touches(soup_region, "serving"):
            emptied |= kitchen.around(cells) & kitchen.families["pot"]
    return filled & emptied


def _distance(kitchen: Survey, pots: int, stations: int) -> int:
    """Steps from a tile next to one of the pots to a tile next to one of the stations."""
    beside_pots = kitchen.around(pots) & kitchen.reachable
    beside_stations = kitchen.around(stations) & kitchen.reachable
    walked = _path_length(kitchen, beside_pots, beside_stations, over=0)
    if walked is not None:
        return walked
    handed = _path_length(kitchen, beside_pots, beside_stations, over=kitchen.handoffs)
    assert handed is not None  # a servable pot is linked to these stations
    return handed


def _path_length(kitchen: Survey, cells: int, goal: int, over: int) -> int | None:
    """Length of the shortest path over floor and the counters `over`; None if there is none.

    After a counter the path must continue over floor, because a cook has to pick the item up.
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

"""The length of a cook-and-deliver cycle, worked by hand.

In every comment: steps per cycle = 3 * onion + plate + 1 + serving + 3 + 20 to cook + 18 to
interact, where onion, plate and serving are the steps between the tiles beside a pot and the
tiles beside the other station.
"""

from __future__ import annotations

import pytest

from brigade.envs.overcooked.grid import GridError, validate
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.envs.overcooked.solve import (
    can_serve,
    cycle_time,
    needs_handoff,
    servable_roles,
)
from brigade.envs.overcooked.things import Role

# Three separate rooms: onions, then an empty one, then pot, plates and serving.
CHAIN = ("XOXXXXX", "X.X.XDX", "X1X2X.P", "XXXXX3S", "XXXXXXX")


@pytest.mark.parametrize(
    ("name", "cycle"),
    [
        ("cramped_room", 49),  # 3*1 + 2 + 1 + 2 + 3 + 38
        ("asymmetric_advantages", 42),  # on the right, one tile touches both: all 0, 4 + 38
        ("coordination_ring", 60),  # 3*4 + 3 + 1 + 3 + 3 + 38: half around the middle counter
        ("counter_circuit", 66),  # 3*6 + 3 + 1 + 3 + 3 + 38: onions go half around the island
        ("bothway_coordination", 47),  # 3*1 + 1 + 1 + 1 + 3 + 38: each leg has a pot nearby
        ("forced_coordination", 54),  # 3*2 + 4 + 1 + 2 + 3 + 38: see the hand-off tests
        ("asymmetric_coordination", 42),  # all 0 again
        # Beside the pots is row 4, columns 11 and 12. Onions are taken at row 2, column 6: 3 left,
        # 2 down, 8 right = 13. Plates at row 2, column 8: 3 right, 2 down = 5. The soup goes
        # along row 4 to column 2: 9.
        ("blocked_corridor", 3 * 13 + 5 + 1 + 9 + 3 + 38),
    ],
)
def test_the_published_layouts_have_the_cycles_worked_by_hand(name: str, cycle: int) -> None:
    assert cycle_time(LAYOUTS[name]) == cycle


def test_a_hand_off_counts_as_one_tile_of_the_path() -> None:
    # The wall is column 3. Beside the onions: column 2, rows 2 and 3; beside the pots: column 4,
    # row 2. Onion: over the counter at row 2 to the pot side is 2 steps. Plate: from row 4 up to
    # row 2 and over, 2 + 2 = 4. Serving: from row 2 down to row 4 in column 4, 2 steps.
    grid = LAYOUTS["forced_coordination"]
    assert cycle_time(grid) == 3 * 2 + 4 + 1 + 2 + 3 + 20 + 18 == 54


def test_two_hand_offs_in_a_row_both_count() -> None:
    validate(CHAIN, 3)
    # Onion: row 2, column 2, down 1, then counter, middle room, counter, row 3 of column 6: 1 + 4.
    # Plates, pot and serving are in the right-hand room: the plates touch row 3, column 6 and so
    # does the pot, 0 steps; serving touches row 4, column 6, 1 step.
    assert cycle_time(CHAIN, num_agents=3) == 3 * 5 + 0 + 1 + 1 + 3 + 20 + 18 == 58


def test_a_thing_is_not_passed_from_counter_to_counter() -> None:
    # Both counters of row 3 touch both rooms. Onion, from row 3, column 2 to row 3, column 5:
    # the two counters would make it 3 steps, but between them nobody can stand. Over one counter
    # and through a room it takes 5, such as down, right, right, right, up.
    grid = ("XXXXXX", "X...XX", "O1XX2P", "XX...X", "XXXSDX")
    validate(grid, 2)
    # Plate: from row 4, column 5 up, 1. Serving: from there to row 4, column 4, 2.
    assert cycle_time(grid) == 3 * 5 + 1 + 1 + 2 + 3 + 20 + 18


def test_a_floor_path_is_taken_even_if_a_hand_off_would_be_shorter() -> None:
    # Seat 1 walks around the walls on the right; seat 2 could pass things through its room.
    grid = ("XXOXXXXX", "X1.....X", "XXXXXX.X", "XX2.XX.X", "XXXXXX.X", "X......X", "XXPXDXSX")
    validate(grid, 2)
    # Onion: 4 right, 4 down, 4 left = 12, against 4 through the room. Plate 2, serving 4.
    assert cycle_time(grid) == 3 * 12 + 2 + 1 + 4 + 3 + 20 + 18


def test_cook_time_adds_to_the_cycle_step_by_step() -> None:
    grid = LAYOUTS["cramped_room"]
    assert cycle_time(grid, cook_time=5) == 49 - 15


def test_tomatoes_are_ingredients() -> None:
    grid = tuple(row.replace("O", "T") for row in LAYOUTS["cramped_room"])
    assert cycle_time(grid) == 49


def test_a_kitchen_that_needs_two_agents_gives_one_agent_no_soup() -> None:
    grid = LAYOUTS["forced_coordination"]
    assert cycle_time(grid, num_agents=1) is None


def test_a_wall_that_is_too_thick_for_hand_offs_leaves_no_soup() -> None:
    assert cycle_time(("XXOXXXPXX", "X1.XX2..X", "XXXXXDSXX")) is None


def test_plates_for_the_one_pot_and_onions_for_the_other_make_no_soup() -> None:
    # Left: onions and a pot. Right, behind a wall two tiles thick: a pot, plates, serving.
    grid = ("XOPXXXPXX", "X1.XX2..X", "XXXXXDSXX")
    assert cycle_time(grid) is None


def test_a_pot_in_the_wall_can_be_filled_from_one_side_and_emptied_from_the_other() -> None:
    # No counter touches both rooms, only the pot does.
    grid = ("XXXXX", "O1P2S", "X.S.D", "XXXXX")
    # Onion 0: the tile beside the pot touches the pile. Serving 0 likewise. Plate 1.
    assert cycle_time(grid) == 0 + 1 + 1 + 0 + 3 + 20 + 18


def test_stations_beside_floor_where_nobody_walks_do_not_shorten_the_way() -> None:
    # The chamber on the right has onions next to a pot, but no agent.
    grid = ("XXPXXXPX", "O..2XX.O", "X1..XXXX", "XDXSXXXX")
    assert cycle_time(grid) == 49  # as cramped_room


def test_an_agent_without_a_start_is_an_error() -> None:
    with pytest.raises(GridError, match="seat 3"):
        cycle_time(LAYOUTS["cramped_room"], num_agents=3)


@pytest.mark.parametrize(
    ("size", "cycle"), [(1, 49 - 2 * 5), (2, 49 - 5), (3, 49), (5, 49 + 2 * 5)]
)
def test_every_ingredient_costs_its_way_and_two_interactions(size: int, cycle: int) -> None:
    # In cramped_room the onions are 1 step from the pot: 1 + 2 * 2 steps per ingredient.
    assert cycle_time(LAYOUTS["cramped_room"], pot_size=size) == cycle


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("cramped_room", False),
        ("asymmetric_advantages", False),  # two rooms, but each has everything
        ("counter_circuit", False),
        ("forced_coordination", True),
        ("bothway_coordination", True),  # plates on the left only, onions and serving on the right
    ],
)
def test_which_published_layouts_need_a_hand_off(name: str, needed: bool) -> None:
    assert needs_handoff(LAYOUTS[name]) is needed


def test_a_pot_between_two_rooms_needs_no_hand_off() -> None:
    # Seat 1 fills it, seat 2 empties it: nothing is ever passed over a counter.
    assert not needs_handoff(("XXXXX", "O1P2S", "XXXDX", "XXXXX"))


def test_a_kitchen_without_any_soup_needs_no_hand_off() -> None:
    assert not needs_handoff(("XXOXXXPXX", "X1.XX2..X", "XXXXXDSXX"))


def test_a_hand_off_over_two_rooms_is_one() -> None:
    assert needs_handoff(CHAIN, 3)


def test_who_may_carry_what_decides_whether_roles_can_serve() -> None:
    cramped, between = LAYOUTS["cramped_room"], ("XXXXX", "O1P2S", "XXXDX", "XXXXX")
    assert can_serve(cramped, (Role.CHEF, Role.WAITER))
    assert can_serve(cramped, (Role.WAITER, Role.CHEF))
    assert not can_serve(cramped, (Role.CHEF, Role.CHEF))  # nobody takes plates
    assert not can_serve(cramped, (Role.WAITER, Role.WAITER))  # nobody takes onions
    assert can_serve(between, (Role.CHEF, Role.WAITER))
    assert not can_serve(between, (Role.WAITER, Role.CHEF))
    assert can_serve(LAYOUTS["forced_coordination"], (Role.ANY, Role.ANY))
    assert servable_roles(LAYOUTS["forced_coordination"], 2) == []


def test_a_soup_may_be_handed_to_a_chef_who_serves_it() -> None:
    # The pot is between the rooms; plates are on the right, serving is on the left only.
    grid = ("XXXXX", "O1P2D", "S.X.X", "XXXXX")
    assert servable_roles(grid, 2) == [(Role.CHEF, Role.WAITER)]
    assert needs_handoff(grid)


def test_an_onion_cannot_be_handed_to_a_waiter() -> None:
    # Onions on the left, everything else on the right: seat 2 would have to take them as well.
    grid = ("XXXXX", "O1X2P", "X.X.S", "XXXDX")
    assert can_serve(grid, (Role.ANY, Role.ANY))
    assert servable_roles(grid, 2) == []
    # A third cook on the right can be the waiter there.
    assert servable_roles(("XXXXX", "O1X2P", "X.X3S", "XXXDX"), 3) == [
        (Role.CHEF, Role.CHEF, Role.WAITER),
        (Role.CHEF, Role.WAITER, Role.CHEF),
    ]

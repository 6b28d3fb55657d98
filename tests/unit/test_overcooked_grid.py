"""Kitchens as text: parsing, files, starts and the ten rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brigade.envs.overcooked.grid import (
    Grid,
    GridError,
    check_shape,
    parse_grid,
    read_grid,
    starts,
    survey,
    validate,
    write_grid,
)
from brigade.envs.overcooked.layouts import LAYOUTS

CRAMPED = ("XXPXX", "O..2O", "X1..X", "XDXSX")
FORCED = ("XXXPX", "O.X1P", "O2X.X", "D.X.X", "XXXSX")

# For each rule a kitchen for two that breaks it and none before it, and the tile to blame.
BROKEN: dict[str, tuple[Grid, tuple[int, int] | None]] = {
    "R1": (("XXPXX", "O..2O", "X1.X", "XDXSX"), None),
    "R2": (("XXPXX", "O..2O", "X1..X", "XXXSX"), None),
    "R3": (("XXP.X", "O..2O", "X1..X", "XDXSX"), (0, 3)),
    # The second pot stands in a corner.
    "R4": (("XXPXP", "O..2O", "X1..X", "XDXSX"), (0, 4)),
    # The onions are in a chamber where nobody starts.
    "R5": (("XXPXXOX", "X12.X.X", "XXDSXXX"), (0, 5)),
    # Onions on the left, the pot on the right of a wall two tiles thick.
    "R6": (("XXOXXXPXX", "X1.XX2..X", "XXXXXDSXX"), (0, 6)),
    # Soup on the left, the serving tile on the right of a wall two tiles thick.
    "R7": (("XXOPXXXXX", "X1..XX2.X", "XXXXXXDSX"), (2, 7)),
    # Seat 2 is locked in with nothing.
    "R8": (("XXOPXXXXX", "X1..XX2.X", "XXDSXXXXX"), (1, 6)),
    # The plates are in a chamber where nobody starts.
    "R9": (("XXOPXXXDX", "X12.XXX.X", "XXXSXXXXX"), (0, 7)),
    # Seat 2 has onions and nowhere to take them.
    "R10": (("XXOPXXOXX", "X1..XX2.X", "XXDSXXXXX"), (1, 6)),
}


def failed_rule(grid: Grid, num_agents: int = 2) -> GridError:
    with pytest.raises(GridError) as caught:
        validate(grid, num_agents)
    return caught.value


@pytest.mark.parametrize("rule", BROKEN)
def test_validation_reports_the_first_broken_rule_in_one_line(rule: str) -> None:
    grid, cell = BROKEN[rule]
    error = failed_rule(grid)
    assert (error.rule, error.cell) == (rule, cell)
    assert str(error).startswith(f"{rule} ")
    assert "\n" not in str(error)
    assert ";" in str(error)  # what is wrong; what would be right


@pytest.mark.parametrize("rule", [rule for rule, (_, cell) in BROKEN.items() if cell])
def test_a_message_counts_rows_and_columns_from_one(rule: str) -> None:
    grid, cell = BROKEN[rule]
    assert cell is not None
    assert f": row {cell[0] + 1}, column {cell[1] + 1} " in str(failed_rule(grid))


def test_the_border_message_says_what_would_be_right() -> None:
    assert str(failed_rule(BROKEN["R3"][0])) == (
        "R3 border: row 1, column 4 is floor; "
        "every tile of the outer rim must be a counter or a station"
    )


def test_the_length_message_names_the_row() -> None:
    assert "row 3 has 4 tiles; every row must have 5" in str(failed_rule(BROKEN["R1"][0]))


@pytest.mark.parametrize("missing", ["P", "D", "S", "1", "2"])
def test_every_needed_part_is_asked_for(missing: str) -> None:
    grid = tuple(row.replace(missing, "." if missing in "12" else "X") for row in CRAMPED)
    error = failed_rule(grid)
    assert error.rule == "R2"
    assert f"no tile {missing} " in str(error)


def test_a_kitchen_without_ingredients_lacks_a_part_and_tomatoes_are_ingredients() -> None:
    assert failed_rule(tuple(row.replace("O", "X") for row in CRAMPED)).rule == "R2"
    validate(tuple(row.replace("O", "T") for row in CRAMPED), 2)


@pytest.mark.parametrize("row", range(4))
def test_no_tile_of_the_rim_may_be_walked_on(row: int) -> None:
    for column in (0, 4):
        rows = [list(line) for line in CRAMPED]
        rows[row][column] = "."
        error = failed_rule(tuple("".join(line) for line in rows))
        assert (error.rule, error.cell) == ("R3", (row, column))


def test_a_start_without_floor_beside_it_breaks_the_access_rule() -> None:
    error = failed_rule(("XXPXXX", "O.2X1X", "XDSXXX"))
    assert (error.rule, error.cell) == ("R4", (1, 4))


def test_floor_on_the_rim_does_not_wrap_around_to_the_next_row() -> None:
    kitchen = survey(("1..", "XX.", "..X"), 1)
    assert kitchen.reachable.bit_count() == 4


def walk(grid: Grid, start: tuple[int, int]) -> set[tuple[int, int]]:
    """The floor in reach of a start, tile by tile."""
    seen: set[tuple[int, int]] = set()
    waiting = [start]
    while waiting:
        row, column = waiting.pop()
        on_grid = 0 <= row < len(grid) and 0 <= column < len(grid[0])
        if on_grid and (row, column) not in seen and grid[row][column] in ".1234":
            seen.add((row, column))
            waiting += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
    return seen


@settings(max_examples=60, deadline=None)
@given(tiles=st.lists(st.sampled_from("..X"), min_size=35, max_size=35), start=st.integers(0, 34))
def test_a_region_is_what_walking_tile_by_tile_finds(tiles: list[str], start: int) -> None:
    tiles[start] = "1"
    grid = tuple("".join(tiles[row * 7 : row * 7 + 7]) for row in range(5))
    kitchen = survey(grid, 1)
    found = {
        (row, column)
        for row in range(5)
        for column in range(7)
        if kitchen.reachable >> row * kitchen.stride + column & 1
    }
    assert found == walk(grid, divmod(start, 7))


def test_the_kitchen_that_needs_hand_offs_is_valid() -> None:
    validate(FORCED, 2)


def test_the_kitchen_that_needs_hand_offs_cannot_be_worked_alone() -> None:
    assert failed_rule(FORCED, num_agents=1).rule == "R5"


def test_a_wall_two_tiles_thick_is_no_hand_off() -> None:
    thick = tuple(f"{row[:3]}X{row[3:]}" for row in FORCED)
    assert failed_rule(thick).rule == "R6"


def test_hand_offs_link_regions_over_a_region_between_them() -> None:
    chain = ("XOXXXPX", "X.X.X.X", "X1X2X3X", "XDXXXSX")
    validate(chain, 3)
    assert len(set(survey(chain, 3).components)) == 1


def test_an_agent_in_the_region_of_a_useful_agent_is_useful() -> None:
    validate(("XXXPX", "O.X1P", "O2X3X", "D4X.X", "XXXSX"), 4)


def test_two_linked_pairs_that_do_not_share_the_plates_break_the_hand_off_rule() -> None:
    # Seats 1 and 2 have onions, pot and serving; seats 3 and 4, out of their reach, the plates.
    pairs = ("XOXPXXXXXX", "X.X.XX.X.X", "X1X2XX3X4X", "XXXSXXDXXX")
    error = failed_rule(pairs, num_agents=4)
    assert (error.rule, error.cell) == ("R10", (2, 1))
    assert "neither reaches plate tiles nor is linked to them" in str(error)


@pytest.mark.parametrize("num_agents", [1, 2, 3, 4])
def test_one_to_four_agents_can_share_a_kitchen(num_agents: int) -> None:
    validate(("XXPXX", "O.32O", "X1.4X", "XDXSX"), num_agents)


@pytest.mark.parametrize("num_agents", [0, 5, -1])
def test_other_numbers_of_agents_are_refused(num_agents: int) -> None:
    with pytest.raises(ValueError, match="1 to 4 agents"):
        validate(CRAMPED, num_agents)


# --- Starts ---


def test_starts_are_listed_in_seat_order() -> None:
    assert starts(CRAMPED, 2) == [(2, 1), (1, 3)]


def test_the_digits_of_absent_seats_are_floor() -> None:
    assert starts(CRAMPED, 1) == [(2, 1)]
    validate(CRAMPED, 1)
    assert survey(CRAMPED, 1).regions == survey(CRAMPED, 2).regions[:1]


def test_a_missing_start_is_named() -> None:
    with pytest.raises(GridError, match="seat 3 has no start") as caught:
        starts(CRAMPED, 3)
    assert caught.value.rule == "starts"


def test_a_second_start_is_named_with_its_tile() -> None:
    twice = ("XXPXX", "O..2O", "X12.X", "XDXSX")
    for check in (starts, check_shape, validate):
        with pytest.raises(
            GridError, match="row 3, column 3 is a second start of seat 2"
        ) as caught:
            check(twice, 2)
        assert (caught.value.rule, caught.value.cell) == ("starts", (2, 2))


@pytest.mark.parametrize("rule", ["R1", "R2", "R3"])
def test_the_shape_check_asks_for_the_first_three_rules(rule: str) -> None:
    with pytest.raises(GridError) as caught:
        check_shape(BROKEN[rule][0], 2)
    assert caught.value.rule == rule


@pytest.mark.parametrize("rule", ["R4", "R5", "R6", "R7", "R8", "R9", "R10"])
def test_the_shape_check_leaves_the_other_rules_out(rule: str) -> None:
    check_shape(BROKEN[rule][0], 2)


# --- Text and files ---


def test_spaces_and_dots_are_floor() -> None:
    assert parse_grid(["XXPXX", "O .2O", "X1. X", "XDXSX"]) == CRAMPED


def test_blank_and_comment_lines_around_the_kitchen_are_dropped() -> None:
    text = f"\n# a kitchen\n   \n{chr(10).join(CRAMPED)}\r\n\n# the end\n  "
    assert parse_grid(text) == CRAMPED


def test_a_row_of_spaces_inside_is_a_row_of_floor() -> None:
    assert parse_grid("XXX\n   \nXXX") == ("XXX", "...", "XXX")


def test_line_ends_of_listed_rows_are_dropped_and_spaces_kept() -> None:
    assert parse_grid(["XX\n", "X \r\n"]) == ("XX", "X.")


@pytest.mark.parametrize("tile", ["Z", "5", "0", "x", "#", "\t"])
def test_an_unknown_symbol_is_named_with_its_tile(tile: str) -> None:
    with pytest.raises(GridError, match="symbols: row 2, column 3 is ") as caught:
        parse_grid(["XXXX", f"X.{tile}X", "XXXX"])
    assert (caught.value.rule, caught.value.cell) == ("symbols", (1, 2))
    assert repr(tile) in str(caught.value)


@pytest.mark.parametrize("rows", ["", "\n\n", "# only a comment", [], [""]])
def test_an_empty_kitchen_is_refused(rows: str | list[str]) -> None:
    with pytest.raises(GridError, match="no tiles") as caught:
        parse_grid(rows)
    assert caught.value.rule == "empty"


@pytest.mark.parametrize("text", ["XXX\nX.\nXXX", "XXX\n\nXXX"])
def test_rows_of_different_length_are_refused(text: str) -> None:
    with pytest.raises(GridError, match="row 2 has") as caught:
        parse_grid(text)
    assert caught.value.rule == "R1"


def test_validation_refuses_unknown_symbols_too() -> None:
    assert failed_rule(("XXZXX", *CRAMPED[1:])).rule == "symbols"


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_kitchen_survives_the_way_through_text_and_file(name: str, tmp_path: Path) -> None:
    grid = LAYOUTS[name]
    assert parse_grid("\n".join(grid)) == grid
    write_grid(tmp_path / "kitchen.txt", grid)
    assert read_grid(tmp_path / "kitchen.txt") == grid


def test_reading_takes_the_number_of_seats_from_the_digits(tmp_path: Path) -> None:
    path = tmp_path / "three.txt"
    path.write_text("XXPXX\nO..2O\nX1.3X\nXDXSX\n")
    read_grid(path)
    read_grid(path, num_agents=1)
    with pytest.raises(GridError, match="no tile 4"):
        read_grid(path, num_agents=4)


def test_an_error_in_a_file_names_the_file_and_keeps_rule_and_tile(tmp_path: Path) -> None:
    grid, cell = BROKEN["R3"]
    write_grid(tmp_path / "open.txt", grid)
    with pytest.raises(GridError, match=r"open\.txt: R3 border: row 1, column 4") as caught:
        read_grid(tmp_path / "open.txt")
    assert (caught.value.rule, caught.value.cell) == ("R3", cell)


def test_a_file_without_starts_is_asked_for_one(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("XXPXX\nO...O\nX...X\nXDXSX\n")
    with pytest.raises(GridError, match="no tile 1"):
        read_grid(tmp_path / "empty.txt")


# --- Layouts ---


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_published_layout_is_valid_for_two(name: str) -> None:
    validate(LAYOUTS[name], 2)


def test_the_layouts_come_in_sorted_order() -> None:
    assert len(LAYOUTS) == 11
    assert list(LAYOUTS) == sorted(LAYOUTS)
    assert LAYOUTS["cramped_room"] == CRAMPED
    assert LAYOUTS["forced_coordination"] == FORCED


def test_a_mistyped_layout_name_gets_the_nearest_one() -> None:
    with pytest.raises(KeyError) as caught:
        LAYOUTS["cramped_rom"]
    assert str(caught.value).startswith("unknown layout 'cramped_rom': did you mean 'cramped_room'")


def test_a_name_like_no_other_gets_the_whole_list() -> None:
    with pytest.raises(KeyError, match="known: asymmetric_advantages, "):
        LAYOUTS["zzz"]
    assert "zzz" not in LAYOUTS
    assert LAYOUTS.get("zzz") is None

"""Random kitchens: what every one of them promises, whatever the level, seed and team."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brigade.envs.overcooked import generate as generator
from brigade.envs.overcooked.generate import (
    LEVELS,
    GenerationError,
    KitchenSpec,
    generate,
    generate_sequence,
    level_spec,
)
from brigade.envs.overcooked.grid import Grid, starts, survey, validate
from brigade.envs.overcooked.solve import cycle_time, needs_handoff, servable_roles

levels = st.sampled_from(list(LEVELS))
seeds = st.integers(min_value=0, max_value=2**64)
teams = st.integers(min_value=1, max_value=4)
modest = settings(max_examples=40, deadline=None)


def inside(grid: Grid) -> str:
    return "".join(row[1:-1] for row in grid[1:-1])


@modest
@given(level=levels, seed=seeds, num_agents=teams)
def test_every_kitchen_obeys_all_rules_after_pruning(
    level: str, seed: int, num_agents: int
) -> None:
    validate(generate(level, seed, num_agents), num_agents)


@modest
@given(level=levels, seed=seeds, num_agents=teams)
def test_every_kitchen_allows_a_soup(level: str, seed: int, num_agents: int) -> None:
    cycle = cycle_time(generate(level, seed, num_agents), num_agents)
    assert cycle is not None
    assert cycle <= 400


@modest
@given(level=levels, seed=seeds, num_agents=teams)
def test_every_kitchen_keeps_to_its_spec(level: str, seed: int, num_agents: int) -> None:
    spec = LEVELS[level]
    grid = generate(spec, seed, num_agents)
    assert spec.min_side <= len(grid) <= spec.max_side
    assert spec.min_side <= len(grid[0]) <= spec.max_side
    for station in "SPOD":
        fewest, most = spec.count_range(station)
        assert fewest <= "".join(grid).count(station) <= most
    blocked = sum(tile in "XSPOD" for tile in inside(grid))
    assert blocked >= math.ceil(round(spec.density * len(inside(grid)), 9))


@modest
@given(level=levels, seed=seeds, num_agents=teams)
def test_every_kitchen_has_only_floor_and_stations_in_reach(
    level: str, seed: int, num_agents: int
) -> None:
    kitchen = survey(generate(level, seed, num_agents), num_agents)
    assert kitchen.floor == kitchen.reachable
    assert kitchen.stations & ~kitchen.around(kitchen.reachable) == 0


@modest
@given(level=levels, seed=seeds, num_agents=teams)
def test_the_rim_of_every_kitchen_is_counters(level: str, seed: int, num_agents: int) -> None:
    grid = generate(level, seed, num_agents)
    rim = grid[0] + grid[-1] + "".join(row[0] + row[-1] for row in grid)
    assert set(rim) == {"X"}


@modest
@given(level=levels, seed=seeds)
def test_a_seed_gives_one_kitchen(level: str, seed: int) -> None:
    first = generate(level, seed)
    generate(level, seed + 1)  # nothing is carried over from one call to the next
    assert generate(level, seed) == first


@settings(max_examples=25, deadline=None)
@given(
    sides=st.tuples(st.integers(5, 9), st.integers(0, 3)),
    density=st.floats(0, 0.3),
    seed=seeds,
)
def test_own_specs_work_like_the_levels(sides: tuple[int, int], density: float, seed: int) -> None:
    spec = KitchenSpec(sides[0], sides[0] + sides[1], density, max_stations=1)
    grid = generate(spec, seed)
    validate(grid, 2)
    assert spec.min_side <= min(len(grid), len(grid[0]))
    assert max(len(grid), len(grid[0])) <= spec.max_side


def test_a_seed_keeps_its_kitchen_from_version_to_version() -> None:
    assert generate("1", 0) == (
        "XXXXXXX",
        "X....SX",
        "X.1DO.X",
        "X.....X",
        "X....2X",
        "X...P.X",
        "XXXXXXX",
    )


def test_ints_word_lists_and_seed_sequences_are_seeds() -> None:
    assert generate("1", 7) == generate("1", [7]) == generate("1", np.random.SeedSequence(7))
    assert generate("1", [7, 1]) != generate("1", [7, 2])


def test_height_and_width_are_drawn_separately() -> None:
    shapes = {(len(grid), len(grid[0])) for grid in generate_sequence("1", 40, seed=0)}
    assert shapes == {(6, 6), (6, 7), (7, 6), (7, 7)}


def test_both_station_counts_occur_in_every_family() -> None:
    texts = ["\n".join(grid) for grid in generate_sequence("1", 40, seed=0)]
    for station in "SPOD":
        assert {text.count(station) for text in texts} == {1, 2}


def test_either_seat_may_stand_above_the_other() -> None:
    kitchens = generate_sequence("1", 40, seed=0)
    assert {starts(grid, 2) == sorted(starts(grid, 2)) for grid in kitchens} == {True, False}


def test_dense_levels_contain_kitchens_that_need_hand_offs() -> None:
    surveys = [survey(grid, 2) for grid in generate_sequence("3", 60, seed=0)]
    assert any(kitchen.missing(kitchen.regions[0]) for kitchen in surveys)


def test_kitchens_of_different_levels_are_independent() -> None:
    """The n-th kitchens of two levels are not drawn from the same numbers."""

    def heights(level: str, apart: bool) -> np.ndarray:
        kitchens = generate_sequence(level, 60, seed=0, levels_apart=apart)
        return np.array([len(grid) for grid in kitchens], float)

    def correlation(apart: bool) -> float:
        return float(np.corrcoef(heights("1", apart), heights("2", apart))[0, 1])

    assert abs(correlation(apart=True)) < 0.3
    assert correlation(apart=False) > 0.5  # as it was before


def test_sequences_of_different_seeds_share_no_kitchen() -> None:
    kitchens = [grid for seed in range(20) for grid in generate_sequence("1", 20, seed)]
    assert len(set(kitchens)) == 20 * 20


def test_a_sequence_has_no_duplicates_even_where_few_kitchens_exist() -> None:
    tiny = KitchenSpec(4, 5, 0, max_stations=1)
    streams = [np.random.SeedSequence(3, spawn_key=(index,)) for index in range(200)]
    assert len({generate(tiny, stream, num_agents=1) for stream in streams}) < 200
    assert len(set(generate_sequence(tiny, 200, seed=3, num_agents=1))) == 200


def test_a_longer_sequence_begins_with_the_shorter_one() -> None:
    assert generate_sequence("2", 6, seed=5)[:3] == generate_sequence("2", 3, seed=5)


def test_a_level_can_be_named_by_number_or_given_as_spec() -> None:
    assert level_spec(2) is level_spec("2") is level_spec(LEVELS["2"])
    assert generate_sequence(1, 2, seed=0) == generate_sequence(LEVELS["1"], 2, seed=0)


def test_an_unknown_level_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown level '4': known: 1, 2, 3, extreme"):
        generate_sequence("4", 1, seed=0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed is -1; it must be a number of at least 0"):
        generate_sequence("1", 1, seed=-1)
    with pytest.raises(ValueError, match="seed is -3"):
        generate("1", [2, -3])


def test_a_hopeless_spec_gives_up_with_advice() -> None:
    with pytest.raises(GenerationError, match=r"in 50 attempts .* lower the density") as caught:
        generate(KitchenSpec(6, 7, 0.95, max_attempts=50), 0)
    assert "\n" not in str(caught.value)


def test_too_long_a_sequence_says_how_many_kitchens_were_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only_one = generate("1", 0)
    monkeypatch.setattr(generator, "draw_kitchen", lambda *_: (only_one, 1))
    with pytest.raises(GenerationError, match="only 1 different kitchens"):
        generate_sequence("1", 2, seed=0)


@pytest.mark.parametrize("num_agents", [0, 5])
def test_other_numbers_of_agents_are_refused(num_agents: int) -> None:
    with pytest.raises(ValueError, match="1 to 4 agents"):
        generate("2", 0, num_agents)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"min_side": 3}, "min_side is 3; it must be a number of at least 4"),
        ({"max_side": 5}, "max_side is 5; it must be at least min_side, which is 6"),
        ({"density": 1.0}, "density is 1.0; it must be in"),
        ({"density": -0.1}, "density is -0.1"),
        ({"min_stations": 0}, "min_stations is 0; it must be a number of at least 1"),
        ({"min_stations": 3}, "max_stations is 2; it must be at least min_stations, which is 3"),
        ({"min_pots": 3}, "max_pots is 2; it must be at least min_pots, which is 3"),
        ({"max_attempts": 0}, "max_attempts is 0"),
    ],
)
def test_an_impossible_spec_is_refused_with_what_would_be_right(
    change: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(KitchenSpec(6, 7, 0.15), **change)  # type: ignore[arg-type]


def test_the_levels_have_the_published_figures() -> None:
    figures = {
        name: (s.min_side, s.max_side, s.density, s.count_range("P"), s.count_range("O"))
        for name, s in LEVELS.items()
    }
    assert figures == {
        "1": (6, 7, 0.15, (1, 2), (1, 2)),
        "2": (8, 9, 0.25, (1, 2), (1, 2)),
        "3": (10, 11, 0.35, (1, 2), (1, 2)),
        "extreme": (12, 13, 0.45, (1, 2), (1, 2)),
        "release-1": (7, 7, 0.15, (2, 2), (1, 1)),
        "release-2": (9, 9, 0.25, (3, 3), (1, 1)),
        "release-3": (11, 11, 0.35, (4, 4), (2, 2)),
        "release-extreme": (13, 13, 0.45, (5, 5), (2, 2)),
    }


several = st.integers(min_value=2, max_value=4)


@modest
@given(level=st.sampled_from(["1", "2", "3", "extreme"]), seed=seeds, num_agents=several)
def test_a_required_hand_off_is_needed_and_possible(level: str, seed: int, num_agents: int) -> None:
    spec = replace(LEVELS[level], require_handoff=True)
    grid = generate(spec, seed, num_agents)
    validate(grid, num_agents)
    assert cycle_time(grid, num_agents) is not None
    assert needs_handoff(grid, num_agents)
    assert not any(serves_alone(grid, seat) for seat in range(num_agents))
    for station in "SPOD":
        fewest, most = spec.count_range(station)
        assert fewest <= "".join(grid).count(station) <= most
    blocked = sum(tile in "XSPOD" for tile in inside(grid))
    assert blocked >= math.ceil(round(spec.density * len(inside(grid)), 9))


def serves_alone(grid: Grid, seat: int) -> bool:
    """Whether one cook gets to everything on foot: walked tile by tile."""
    (row, column) = starts(grid, seat + 1)[seat]
    walked, found, ahead = {(row, column)}, set(), [(row, column)]
    while ahead:
        row, column = ahead.pop()
        for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            tile = grid[near[0]][near[1]]
            if tile in ".1234" and near not in walked:
                walked.add(near)
                ahead.append(near)
            found.add(tile)
    return set("OPDS") <= found


@modest
@given(level=st.sampled_from(["1", "2", "3"]), seed=seeds, num_agents=several)
def test_kitchens_for_roles_can_be_served_by_some(level: str, seed: int, num_agents: int) -> None:
    grid = generate(replace(LEVELS[level], require_roles=True), seed, num_agents)
    validate(grid, num_agents)
    assert servable_roles(grid, num_agents)


def test_hand_offs_and_roles_go_together() -> None:
    grid = generate(replace(LEVELS["2"], require_handoff=True, require_roles=True), 0)
    assert needs_handoff(grid)
    assert servable_roles(grid, 2)


@pytest.mark.parametrize("wish", ["require_handoff", "require_roles"])
def test_one_cook_has_nobody_to_work_with(wish: str) -> None:
    with pytest.raises(ValueError, match="num_agents is 1; hand-offs and roles need at least 2"):
        generate(replace(LEVELS["1"], **{wish: True}), 0, num_agents=1)  # type: ignore[arg-type]

"""Random kitchens of a given size and density that satisfy all ten rules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from brigade.core.checks import at_least
from brigade.envs.overcooked.grid import (
    COUNTER,
    FLOOR,
    SEATS,
    Grid,
    GridError,
    Survey,
    survey,
    validate,
)
from brigade.envs.overcooked.solve import needs_handoff, servable_roles
from brigade.registry import unknown_name

Seed = int | np.random.SeedSequence | Sequence[int]


@dataclass(frozen=True)
class KitchenSpec:
    """What to generate: side lengths, share of blocked inner tiles, stations of each family.

    Counts are those of the finished kitchen; it may be denser, since tiles that no cook can reach
    become counters. Pots have the limits of the other families
    unless they have their own.
    """

    min_side: int
    max_side: int
    density: float
    min_stations: int = 1
    max_stations: int = 2
    min_pots: int | None = None
    max_pots: int | None = None
    max_attempts: int = 2000
    require_handoff: bool = False  # no soup without passing items over counters
    require_roles: bool = False  # some assignment of chefs and waiters can serve soup
    tomatoes: bool = False  # tomato piles beside the onion piles
    width: int | None = None  # of all kitchens; None: a side like the height
    # Stations take the places of counters, of the wall or inside, as in published kitchens;
    # otherwise they stand on inner tiles like everything else.
    stations_in_counters: bool = False

    def __post_init__(self) -> None:
        """Reject what no kitchen can satisfy."""
        at_least("min_side", self.min_side, 4)
        _check_range("side", self.min_side, self.max_side)
        if self.width is not None:
            at_least("width", self.width, 4)
        _require(
            not (self.stations_in_counters and self.require_handoff),
            "stations_in_counters and require_handoff cannot be combined",
        )
        _require(0 <= self.density < 1, f"density is {self.density}; it must be in [0, 1)")
        for name, (low, high) in {
            "stations": (self.min_stations, self.max_stations),
            "pots": self.count_range("P"),
        }.items():
            at_least(f"min_{name}", low, 1)
            _check_range(name, low, high)
        at_least("max_attempts", self.max_attempts, 1)

    @property
    def station_symbols(self) -> str:
        """The stations, in the order in which they are placed."""
        return "SPODT" if self.tomatoes else "SPOD"

    def count_range(self, station: str) -> tuple[int, int]:
        """Fewest and most stations of a symbol."""
        low, high = self.min_stations, self.max_stations
        if station == "P":
            low = low if self.min_pots is None else self.min_pots
            high = high if self.max_pots is None else self.max_pots
        return low, high


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _check_range(name: str, low: int, high: int) -> None:
    _require(high >= low, f"max_{name} is {high}; it must be at least min_{name}, which is {low}")


def _release(side: int, density: float, pots: int, stations: int) -> KitchenSpec:
    """A level of the release, with exact counts; it takes up to a few hundred attempts."""
    return KitchenSpec(side, side, density, stations, stations, pots, pots, max_attempts=20_000)


LEVELS: Mapping[str, KitchenSpec] = {
    "1": KitchenSpec(6, 7, 0.15),
    "2": KitchenSpec(8, 9, 0.25),
    "3": KitchenSpec(10, 11, 0.35),
    "extreme": KitchenSpec(12, 13, 0.45),
    "release-1": _release(7, 0.15, pots=2, stations=1),
    "release-2": _release(9, 0.25, pots=3, stations=1),
    "release-3": _release(11, 0.35, pots=4, stations=2),
    "release-extreme": _release(13, 0.45, pots=5, stations=2),
}


class GenerationError(ValueError):
    """No valid kitchen was found within the allowed attempts."""


def level_spec(level: KitchenSpec | str | int) -> KitchenSpec:
    """The spec of a level; a spec is returned as it is."""
    if isinstance(level, KitchenSpec):
        return level
    _require(str(level) in LEVELS, unknown_name("level", str(level), LEVELS))
    return LEVELS[str(level)]


def generate(spec: KitchenSpec | str | int, seed: Seed, num_agents: int = 2) -> Grid:
    """One random kitchen that satisfies all ten rules; the same seed gives the same kitchen."""
    grid, _ = draw_kitchen(level_spec(spec), random_stream(_seed_sequence(seed)), num_agents)
    return grid


def generate_sequence(
    spec_or_level: KitchenSpec | str | int,
    num: int,
    seed: int,
    num_agents: int = 2,
    levels_apart: bool = True,
) -> list[Grid]:
    """Distinct random kitchens; a longer sequence of the same seed starts with the same kitchens.

    Each kitchen has its own random stream, keyed by seed, index and level, so the sequences of
    adjacent seeds and of different levels are independent. Without `levels_apart` the level is left
    out of the key, as in the recorded results.
    """
    spec = level_spec(spec_or_level)
    at_least("seed", seed, 0)
    level: tuple[int, ...] = ()
    if levels_apart:
        level = (spec.min_side, spec.max_side, round(1000 * spec.density))
        level += () if spec.width is None else (spec.width,)
    kitchens: dict[Grid, None] = {}  # a dict keeps the order and has fast lookup
    for index in range(num):
        rng = random_stream(np.random.SeedSequence(seed, spawn_key=(index, *level)))
        kitchens[_draw_new(spec, rng, num_agents, kitchens)] = None
    return list(kitchens)


def _draw_new(spec: KitchenSpec, rng: Random, num_agents: int, known: Mapping[Grid, None]) -> Grid:
    for _ in range(spec.max_attempts):
        grid, _ = draw_kitchen(spec, rng, num_agents)
        if grid not in known:
            return grid
    raise GenerationError(
        f"only {len(known)} different kitchens found for {spec}; ask for fewer, or relax the spec"
    )


def _seed_sequence(seed: Seed) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    words = list(seed) if isinstance(seed, Sequence) else [seed]
    for word in words:
        at_least("seed", word, 0)
    return np.random.SeedSequence(words)


def random_stream(seed: np.random.SeedSequence) -> Random:
    """A fast random number generator, seeded with 128 bits.

    Only its method random() is used, because only that is guaranteed to give the same numbers in
    every Python version.
    """
    words = seed.generate_state(4)
    return Random(sum(int(word) << 32 * place for place, word in enumerate(words)))


def draw_kitchen(spec: KitchenSpec, rng: Random, num_agents: int) -> tuple[Grid, int]:
    """A valid kitchen from a random stream, and the number of attempts it took."""
    _require(
        num_agents > 1 or not (spec.require_handoff or spec.require_roles),
        f"num_agents is {num_agents}; hand-offs and roles need at least 2",
    )
    failures: Counter[str] = Counter()
    for attempt in range(1, spec.max_attempts + 1):
        try:
            return _attempt(spec, rng, num_agents), attempt
        except GridError as error:
            failures[error.rule] += 1
    rule, times = failures.most_common(1)[0]
    raise GenerationError(
        f"no valid kitchen for {num_agents} agents in {spec.max_attempts} attempts ({times} failed"
        f" on {rule}) with {spec}; lower the density, or raise the sides or max_attempts"
    )


def _attempt(spec: KitchenSpec, rng: Random, num_agents: int) -> Grid:
    """Generate one kitchen; GridError if it is not valid."""
    height = _between(rng, spec.min_side, spec.max_side)
    width = spec.width or _between(rng, spec.min_side, spec.max_side)
    if spec.stations_in_counters:
        grid = _stations_in_counters(spec, rng, height, width, num_agents)
    else:
        grid = _walled(_inside(spec, rng, height - 2, width - 2, num_agents), width)
    validate(grid, num_agents)
    pruned = _prune(grid, survey(grid, num_agents))
    _check_counts(spec, pruned)
    _check_teamwork(spec, pruned, num_agents)
    return pruned


def _walled(inside: list[str], width: int) -> Grid:
    wall, text, size = COUNTER * width, "".join(inside), width - 2
    rows = [text[begin : begin + size] for begin in range(0, len(text), size)]
    return (wall, *(f"{COUNTER}{row}{COUNTER}" for row in rows), wall)


def _stations_in_counters(
    spec: KitchenSpec, rng: Random, height: int, width: int, num_agents: int
) -> Grid:
    """Counters and starts on random inner tiles, stations in counters that border on floor."""
    size = (height - 2) * (width - 2)
    target = _target(spec, size)
    if target + num_agents > size:
        raise GridError("there are too few inner tiles", rule="room")
    tiles = [FLOOR] * size
    others = COUNTER * target + SEATS[:num_agents]
    for symbol, position in zip(others, _distinct(rng, size, len(others)), strict=True):
        tiles[position] = symbol
    rows = [list(row) for row in _walled(tiles, width)]
    places = [
        (row, column)
        for row in range(height)
        for column in range(width)
        if rows[row][column] == COUNTER and _borders_on_floor(rows, row, column)
    ]
    stations = "".join(s * _between(rng, *spec.count_range(s)) for s in spec.station_symbols)
    if len(stations) > len(places):
        raise GridError("there are too few counters beside floor", rule="room")
    for symbol, place in zip(stations, _distinct(rng, len(places), len(stations)), strict=True):
        row, column = places[place]
        rows[row][column] = symbol
    return tuple("".join(row) for row in rows)


def _borders_on_floor(rows: list[list[str]], row: int, column: int) -> bool:
    around = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
    return any(
        0 <= y < len(rows) and 0 <= x < len(rows[0]) and rows[y][x] in FLOOR + SEATS
        for y, x in around
    )


def _inside(spec: KitchenSpec, rng: Random, rows: int, columns: int, num_agents: int) -> list[str]:
    """The tiles inside the border: stations, extra counters and starts on random tiles."""
    size, target = rows * columns, _target(spec, rows * columns)
    tiles = [FLOOR] * size
    if spec.require_handoff:
        for position in _dividing_wall(rng, rows, columns):
            tiles[position] = COUNTER
    stations = "".join(s * _between(rng, *spec.count_range(s)) for s in spec.station_symbols)
    needed = max(target, len(stations)) + num_agents
    if needed > size:
        raise GridError("there are too few inner tiles", rule="room")
    order = _distinct(rng, size, size if spec.require_handoff else needed)
    for symbol, position in zip(stations, order, strict=False):
        tiles[position] = symbol
    free = [position for position in order if tiles[position] == FLOOR]
    others = COUNTER * (target - size + tiles.count(FLOOR)) + SEATS[:num_agents]
    if len(others) > len(free):
        raise GridError("the wall leaves too few tiles", rule="room")
    for symbol, position in zip(others, free, strict=False):
        tiles[position] = symbol
    return tiles


def _dividing_wall(rng: Random, rows: int, columns: int) -> range:
    """A straight wall with room on both sides; without it, few random kitchens have rooms."""
    if rng.random() < 0.5:
        row = _between(rng, 1, max(rows - 2, 1))
        return range(row * columns, (row + 1) * columns)
    return range(_between(rng, 1, max(columns - 2, 1)), rows * columns, columns)


def _target(spec: KitchenSpec, size: int) -> int:
    """Number of inner tiles to block; rounded first, since .07 * 100 is more than 7 in floats."""
    return math.ceil(round(spec.density * size, 9))


def _between(rng: Random, low: int, high: int) -> int:
    return low + int(rng.random() * (high - low + 1))


def _distinct(rng: Random, size: int, num: int) -> list[int]:
    """`num` distinct integers below `size` in random order: the start of a shuffle."""
    numbers = list(range(size))
    draw = rng.random
    for place in range(num):
        other = place + int(draw() * (size - place))
        numbers[place], numbers[other] = numbers[other], numbers[place]
    return numbers[:num]


def _prune(grid: Grid, kitchen: Survey) -> Grid:
    """Replace floor and stations that no agent can reach by counters."""
    useless = (kitchen.floor | kitchen.stations) & ~(
        kitchen.reachable | kitchen.around(kitchen.reachable)
    )
    rows = [list(row) for row in grid]
    for row, column in kitchen.tiles(useless):
        rows[row][column] = COUNTER
    return tuple("".join(row) for row in rows)


def _check_counts(spec: KitchenSpec, grid: Grid) -> None:
    """Check that pruning has left as many stations as the spec asks for."""
    text = "".join(grid)
    for station in spec.station_symbols:
        if text.count(station) < spec.count_range(station)[0]:
            raise GridError(f"agents can reach too few {station}", rule="count")


def _check_teamwork(spec: KitchenSpec, grid: Grid, num_agents: int) -> None:
    """Check what the spec requires of the team: hand-offs and roles."""
    if spec.require_handoff and not needs_handoff(grid, num_agents):
        raise GridError("soup can be served without a hand-off", rule="needed hand-off")
    if spec.require_roles and not servable_roles(grid, num_agents):
        raise GridError("no assignment of chefs and waiters can serve a soup", rule="roles")

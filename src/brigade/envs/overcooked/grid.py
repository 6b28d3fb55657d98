"""Kitchens as text: reading, writing, and the ten rules of a playable kitchen.

A kitchen is a tuple of rows of the same length. `X` is a counter (walls are counters too), `P` a
pot, `O` an onion pile, `T` a tomato pile, `D` a plate pile, `S` a serving tile, `.` floor and `1`
to `4` the floor tiles where the seats start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import or_
from pathlib import Path

Grid = tuple[str, ...]
Cell = tuple[int, int]

COUNTER = "X"
FLOOR = "."
SEATS = "1234"
FAMILIES: Mapping[str, str] = {"ingredient": "OT", "plate": "D", "pot": "P", "serving": "S"}
STATIONS = "".join(FAMILIES.values())
TILES = COUNTER + FLOOR + SEATS + STATIONS
_SOLID = COUNTER + STATIONS

_NAMES = {
    COUNTER: "a counter",
    FLOOR: "floor",
    "O": "an onion pile",
    "T": "a tomato pile",
    "D": "a plate pile",
    "P": "a pot",
    "S": "a serving tile",
} | {digit: f"the start of seat {digit}" for digit in SEATS}


class GridError(ValueError):
    """A kitchen breaks the rule `rule`; `cell` is a (row, column) from 0, or None."""

    def __init__(self, message: str, rule: str = "", cell: Cell | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.cell = cell


def _broken(title: str, problem: str, cell: Cell | None = None) -> GridError:
    """The error for a broken rule, named first in `title`; it counts rows and columns from 1."""
    where = f"row {cell[0] + 1}, column {cell[1] + 1} " if cell is not None else ""
    return GridError(f"{title}: {where}{problem}", title.split()[0], cell)


# --- Text -----------------------------------------------------------------------------------


def parse_grid(rows: str | Sequence[str]) -> Grid:
    """Parse text (a space or a `.` is floor) into a rectangular grid of known tiles."""
    lines = _kitchen_lines(rows) if isinstance(rows, str) else [row.rstrip("\r\n") for row in rows]
    grid = tuple(line.replace(" ", FLOOR) for line in lines)
    check_r1(grid)
    return grid


def _kitchen_lines(text: str) -> list[str]:
    """The lines of a text without blank and `#` lines before and after the kitchen."""
    lines = text.splitlines()
    kept = [n for n, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"]
    return lines[kept[0] : kept[-1] + 1] if kept else []


def read_grid(path: str | Path, num_agents: int | None = None) -> Grid:
    """Read and validate a kitchen file; without `num_agents`, every digit in it is a seat."""
    try:
        grid = parse_grid(Path(path).read_text(encoding="utf-8"))
        validate(grid, count_seats(grid) if num_agents is None else num_agents)
    except GridError as error:
        raise GridError(f"{path}: {error}", error.rule, error.cell) from None
    return grid


def write_grid(path: str | Path, grid: Grid) -> None:
    """Write a kitchen file for `read_grid`."""
    Path(path).write_text("\n".join(grid) + "\n", encoding="utf-8")


def count_seats(grid: Grid) -> int:
    """The number of seats that start in the kitchen; at least 1, so that R2 reports none."""
    return max(1, len(set(SEATS) & set("".join(grid))))


def _check_tiles(grid: Grid) -> None:
    """Check that there is at least one tile and all tiles are known symbols."""
    if not any(grid):
        raise _broken("empty", "the kitchen has no tiles; give at least one row of symbols")
    if set("".join(grid)) <= set(TILES):
        return
    row, column = next(
        (row, column)
        for row, line in enumerate(grid)
        for column, tile in enumerate(line)
        if tile not in TILES
    )
    allowed = "X P O T D S, '.' or space for floor, or a start 1 to 4"
    raise _broken("symbols", f"is {grid[row][column]!r}; a tile is one of {allowed}", (row, column))


# --- Starts ---------------------------------------------------------------------------------


def starts(grid: Grid, num_agents: int) -> list[Cell]:
    """The starts of seats 1 to `num_agents`; the digits of further seats are floor."""
    _check_num_agents(num_agents)
    return [_find_start(grid, seat) for seat in SEATS[:num_agents]]


def _find_start(grid: Grid, seat: str) -> Cell:
    found = [
        (row, column)
        for row, line in enumerate(grid)
        if seat in line
        for column, tile in enumerate(line)
        if tile == seat
    ]
    if not found:
        raise _broken("starts", f"seat {seat} has no start; put the digit {seat} on a floor tile")
    if len(found) > 1:
        problem = f"is a second start of seat {seat}; each seat starts on exactly one tile"
        raise _broken("starts", problem, found[1])
    return found[0]


def _check_num_agents(num_agents: int) -> None:
    if not 1 <= num_agents <= len(SEATS):
        raise ValueError(f"num_agents is {num_agents}; a kitchen has 1 to {len(SEATS)} agents")


# --- Reachability ---------------------------------------------------------------------------


def around(cells: int, stride: int) -> int:
    """The 4-neighbours of a bit set of tiles."""
    return cells << 1 | cells >> 1 | cells << stride | cells >> stride


def flood(cells: int, floor: int, stride: int) -> int:
    """All floor that can be reached from `cells`."""
    while (grown := cells | around(cells, stride) & floor) != cells:
        cells = grown
    return cells


@dataclass(frozen=True)
class Survey:
    """A kitchen and what its agents can reach, as bit sets: bit row * stride + column is a tile.

    The stride is one more than the width. The extra bit is never set, so the right neighbour of a
    row's last tile is not the first tile of the next row.
    """

    stride: int
    floor: int
    counters: int
    families: Mapping[str, int]
    starts: tuple[int, ...]
    regions: tuple[int, ...]  # for each seat, the floor it can reach

    @cached_property
    def stations(self) -> int:
        """All stations of all families."""
        return _union(self.families.values())

    @cached_property
    def reachable(self) -> int:
        """Floor that at least one agent can reach."""
        return _union(self.regions)

    @cached_property
    def handoffs(self) -> int:
        """Counters next to the regions of two agents that cannot reach each other."""
        once = twice = 0
        for region in set(self.regions):
            touched = self.around(region) & self.counters
            twice |= once & touched
            once |= touched
        return twice

    @cached_property
    def components(self) -> tuple[int, ...]:
        """For each seat, its region and all regions linked to it by hand-offs, also indirectly."""
        return tuple(self._linked(region) for region in self.regions)

    def _linked(self, cells: int) -> int:
        shared = self.around(cells) & self.handoffs
        grown = cells | _union(r for r in self.regions if self.around(r) & shared)
        return cells if grown == cells else self._linked(grown)

    def around(self, cells: int) -> int:
        """The 4-neighbours of a set of tiles."""
        return around(cells, self.stride)

    def touches(self, cells: int, family: str) -> bool:
        """Whether a station of the family is next to one of the tiles."""
        return bool(self.around(cells) & self.families[family])

    def missing(self, cells: int) -> list[str]:
        """The families without a station next to any of the tiles."""
        near = self.around(cells)
        return [family for family, stations in self.families.items() if not near & stations]

    def first(self, cells: int) -> Cell:
        """Row and column of the first tile of a set, in row-major order."""
        return next(self.tiles(cells))

    def tiles(self, cells: int) -> Iterator[Cell]:
        """Row and column of all tiles of a set, in row-major order."""
        while cells:
            yield divmod((cells & -cells).bit_length() - 1, self.stride)
            cells &= cells - 1


# Several rules and the solver use the same kitchen in turn, so the last few are cached.
@lru_cache(maxsize=32)
def survey(grid: Grid, num_agents: int) -> Survey:
    """Find the stations of a kitchen and the floor that each agent can reach."""
    check_r1(grid)
    stride = len(grid[0]) + 1
    # The lowest bit is the last digit of a binary number, so the text is reversed.
    text = " ".join(grid)[::-1]
    floor = _bits(text, "floor")
    start_bits = [1 << row * stride + column for row, column in starts(grid, num_agents)]
    return Survey(
        stride=stride,
        floor=floor,
        counters=_bits(text, "counter"),
        families={family: _bits(text, family) for family in FAMILIES},
        starts=tuple(start_bits),
        regions=tuple(flood(start, floor, stride) for start in start_bits),
    )


# Translation tables from a kitchen's text to binary digits, 1 for each member.
_BINARY = {
    kind: str.maketrans({tile: "01"[tile in members] for tile in TILES + " "})
    for kind, members in {**FAMILIES, "counter": COUNTER, "floor": FLOOR + SEATS}.items()
}


def _bits(text: str, kind: str) -> int:
    return int(text.translate(_BINARY[kind]), 2)


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


# --- The ten rules --------------------------------------------------------------------------


def check_r1(grid: Grid) -> None:
    """R1: all rows have the same length; before that, all tiles are known."""
    _check_tiles(grid)
    width = len(grid[0])
    for row, line in enumerate(grid, 1):
        if len(line) != width:
            problem = f"row {row} has {len(line)} tiles; every row must have {width}, like row 1"
            raise _broken("R1 rectangle", problem)


def check_r2(grid: Grid, num_agents: int) -> None:
    """R2: there is a counter, a station of every family and a start for every seat."""
    _check_num_agents(num_agents)
    present = set("".join(grid))
    for needed in (COUNTER, *FAMILIES.values(), *SEATS[:num_agents]):
        if present.isdisjoint(needed):
            name = " or ".join(_NAMES[tile] for tile in needed)
            lacking = f"there is no tile {' or '.join(needed)} ({name})"
            seats = " ".join(SEATS[:num_agents])
            wanted = f"a kitchen for {num_agents} needs X, O or T, D, P, S and {seats}"
            raise _broken("R2 parts", f"{lacking}; {wanted}")


def check_r3(grid: Grid) -> None:
    """R3: there is no floor on the border."""
    last_row, last_column = len(grid) - 1, len(grid[0]) - 1
    for row, line in enumerate(grid):
        columns = range(last_column + 1) if row in (0, last_row) else (0, last_column)
        for column in columns:
            if line[column] not in _SOLID:
                wanted = "every tile of the outer rim must be a counter or a station"
                raise _broken("R3 border", f"is {_NAMES[line[column]]}; {wanted}", (row, column))


def check_r4(grid: Grid, kitchen: Survey) -> None:
    """R4: there is floor next to every station and every start."""
    walled_in = (kitchen.stations | _union(kitchen.starts)) & ~kitchen.around(kitchen.floor)
    if walled_in:
        row, column = kitchen.first(walled_in)
        name = _NAMES[grid[row][column]]
        wanted = "it needs floor above, below, left or right of it"
        raise _broken("R4 access", f"is {name} without floor next to it; {wanted}", (row, column))


def check_r5(grid: Grid, kitchen: Survey) -> None:
    """R5: some agent can reach an ingredient pile."""
    if not kitchen.touches(kitchen.reachable, "ingredient"):
        problem = "is a pile that no agent can reach; at least one O or T must be reachable"
        raise _broken("R5 ingredients", problem, kitchen.first(kitchen.families["ingredient"]))


def check_r6(grid: Grid, kitchen: Survey) -> None:
    """R6: some pot can be reached by agents that can also get ingredients."""
    if not _cooking_components(kitchen):
        wanted = "some pot must be reachable for agents that can get or are handed ingredients"
        problem = f"is a pot, and no ingredient can get to any pot; {wanted}"
        raise _broken("R6 pots", problem, kitchen.first(kitchen.families["pot"]))


def check_r7(grid: Grid, kitchen: Survey) -> None:
    """R7: some serving tile can be reached by agents that can use a pot."""
    if not any(kitchen.touches(cells, "serving") for cells in _cooking_components(kitchen)):
        wanted = "some S must be reachable for agents that can use a pot or are handed its soup"
        problem = f"is a serving tile, and no soup can get to any of them; {wanted}"
        raise _broken("R7 serving", problem, kitchen.first(kitchen.families["serving"]))


def _cooking_components(kitchen: Survey) -> list[int]:
    """The linked regions with access to both an ingredient pile and a pot."""
    return [
        cells
        for cells in set(kitchen.components)
        if kitchen.touches(cells, "ingredient") and kitchen.touches(cells, "pot")
    ]


def check_r8(grid: Grid, kitchen: Survey) -> None:
    """R8: every agent can use a station or pass items to an agent in another room."""
    of_use = kitchen.stations | kitchen.handoffs
    for seat, region in enumerate(kitchen.regions):
        if not kitchen.around(region) & of_use:
            problem = (
                f"is the start of seat {seat + 1}, which can do nothing there; it must reach a"
                " station, or a counter that another agent reaches from the other side"
            )
            raise _broken("R8 usefulness", problem, kitchen.first(kitchen.starts[seat]))


def check_r9(grid: Grid, kitchen: Survey) -> None:
    """R9: the agents together can reach a station of every family."""
    for family in kitchen.missing(kitchen.reachable):
        cell = kitchen.first(kitchen.families[family])
        name = _NAMES[grid[cell[0]][cell[1]]]
        problem = f"is {name}, and no agent reaches one; some {family} tile must be reachable"
        raise _broken("R9 coverage", problem, cell)


def check_r10(grid: Grid, kitchen: Survey) -> None:
    """R10: an agent that cannot reach every family is linked by hand-offs to agents that can.

    For two agents this is a counter between their regions. With more agents, a counter shared with
    any other agent is not enough: plates might never get to the pot. So the links must lead to
    every family.
    """
    for seat, linked in enumerate(kitchen.components):
        if lacking := kitchen.missing(linked):
            problem = (
                f"is the start of seat {seat + 1}, which neither reaches {' nor '.join(lacking)}"
                " tiles nor is linked to them; it needs a counter shared with an agent that is"
            )
            raise _broken("R10 hand-off", problem, kitchen.first(kitchen.starts[seat]))


RULES = (check_r4, check_r5, check_r6, check_r7, check_r8, check_r9, check_r10)


def validate(grid: Grid, num_agents: int) -> None:
    """Raise GridError for the first of the ten rules that the kitchen breaks."""
    check_shape(grid, num_agents)
    kitchen = survey(grid, num_agents)
    for rule in RULES:
        rule(grid, kitchen)


def check_shape(grid: Grid, num_agents: int) -> None:
    """Raise GridError unless the kitchen is well-formed (R1 to R3, starts), solvable or not."""
    check_r1(grid)
    check_r2(grid, num_agents)
    check_r3(grid)
    starts(grid, num_agents)

"""Kitchens as text: reading and writing them, and the ten rules that a playable one obeys.

A kitchen is a tuple of equally long rows. `X` is a counter (walls are counters too), `P` a pot,
`O` an onion pile, `T` a tomato pile, `D` a plate pile, `S` a serving tile, `.` floor and `1` to
`4` the floor tiles where the seats start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_TITLES = {
    "R1": "rectangle",
    "R2": "parts",
    "R3": "border",
    "R4": "access",
    "R5": "ingredients",
    "R6": "pots",
    "R7": "serving",
    "R8": "usefulness",
    "R9": "coverage",
    "R10": "hand-off",
}


class GridError(ValueError):
    """A kitchen that breaks a rule: `rule` names it, `cell` is the (row, column) from 0 or None."""

    def __init__(self, message: str, rule: str = "", cell: Cell | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.cell = cell


def _broken(rule: str, problem: str, cell: Cell | None = None) -> GridError:
    """The error for a broken rule; people count rows and columns from 1, so the message does."""
    title = f"{rule} {_TITLES[rule]}" if rule in _TITLES else rule
    where = f"row {cell[0] + 1}, column {cell[1] + 1} " if cell is not None else ""
    return GridError(f"{title}: {where}{problem}", rule, cell)


# --- Text -----------------------------------------------------------------------------------


def parse_grid(rows: str | Sequence[str]) -> Grid:
    """Turn text (a space or a `.` is floor) into a rectangular grid of known tiles."""
    lines = _kitchen_lines(rows) if isinstance(rows, str) else [row.rstrip("\r\n") for row in rows]
    grid = tuple(line.replace(" ", FLOOR) for line in lines)
    _check_tiles(grid)
    check_r1(grid, num_agents=1)
    return grid


def _kitchen_lines(text: str) -> list[str]:
    """The lines of a text without the blank and `#` lines before and after the kitchen."""
    lines = text.splitlines()
    kept = [n for n, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"]
    return lines[kept[0] : kept[-1] + 1] if kept else []


def render_text(grid: Grid) -> str:
    """The kitchen as text, one line for each row."""
    return "\n".join(grid)


def read_grid(path: str | Path, num_agents: int | None = None) -> Grid:
    """Read and fully validate a kitchen file; without `num_agents`, each digit in it is a seat."""
    try:
        grid = parse_grid(Path(path).read_text(encoding="utf-8"))
        validate(grid, count_seats(grid) if num_agents is None else num_agents)
    except GridError as error:
        raise GridError(f"{path}: {error}", error.rule, error.cell) from None
    return grid


def write_grid(path: str | Path, grid: Grid) -> None:
    """Write a kitchen file that `read_grid` gives back unchanged."""
    Path(path).write_text(render_text(grid) + "\n", encoding="utf-8")


def count_seats(grid: Grid) -> int:
    """How many different seats start in the kitchen, at least 1 so that R2 can ask for it."""
    return max(1, len(set(SEATS) & set("".join(grid))))


def _check_tiles(grid: Grid) -> None:
    """Every tile is a known symbol, and there is at least one."""
    if not any(grid):
        raise _broken("empty", "the kitchen has no tiles; give at least one row of symbols")
    if set("".join(grid)) <= set(TILES):
        return
    row, column, tile = next(found for found in _tiles(grid) if found[2] not in TILES)
    allowed = "X P O T D S, '.' or space for floor, or a start 1 to 4"
    raise _broken("symbols", f"is {tile!r}; a tile is one of {allowed}", (row, column))


def _tiles(grid: Grid) -> Iterator[tuple[int, int, str]]:
    """Row, column and symbol of every tile, in reading order."""
    for row, line in enumerate(grid):
        for column, tile in enumerate(line):
            yield row, column, tile


# --- Starts ---------------------------------------------------------------------------------


def starts(grid: Grid, num_agents: int) -> list[Cell]:
    """Where seats 1 to `num_agents` start; the digits of further seats are plain floor."""
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
    """All floor that can be walked to from `cells`."""
    while (grown := cells | around(cells, stride) & floor) != cells:
        cells = grown
    return cells


@dataclass(frozen=True)
class Survey:
    """A kitchen and what its agents reach, as bit sets: bit row * stride + column is a tile.

    A row takes one bit more than it has tiles; that bit is never set, so that the neighbour of
    a row's last tile is not the first tile of the next row.
    """

    stride: int
    floor: int
    counters: int
    families: Mapping[str, int]
    starts: tuple[int, ...]
    regions: tuple[int, ...]  # for each seat the floor it can walk on

    @cached_property
    def stations(self) -> int:
        """All stations of all families."""
        return _union(self.families.values())

    @cached_property
    def reachable(self) -> int:
        """Floor that at least one agent can walk on."""
        return _union(self.regions)

    @cached_property
    def handoffs(self) -> int:
        """Counters that touch the regions of two agents who cannot walk to each other."""
        once = twice = 0
        for region in set(self.regions):
            touched = self.around(region) & self.counters
            twice |= once & touched
            once |= touched
        return twice

    @cached_property
    def components(self) -> tuple[int, ...]:
        """For each seat, its region and all regions that hand-offs link it to, over any others."""
        return tuple(self._linked(region) for region in self.regions)

    def _linked(self, cells: int) -> int:
        shared = self.around(cells) & self.handoffs
        grown = cells | _union(r for r in self.regions if self.around(r) & shared)
        return cells if grown == cells else self._linked(grown)

    def around(self, cells: int) -> int:
        """The 4-neighbours of a set of tiles."""
        return around(cells, self.stride)

    def touches(self, cells: int, family: str) -> bool:
        """Whether a station of the family stands next to one of the tiles."""
        return bool(self.around(cells) & self.families[family])

    def missing(self, cells: int) -> list[str]:
        """The families without a station next to any of the tiles."""
        near = self.around(cells)
        return [family for family, stations in self.families.items() if not near & stations]

    def first(self, cells: int) -> Cell:
        """Row and column of the first tile of a set, in reading order."""
        return divmod((cells & -cells).bit_length() - 1, self.stride)


# Several rules and the solver ask about the same kitchen in turn: the last few are kept.
@lru_cache(maxsize=32)
def survey(grid: Grid, num_agents: int) -> Survey:
    """Find the stations of a kitchen and the floor that each of its agents can walk on."""
    _check_tiles(grid)
    check_r1(grid, num_agents)
    stride = len(grid[0]) + 1
    # The lowest bit is the last digit of a binary number, so the text is read backwards.
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


def _to_binary(members: str) -> dict[int, str]:
    """Translation of a kitchen's text into a binary number that has a 1 for each member."""
    return str.maketrans({tile: "01"[tile in members] for tile in TILES + " "})


_BINARY = {
    kind: _to_binary(members)
    for kind, members in {**FAMILIES, "counter": COUNTER, "floor": FLOOR + SEATS}.items()
}


def _bits(text: str, kind: str) -> int:
    return int(text.translate(_BINARY[kind]), 2)


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


# --- The ten rules --------------------------------------------------------------------------


def check_r1(grid: Grid, num_agents: int) -> None:
    """R1: all rows are equally long."""
    width = len(grid[0])
    for row, line in enumerate(grid):
        if len(line) != width:
            problem = f"row {row + 1} has {len(line)} tiles; every row must have {width}, as row 1"
            raise _broken("R1", problem)


def check_r2(grid: Grid, num_agents: int) -> None:
    """R2: a counter, a station of every family and a start for every seat are present."""
    _check_num_agents(num_agents)
    present = set("".join(grid))
    for needed in (COUNTER, *FAMILIES.values(), *SEATS[:num_agents]):
        if present.isdisjoint(needed):
            name = " or ".join(_NAMES[tile] for tile in needed)
            lacking = f"there is no tile {' or '.join(needed)} ({name})"
            raise _broken("R2", f"{lacking}; {_parts_needed(num_agents)}")


def _parts_needed(num_agents: int) -> str:
    seats = " ".join(SEATS[:num_agents])
    return f"a kitchen for {num_agents} needs X, O or T, D, P, S and {seats}"


def check_r3(grid: Grid, num_agents: int) -> None:
    """R3: nobody can walk on the outer rim."""
    last_row, last_column = len(grid) - 1, len(grid[0]) - 1
    for row, line in enumerate(grid):
        columns = range(last_column + 1) if row in (0, last_row) else (0, last_column)
        for column in columns:
            if line[column] not in _SOLID:
                wanted = "every tile of the outer rim must be a counter or a station"
                raise _broken("R3", f"is {_NAMES[line[column]]}; {wanted}", (row, column))


def _checked_survey(grid: Grid, num_agents: int) -> Survey:
    """The survey for rules that point at a tile of each family, which R2 makes sure is there."""
    check_r2(grid, num_agents)
    return survey(grid, num_agents)


def check_r4(grid: Grid, num_agents: int) -> None:
    """R4: beside every station and every start there is a tile to walk on."""
    kitchen = _checked_survey(grid, num_agents)
    walled_in = (kitchen.stations | _union(kitchen.starts)) & ~kitchen.around(kitchen.floor)
    if walled_in:
        row, column = kitchen.first(walled_in)
        name = _NAMES[grid[row][column]]
        wanted = "it needs floor above, below, left or right of it"
        raise _broken("R4", f"is {name} without floor beside it; {wanted}", (row, column))


def check_r5(grid: Grid, num_agents: int) -> None:
    """R5: some agent can walk to an ingredient pile."""
    kitchen = _checked_survey(grid, num_agents)
    if not kitchen.touches(kitchen.reachable, "ingredient"):
        problem = "is a pile that no agent can reach; at least one O or T must be in reach"
        raise _broken("R5", problem, kitchen.first(kitchen.families["ingredient"]))


def check_r6(grid: Grid, num_agents: int) -> None:
    """R6: some pot can be reached by agents who can also get ingredients."""
    kitchen = _checked_survey(grid, num_agents)
    if not _cooking_components(kitchen):
        wanted = "some pot must be in reach of agents who have an O or T or are handed its contents"
        problem = f"is a pot that no ingredient can get to, like every other; {wanted}"
        raise _broken("R6", problem, kitchen.first(kitchen.families["pot"]))


def check_r7(grid: Grid, num_agents: int) -> None:
    """R7: some serving tile can be reached by agents who have a usable pot."""
    kitchen = _checked_survey(grid, num_agents)
    if not any(kitchen.touches(cells, "serving") for cells in _cooking_components(kitchen)):
        wanted = "some S must be in reach of agents who have a usable pot or are handed its soup"
        problem = f"is a serving tile that no soup can get to, like every other; {wanted}"
        raise _broken("R7", problem, kitchen.first(kitchen.families["serving"]))


def _cooking_components(kitchen: Survey) -> list[int]:
    """The linked regions from which both an ingredient pile and a pot can be reached."""
    return [
        cells
        for cells in set(kitchen.components)
        if kitchen.touches(cells, "ingredient") and kitchen.touches(cells, "pot")
    ]


def check_r8(grid: Grid, num_agents: int) -> None:
    """R8: every agent can use a station or hand things to an agent elsewhere."""
    kitchen = _checked_survey(grid, num_agents)
    of_use = kitchen.stations | kitchen.handoffs
    for seat, region in enumerate(kitchen.regions):
        if not kitchen.around(region) & of_use:
            problem = (
                f"starts seat {seat + 1} where it can do nothing; it must reach a station or"
                " a counter that another agent reaches from the other side"
            )
            raise _broken("R8", problem, kitchen.first(kitchen.starts[seat]))


def check_r9(grid: Grid, num_agents: int) -> None:
    """R9: the agents together reach a station of every family."""
    kitchen = _checked_survey(grid, num_agents)
    for family in kitchen.missing(kitchen.reachable):
        cell = kitchen.first(kitchen.families[family])
        name = _NAMES[grid[cell[0]][cell[1]]]
        problem = f"is {name} and no agent reaches one; some {family} tile must be in reach"
        raise _broken("R9", problem, cell)


def check_r10(grid: Grid, num_agents: int) -> None:
    """R10: an agent who does not reach every family is linked by hand-offs to those who do.

    For two agents that is one counter between their regions. With more agents a counter to just
    anybody would accept kitchens whose plates never come to the pot, so the links must lead to
    every family.
    """
    kitchen = _checked_survey(grid, num_agents)
    for seat, linked in enumerate(kitchen.components):
        if lacking := kitchen.missing(linked):
            problem = (
                f"starts seat {seat + 1}, which neither reaches {' nor '.join(lacking)} tiles nor"
                " is linked to them; it needs a counter shared with an agent who is"
            )
            raise _broken("R10", problem, kitchen.first(kitchen.starts[seat]))


Rule = Callable[[Grid, int], None]
RULES: tuple[Rule, ...] = (
    check_r1,
    check_r2,
    check_r3,
    check_r4,
    check_r5,
    check_r6,
    check_r7,
    check_r8,
    check_r9,
    check_r10,
)


def validate(grid: Grid, num_agents: int) -> None:
    """Raise GridError for the first of the ten rules that the kitchen breaks."""
    _check_tiles(grid)
    for rule in RULES:
        rule(grid, num_agents)


def check_shape(grid: Grid, num_agents: int) -> None:
    """Raise GridError unless the kitchen is well defined (R1 to R3, starts), solvable or not."""
    _check_tiles(grid)
    for rule in (check_r1, check_r2, check_r3):
        rule(grid, num_agents)
    starts(grid, num_agents)

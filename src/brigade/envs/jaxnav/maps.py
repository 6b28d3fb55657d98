"""A map as data: the Task pytree, from arrays or generated at random."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Set
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, TaskSequence
from brigade.core.checks import at_least

MAX_SIDE = 32  # the lidar stores a row of a map in one 32-bit integer
MIN_PATH = 2  # least number of steps to a goal; from an adjacent cell it is almost reached
NEIGHBOURS = ((0, 1), (1, 0), (0, -1), (-1, 0))

Cell = tuple[int, int]  # row, column


class Task(struct.PyTreeNode):
    """One map, with the same shapes for every map of a sequence. Cells are squares of 1 m.

    Cell [row, column] covers y from `row` to `row + 1` and x from `column` to `column + 1`.
    """

    walls: Array  # [height, width] uint8: 1 is wall; all border cells are wall
    start: Array  # [situations, robots, 3] f32: x, y and heading; an episode samples a situation
    goal: Array  # [situations, robots, 2] f32: x, y
    id: Array  # int32: index of the task in its sequence


def check_size(height: int, width: int) -> None:
    """Reject sizes that the lidar does not support."""
    if not 3 <= min(height, width) <= max(height, width) <= MAX_SIDE:
        raise ValueError(f"the map is {height} x {width}; sides must be from 3 to {MAX_SIDE} cells")


@dataclass(frozen=True)
class MapSpec:
    """What to generate: the size including the border, the share of inner walls, the robots.

    `situations` is the number of sets of starts and goals; every episode samples one.
    """

    height: int = 7
    width: int = 7
    fill: float = 0.3
    num_agents: int = 2
    situations: int = 1
    max_attempts: int = 10_000

    def __post_init__(self) -> None:
        check_size(self.height, self.width)
        for name in ("num_agents", "situations", "max_attempts"):
            at_least(name, getattr(self, name), 1)
        if not 0.0 <= self.fill < 1.0:
            raise ValueError(f"fill is {self.fill}; it must be at least 0 and below 1")
        inner = (self.height - 2) * (self.width - 2)
        if inner - self.num_walls < 2 * self.num_agents:
            raise ValueError(
                f"{inner} inner cells with {self.num_walls} walls have no room for the starts and "
                f"goals of {self.num_agents} robots; lower fill or enlarge the map"
            )

    @property
    def num_walls(self) -> int:
        """Number of inner walls; rounded first, since .07 * 100 is more than 7 in floats."""
        return math.floor(round(self.fill * (self.height - 2) * (self.width - 2), 9))


PAPER_MAPS = MapSpec()  # MEAL, appendix K


class GenerationError(ValueError):
    """No valid map was found within the allowed attempts."""


def make_task(walls: np.ndarray, start: np.ndarray, goal: np.ndarray, radius: float = 0.3) -> Task:
    """A task from your own map: walls [height, width], starts [robots, 3], goals [robots, 2].

    Starts and goals may also be [situations, robots, ...]; every episode samples a situation.
    """
    walls = np.asarray(walls, np.uint8)
    start, goal = np.asarray(start, np.float32), np.asarray(goal, np.float32)
    wanted = (*start.shape[:-1], 2)
    if walls.ndim != 2 or start.ndim not in (2, 3) or start.shape[-1] != 3 or goal.shape != wanted:
        raise ValueError(
            f"walls {walls.shape}, start {start.shape} and goal {goal.shape} must be [height, "
            "width], [robots, 3] and [robots, 2]"
        )
    check_size(*walls.shape)
    if not (walls[[0, -1]].all() and walls[:, [0, -1]].all()):
        raise ValueError("the border of the map has a gap; all its cells must be wall")
    start, goal = start.reshape(-1, *start.shape[-2:]), goal.reshape(-1, *goal.shape[-2:])
    for situation in zip(start, goal, strict=True):
        _check_situation(walls, *situation, radius)
    return Task(jnp.asarray(walls), jnp.asarray(start), jnp.asarray(goal), jnp.int32(0))


def _check_situation(walls: np.ndarray, start: np.ndarray, goal: np.ndarray, radius: float) -> None:
    for what, places in (("robot {} starts", start[:, :2]), ("goal {} is", goal)):
        for robot, (x, y) in enumerate(places):
            if clearance(walls, x, y) <= radius:
                where = f"in a wall at x {x:g}, y {y:g}; move it away"
                raise ValueError(f"{what.format(robot)} {where}")
    for one, other in itertools.combinations(range(len(start)), 2):
        if np.hypot(*(start[one] - start[other])[:2]) <= 2 * radius:
            raise ValueError(f"robots {one} and {other} overlap at the start; move one of them")


def clearance(walls: np.ndarray, x: float, y: float) -> float:
    """The distance from a point to the nearest wall."""
    rows, columns = np.nonzero(walls)
    dx = np.maximum(np.abs(columns + 0.5 - x) - 0.5, 0.0)
    dy = np.maximum(np.abs(rows + 0.5 - y) - 0.5, 0.0)
    return float(np.hypot(dx, dy).min())


def sequence(seed: int, num_tasks: int, steps: int, spec: MapSpec = PAPER_MAPS) -> TaskSequence:
    """Distinct random maps; a longer sequence of the same seed starts with the same maps."""
    at_least("seed", seed, 0)
    known: set[bytes] = set()
    tasks = []
    for index in range(num_tasks):
        task = _draw_new(spec, _random(seed, index), known)
        known.add(np.asarray(task.walls).tobytes())
        tasks.append(task)
    names = [f"map {number}" for number in range(1, num_tasks + 1)]
    return TaskSequence.from_tasks(tasks, names, steps)


def generate(spec: MapSpec, seed: int) -> Task:
    """One random map; the same seed gives the same map."""
    at_least("seed", seed, 0)
    return _draw_new(spec, _random(seed, 0), set())


def _random(seed: int, index: int) -> np.random.RandomState:
    """A separate random stream per map. NumPy guarantees that RandomState never changes."""
    return np.random.RandomState(
        np.random.MT19937(np.random.SeedSequence(seed, spawn_key=(index,)))
    )


def _draw_new(spec: MapSpec, rng: np.random.RandomState, known: Set[bytes]) -> Task:
    for _ in range(spec.max_attempts):
        walls, starts, goals = _draw(spec, rng)
        if walls.tobytes() in known or not can_take_turns(walls, starts, goals):
            continue
        first = _with_headings(starts, goals, rng)
        situations = [first, *_draw_situations(spec, walls, rng)]
        if len(situations) == spec.situations:
            start, goal = zip(*situations, strict=True)
            return make_task(walls, np.stack(start), np.stack(goal))
    raise GenerationError(
        f"no new map in {spec.max_attempts} attempts with {spec} after {len(known)} others; "
        "lower fill, enlarge the map or ask for fewer maps"
    )


def _draw(
    spec: MapSpec, rng: np.random.RandomState
) -> tuple[np.ndarray, tuple[Cell, ...], tuple[Cell, ...]]:
    """Walls, starts and goals on distinct inner cells, solvable or not."""
    inner = list(itertools.product(range(1, spec.height - 1), range(1, spec.width - 1)))
    cells = iter([inner[number] for number in rng.permutation(len(inner))])
    walls = np.ones((spec.height, spec.width), np.uint8)
    walls[1:-1, 1:-1] = 0
    for row, column in itertools.islice(cells, spec.num_walls):
        walls[row, column] = 1
    starts = tuple(itertools.islice(cells, spec.num_agents))
    return walls, starts, tuple(itertools.islice(cells, spec.num_agents))


def _draw_situations(
    spec: MapSpec, walls: np.ndarray, rng: np.random.RandomState
) -> list[tuple[np.ndarray, np.ndarray]]:
    """All situations of a map but the first, or fewer if too few are solvable."""
    free: list[Cell] = [(int(row), int(column)) for row, column in np.argwhere(walls == 0)]
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(spec.max_attempts):
        if len(found) == spec.situations - 1:
            break
        cells = [free[number] for number in rng.permutation(len(free))[: 2 * spec.num_agents]]
        starts, goals = tuple(cells[: spec.num_agents]), tuple(cells[spec.num_agents :])
        if can_take_turns(walls, starts, goals):
            found.append(_with_headings(starts, goals, rng))
    return found


def _with_headings(
    starts: tuple[Cell, ...], goals: tuple[Cell, ...], rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Starts [robots, 3] and goals [robots, 2]."""
    heading = rng.uniform(-math.pi, math.pi, (len(starts), 1))
    return np.hstack([_centres(starts), heading]), _centres(goals)


def _centres(cells: tuple[Cell, ...]) -> np.ndarray:
    """[cells, 2]: x and y."""
    return np.array([(column + 0.5, row + 0.5) for row, column in cells])


def can_take_turns(walls: np.ndarray, starts: tuple[Cell, ...], goals: tuple[Cell, ...]) -> bool:
    """Whether the robots can drive one after another, in some order, around waiting ones."""
    paths = [shortest_path(walls, a, b, frozenset()) for a, b in zip(starts, goals, strict=True)]
    if min(map(len, paths)) <= MIN_PATH:
        return False
    orders = itertools.permutations(range(len(starts)))
    return any(_turns_are_free(walls, starts, goals, order) for order in orders)


def _turns_are_free(
    walls: np.ndarray, starts: tuple[Cell, ...], goals: tuple[Cell, ...], order: tuple[int, ...]
) -> bool:
    occupied = set(starts)
    for robot in order:
        occupied.remove(starts[robot])
        cells = shortest_path(walls, starts[robot], goals[robot], occupied)
        if not cells:
            return False
        # It stops as soon as the goal is reached: between the last two cells.
        occupied.update(cells[-2:])
    return True


def shortest_path(walls: np.ndarray, start: Cell, goal: Cell, blocked: Set[Cell]) -> list[Cell]:
    """The cells of a shortest path without diagonal moves; empty if there is none."""
    before: dict[Cell, Cell] = {start: start}
    queue = deque([start])
    while queue and goal not in before:
        cell = queue.popleft()
        for down, right in NEIGHBOURS:
            near = cell[0] + down, cell[1] + right
            if not walls[near] and near not in blocked and near not in before:
                before[near] = cell
                queue.append(near)
    if goal not in before:
        return []
    cells = [goal]
    while cells[-1] != start:
        cells.append(before[cells[-1]])
    return cells[::-1]

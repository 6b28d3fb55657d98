"""Pictures of robots on their maps; the y axis points up, headings turn counterclockwise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache, partial

import jax
import numpy as np
from PIL import Image, ImageDraw

from brigade.envs.jaxnav.lidar import lidar
from brigade.envs.jaxnav.maps import Task
from brigade.envs.jaxnav.rules import STANDARD_ROBOT, Robot, State

Colour = tuple[int, int, int]
Point = tuple[float, float]

# From Okabe and Ito's colour-blind safe palette.
ROBOT_COLOURS: tuple[Colour, ...] = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167))
FLOOR, JOINT = (246, 244, 239), (231, 228, 220)
WALL, WALL_TOP, SHADOW = (58, 62, 74), (76, 81, 95), (219, 215, 206)
WHITE, INK = (255, 255, 255), (38, 38, 44)

OVERSAMPLING = 4  # drawn larger and scaled down, for smooth edges
BEVEL, SHADE, SHARE_OF_TINT = 0.06, 0.1, 0.45
CROSS, CROSS_LINE, THIN_LINE, RIM = 0.2, 0.08, 0.025, 0.03
DOT = 0.04


class Canvas:
    """An image with coordinates in metres."""

    def __init__(self, image: Image.Image, rows: int, cell_px: int) -> None:
        self.pen = ImageDraw.Draw(image)
        self.rows, self.scale = rows, cell_px * OVERSAMPLING

    def at(self, x: float, y: float) -> Point:
        """The pixel of a position."""
        return x * self.scale, (self.rows - y) * self.scale

    def box(self, x: float, y: float, width: float, height: float, fill: Colour) -> None:
        """A rectangle from its lower left corner."""
        (left, bottom), (right, top) = self.at(x, y), self.at(x + width, y + height)
        self.pen.rectangle((left, top, right - 1, bottom - 1), fill)

    def disc(
        self, x: float, y: float, radius: float, fill: Colour, rim: Colour | None = None
    ) -> None:
        """A filled circle, with a rim inside its edge."""
        (left, bottom), (right, top) = (
            self.at(x - radius, y - radius),
            self.at(x + radius, y + radius),
        )
        width = round(RIM * self.scale) if rim else 0
        self.pen.ellipse((left, top, right, bottom), fill, rim, width)

    def line(self, points: Iterable[Point], width: float, fill: Colour) -> None:
        """A line with round ends and corners."""
        places = list(points)
        self.pen.line(
            [self.at(*place) for place in places], fill, max(round(width * self.scale), 1), "curve"
        )
        for place in places:
            self.disc(*place, width / 2, fill)

    def cross(self, x: float, y: float, reach: float, width: float, fill: Colour) -> None:
        """Two crossed lines."""
        for side in (-1, 1):
            self.line([(x - reach, y - side * reach), (x + reach, y + side * reach)], width, fill)


def render(
    state: State, task: Task, robot: Robot = STANDARD_ROBOT, cell_px: int = 48
) -> np.ndarray:
    """RGB uint8 [height * cell_px, width * cell_px, 3] of a single state."""
    if np.ndim(task.walls) != 2 or np.ndim(state.place) != 2:
        raise ValueError("render draws one state; index the batch, or use render_states")
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)
    return render_states(states, task, robot, cell_px)[0]


def render_states(
    states: State, task: Task, robot: Robot = STANDARD_ROBOT, cell_px: int = 48
) -> list[np.ndarray]:
    """One picture per timestep of `states`, whose leaves are [timesteps, ...]."""
    seen = np.asarray(_see(states.place, states.heading, task.walls, robot))
    states, task = jax.device_get((states, task))  # once, not per timestep
    leaves, structure = jax.tree.flatten(states)
    timesteps = (jax.tree.unflatten(structure, leaf) for leaf in zip(*leaves, strict=True))
    return [
        _draw(state, task, ranges, robot, cell_px)
        for state, ranges in zip(timesteps, seen, strict=True)
    ]


@jax.jit(static_argnames="robot")
def _see(place: jax.Array, heading: jax.Array, walls: jax.Array, robot: Robot) -> jax.Array:
    """Lidar distances [timesteps, robots, beams]."""
    return jax.vmap(partial(lidar, walls=walls, robot=robot))(place, heading)


def _draw(state: State, task: Task, seen: np.ndarray, robot: Robot, cell_px: int) -> np.ndarray:
    walls, goals, places = (np.asarray(x) for x in (task.walls, state.goal, state.place))
    height, width = walls.shape
    image = background(walls.tobytes(), width, cell_px).copy()
    canvas = Canvas(image, height, cell_px)
    robots = range(len(places))
    for number in robots:
        _draw_goal(canvas, places[number], goals[number], ROBOT_COLOURS[number])
    for number in robots:
        if not (state.reached[number] or state.crashed[number]):
            _draw_returns(canvas, state, number, seen[number], robot)
    for number in robots:
        _draw_robot(canvas, state, number, robot.radius)
    return np.array(image.resize((width * cell_px, height * cell_px), Image.Resampling.BOX))


@lru_cache(maxsize=64)
def background(walls: bytes, width: int, cell_px: int) -> Image.Image:
    """The parts of the map that never change. Cached: copy it before drawing on it."""
    blocked = np.frombuffer(walls, np.uint8).reshape(-1, width) > 0
    height = len(blocked)
    scale = cell_px * OVERSAMPLING
    image = Image.new("RGB", (width * scale, height * scale), FLOOR)
    canvas = Canvas(image, height, cell_px)
    for column in range(1, width):
        canvas.line([(column, 0), (column, height)], THIN_LINE, JOINT)
    for row in range(1, height):
        canvas.line([(0, row), (width, row)], THIN_LINE, JOINT)
    places = [(int(column), int(row)) for row, column in np.argwhere(blocked)]
    for x, y in places:
        canvas.box(x + SHADE, y - SHADE, 1, 1, SHADOW)
    for x, y in places:
        canvas.box(x, y, 1, 1, WALL)
    for x, y in places:
        canvas.box(x + BEVEL, y + BEVEL, 1 - 2 * BEVEL, 1 - 2 * BEVEL, WALL_TOP)
    return image


def _draw_goal(canvas: Canvas, place: np.ndarray, goal: np.ndarray, tint: Colour) -> None:
    canvas.line([(place[0], place[1]), (goal[0], goal[1])], THIN_LINE, mixed(tint, WHITE))
    canvas.cross(goal[0], goal[1], CROSS, CROSS_LINE * 1.9, WHITE)
    canvas.cross(goal[0], goal[1], CROSS, CROSS_LINE, tint)


def _draw_returns(
    canvas: Canvas, state: State, number: int, ranges: np.ndarray, robot: Robot
) -> None:
    """A dot where a beam hits something."""
    angles = np.linspace(-np.pi, np.pi, len(ranges)) + state.heading[number]
    x, y = state.place[number]
    for angle, distance in zip(angles, ranges, strict=True):
        if distance < robot.lidar_range:
            ends = x + distance * math.cos(angle), y + distance * math.sin(angle)
            canvas.disc(*ends, DOT, mixed(ROBOT_COLOURS[number], WHITE))


def _draw_robot(canvas: Canvas, state: State, number: int, radius: float) -> None:
    """A disc with an arrow; a tick if it reached its goal, a cross if it crashed."""
    x, y = state.place[number]
    tint = ROBOT_COLOURS[number]
    if state.crashed[number]:
        canvas.disc(x, y, radius, mixed(tint, INK), INK)
        canvas.cross(x, y, radius * 0.4, radius * 0.22, WHITE)
    elif state.reached[number]:
        canvas.disc(x, y, radius, tint, WHITE)
        tick = [(-0.4, 0.0), (-0.1, -0.32), (0.42, 0.34)]
        canvas.line([(x + radius * a, y + radius * b) for a, b in tick], radius * 0.2, WHITE)
    else:
        canvas.disc(x, y, radius, tint, mixed(tint, INK))
        cos, sin = math.cos(state.heading[number]), math.sin(state.heading[number])
        arrow = [(0.72, 0.0), (-0.3, 0.48), (-0.06, 0.0), (-0.3, -0.48)]
        corners = [
            canvas.at(x + radius * (a * cos - b * sin), y + radius * (a * sin + b * cos))
            for a, b in arrow
        ]
        canvas.pen.polygon(corners, WHITE)


def mixed(colour: Colour, other: Colour) -> Colour:
    """A share of another colour, in a colour."""
    red, green, blue = (
        round(a + SHARE_OF_TINT * (b - a)) for a, b in zip(colour, other, strict=True)
    )
    return red, green, blue

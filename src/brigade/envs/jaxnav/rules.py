"""The rules of JaxNav: robots drive, reach their goals or crash, and are rewarded.

One step: all robots drive, then goals and collisions are checked at the new positions. A robot that
reached its goal or crashed stays where it is and is an obstacle for the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array
from brigade.core.checks import at_least, positive, within
from brigade.envs.jaxnav.maps import Task

# What happened to a robot in a step, in this order.
EVENTS = ("reached", "crashed_into_wall", "crashed_into_robot")

# The discrete actions: target speed in m/s and target turning speed in rad/s.
ACTIONS = tuple((v, w) for v in (0.0, 0.5, 1.0) for w in (0.5, 0.25, 0.0, -0.25, -0.5))


@dataclass(frozen=True)
class Robot:
    """The robot. Metres, seconds and radians."""

    radius: float = 0.3
    goal_radius: float = 0.5
    """The goal is reached when the robot's centre is within this distance."""
    max_speed: float = 1.0
    max_turning: float = 0.6
    max_acceleration: float = 1.0
    max_turning_acceleration: float = 1.0
    seconds_per_step: float = 0.1
    beams: int = 200
    lidar_range: float = 6.0

    def __post_init__(self) -> None:
        at_least("beams", self.beams, 1)
        for name in set(vars(self)) - {"beams"}:
            positive(name, getattr(self, name))


@dataclass(frozen=True)
class Rewards:
    """The rewards per step of a robot that drives, and how much of them is shared."""

    goal: float = 4.0
    crash: float = -4.0
    time: float = -0.01
    near: float = -0.1
    """If a lidar beam ends within `near_gap` of the robot's edge."""
    near_gap: float = 0.1
    progress: float = 0.25
    """Per metre closer to the goal."""
    own_share: float = 0.5
    """Weight of a robot's own reward; the rest is the team's mean."""

    def __post_init__(self) -> None:
        at_least("near_gap", self.near_gap, 0.0)
        within("own_share", self.own_share, 0.0, 1.0)


STANDARD_ROBOT, STANDARD_REWARDS = Robot(), Rewards()  # as in JaxMARL


class State(struct.PyTreeNode):
    """The robots at one timestep."""

    place: Array  # [robots, 2] f32: x, y
    goal: Array  # [robots, 2] f32: x, y of its goal in this episode
    heading: Array  # [robots] f32: from -pi to pi, 0 along x, counterclockwise
    speed: Array  # [robots, 2] f32: forward and turning
    reached: Array  # [robots] bool
    crashed: Array  # [robots] bool
    time: Array  # int32: steps played

    @property
    def done(self) -> Array:
        """[robots] bool: reached its goal or crashed."""
        return self.reached | self.crashed


def start(task: Task, situation: Array | int = 0) -> State:
    """All robots at rest at the starts of one of the map's situations."""
    here = task.start[situation]
    robots = here.shape[0]
    nobody = jnp.zeros(robots, bool)
    return State(
        place=here[:, :2],
        goal=task.goal[situation],
        heading=here[:, 2],
        speed=jnp.zeros((robots, 2), jnp.float32),
        reached=nobody,
        crashed=nobody,
        time=jnp.int32(0),
    )


def step(state: State, command: Array, task: Task, robot: Robot) -> tuple[State, Array]:
    """Apply commands [robots, 2]; the next state, and events [robots, len(EVENTS)]."""
    driven = drive(state, command, robot)
    events = jnp.stack(
        [
            distances(driven.place, state.goal) <= robot.goal_radius,
            hits_wall(driven.place, task.walls, robot.radius),
            hits_robot(driven.place, robot.radius),
        ],
        axis=-1,
    )
    events &= ~state.done[:, None]
    after = driven.replace(
        reached=state.reached | events[:, 0],
        crashed=state.crashed | events[:, 1] | events[:, 2],
        time=state.time + 1,
    )
    return after, events


def discrete_command(action: Array) -> Array:
    """[robots] int -> target speeds [robots, 2]."""
    return jnp.asarray(np.array(ACTIONS, np.float32))[action]


def continuous_command(action: Array, robot: Robot) -> Array:
    """[robots, 2] from -1 to 1 -> target speeds: from stop to full speed, from right to left."""
    ahead, turning = jnp.clip(action.T, -1.0, 1.0)
    return jnp.stack([(ahead + 1) / 2 * robot.max_speed, turning * robot.max_turning], axis=-1)


def drive(state: State, command: Array, robot: Robot) -> State:
    """Accelerate within the robot's limits, drive in the old direction, then turn."""
    seconds = robot.seconds_per_step
    most = seconds * np.array([robot.max_acceleration, robot.max_turning_acceleration], np.float32)
    speed = state.speed + jnp.clip(command - state.speed, -most, most)
    ahead = jnp.clip(speed[:, 0], 0.0, robot.max_speed)
    turning = jnp.clip(speed[:, 1], -robot.max_turning, robot.max_turning)
    direction = jnp.stack([jnp.cos(state.heading), jnp.sin(state.heading)], axis=-1)
    place = state.place + (seconds * ahead)[:, None] * direction
    heading = wrap(state.heading + seconds * turning)
    stays = state.done
    return state.replace(
        place=jnp.where(stays[:, None], state.place, place),
        heading=jnp.where(stays, state.heading, heading),
        speed=jnp.where(stays[:, None], 0.0, jnp.stack([ahead, turning], axis=-1)),
    )


def wrap(angle: Array) -> Array:
    """Wrap an angle, at most one turn off, to the range -pi to pi."""
    turn = 2 * np.pi
    return jnp.where(angle >= np.pi, angle - turn, jnp.where(angle < -np.pi, angle + turn, angle))


def distances(place: Array, goal: Array) -> Array:
    """[robots]: the distance of each to its goal."""
    return jnp.sqrt(jnp.square(place - goal).sum(-1))


def hits_wall(place: Array, walls: Array, radius: float) -> Array:
    """[robots] bool: whether a disc touches a wall cell."""

    def gap(coordinate: Array, cells: int) -> Array:
        """[robots, cells]: squared distance along one axis, 0 inside a cell."""
        centre = np.arange(cells, dtype=np.float32) + 0.5
        return jnp.square(jnp.maximum(jnp.abs(coordinate[:, None] - centre) - 0.5, 0.0))

    height, width = walls.shape
    squared = gap(place[:, 1], height)[:, :, None] + gap(place[:, 0], width)[:, None, :]
    return ((squared <= radius**2) & (walls > 0)).any((1, 2))


def hits_robot(place: Array, radius: float) -> Array:
    """[robots] bool: whether a disc touches another one."""
    hit = jnp.zeros(place.shape[0], bool)
    for shift in range(1, place.shape[0]):
        hit |= distances(place, jnp.roll(place, -shift, axis=0)) <= 2 * radius
    return hit


def reward(
    before: State,
    after: State,
    events: Array,
    nearest: Array,
    robot: Robot,
    pay: Rewards,
) -> Array:
    """[robots] f32: own rewards mixed with the team's mean; `nearest` are the shortest beams."""
    progress = distances(before.place, before.goal) - distances(after.place, before.goal)
    own = (
        jnp.where(events[:, 0], pay.goal, pay.progress * progress)
        + pay.crash * (events[:, 1] | events[:, 2])
        + pay.near * (nearest <= robot.radius + pay.near_gap)
        + pay.time
    )
    own = jnp.where(before.done, 0.0, own)
    return pay.own_share * own + (1 - pay.own_share) * own.mean()

"""Scripted cooks: they fetch, cook and serve on shortest paths.

They act on the observation alone, so a cook can play any seat of any kitchen with the full view.
Which tasks a cook does, and how reliably, are its parameters (`Habits`), so cooks with different
habits share one program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Environment, Key, View
from brigade.envs.overcooked import Overcooked
from brigade.envs.overcooked.observe import SHARED_CHANNELS
from brigade.envs.overcooked.things import INTERACT, STAY

NOTHING, FOOD, PLATE, SOUP = range(4)  # what a cook holds
UNREACHABLE = 2**15  # as a distance


class Habits(struct.PyTreeNode):
    """The parameters of a cook. Leaves [], or [members]."""

    cooks: Array  # bool: brings ingredients to pots
    serves: Array  # bool: fetches plates, plates soups and serves them
    drops: Array  # f32: probability of leaving what it fetched on a counter

    @classmethod
    def of(cls, cooks: bool = True, serves: bool = True, drops: float = 0.0) -> Habits:
        """From plain values."""
        return cls(jnp.bool_(cooks), jnp.bool_(serves), jnp.float32(drops))


class Errand(struct.PyTreeNode):
    """The state of a cook from one timestep to the next. Leaves [..., seats]."""

    cell: Array  # int32: its position one step ago
    hand: Array  # int32: what it held
    dropping: Array  # bool: it is going to leave what it holds on a counter


@dataclass(frozen=True)
class Cook:
    """Fills pots while one has room, then plates and serves soups, by default.

    A cook that does only one of the two holds its item and waits until its partner has done the
    other. A cook that does both puts down items it cannot use now, and uses items on counters.
    If all paths are blocked it moves in a random direction. If its last move was blocked, or its
    next move would only undo the last one, it stays with probability 1/2: otherwise two cooks could
    block each other, or step aside for each other, forever.
    """

    always_samples: ClassVar[bool] = True

    def init(self, key: Key) -> Habits:
        """The habits of a cook that does everything, reliably."""
        return Habits.of()

    def initial_carry(self, batch: tuple[int, ...]) -> Errand:
        """The state before an episode: empty hands."""
        zeros = jnp.zeros(batch, jnp.int32)
        return Errand(zeros, zeros, zeros == 1)

    def act(
        self, params: Habits, carry: Errand, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Errand, dict[str, Array]]:
        """One action per seat."""
        drop_key, wait_key, aside_key = jax.random.split(key, 3)
        shape = view.active.shape
        scene = parse(view.obs)
        fetched = (scene.hand == FOOD) | (scene.hand == PLATE)
        picked_up = fetched & ((carry.hand == NOTHING) | view.first)
        drops = jax.random.uniform(drop_key, shape) < params.drops
        dropping = jnp.where(picked_up, drops, carry.dropping & fetched & ~view.first)
        aside = jax.random.randint(aside_key, shape, 0, STAY)
        action = next_action(scene, targets(scene, params, dropping), aside)
        waits = is_stuck(scene, carry, view, action) & ~view.first
        action = jnp.where(waits & jax.random.bernoulli(wait_key, 0.5, shape), STAY, action)
        return action.astype(jnp.int32), Errand(scene.cell, scene.hand, dropping), {}


@dataclass(frozen=True)
class Planner(Cook):
    """A cook with fixed habits."""

    drops: float = 0.1
    """Probability of leaving an onion or a plate on a counter."""

    cooks: ClassVar[bool] = True
    serves: ClassVar[bool] = True

    def init(self, key: Key) -> Habits:
        """Its habits."""
        return Habits.of(self.cooks, self.serves, self.drops)

    @classmethod
    def for_game(cls, env: Environment) -> Planner:
        """A cook for Overcooked with the full view; an error for other environments."""
        if not isinstance(env, Overcooked) or env.view != "full":
            raise ValueError(
                "scripted cooks need Overcooked with the full view; choose another partner"
            )
        return cls()

    def member(self) -> tuple[Cook, Habits]:
        """The policy that all cooks share, and the parameters of this one."""
        return Cook(), Habits.of(self.cooks, self.serves, self.drops)


@dataclass(frozen=True)
class Human(Planner):
    """Fills pots; if no pot has room, plates and serves soups."""


@dataclass(frozen=True)
class OnionOnly(Planner):
    """Only fills pots."""

    serves: ClassVar[bool] = False


@dataclass(frozen=True)
class PlateOnly(Planner):
    """Only plates and serves soups."""

    cooks: ClassVar[bool] = False


class Scene(NamedTuple):
    """An observation by meaning. Planes are [..., height, width] bool, the rest [...]."""

    own: Array
    other: Array
    cell: Array  # int32: own position, in row-major order
    floor_ahead: Array  # bool: it faces a floor tile
    facing: Array  # up, down, right, left
    hand: Array  # int32
    room: Array  # floor that it can reach, ignoring other cooks
    open_pots: Array  # pots that take ingredients; a full pot starts cooking at once
    busy_pots: Array  # pots that cook, or hold a soup
    ready_pots: Array
    counters: Array  # empty ones
    ingredients: Array  # piles
    plates: Array
    lying_food: Array  # on counters
    lying_plates: Array
    servings: Array


def parse(obs: Array) -> Scene:
    """Parse observations [..., height, width, channels]; stations out of reach are left out."""
    planes = obs > 0
    own, other, facings = planes[..., 0], planes[..., 1], planes[..., 2:6]
    shared = {
        name: planes[..., index - len(SHARED_CHANNELS)]
        for index, name in enumerate(SHARED_CHANNELS)
    }
    food = shared["onions"] | shared["tomatoes"]
    plate, soup = shared["plates"], shared["soup ready, in a pot or plated"]
    piles = shared["onion pile"] | shared["tomato pile"]
    stations = piles | shared["plate pile"] | shared["serving"] | shared["pot"] | shared["counter"]
    laid_down = (food | plate | soup) & ~own & ~other
    room = flood(own, ~stations & ~laid_down)
    reach = beside(room)
    pots = shared["pot"] & reach
    busy = (
        shared["onions in a soup, cooking, ready or plated"]
        | shared["tomatoes in a soup, cooking, ready or plated"]
    )
    facing = facings.any(axis=(-3, -2)).argmax(-1)
    held = [anywhere(own & thing) for thing in (food, plate, soup)]
    return Scene(
        own=own,
        other=other,
        cell=own.reshape(*own.shape[:-2], -1).argmax(-1).astype(jnp.int32),
        floor_ahead=ahead(own, room, facing),
        facing=facing,
        hand=jnp.stack(held, -1) @ jnp.array([FOOD, PLATE, SOUP]),
        room=room,
        open_pots=pots & ~busy,
        busy_pots=pots & busy,
        ready_pots=pots & soup,
        counters=shared["counter"] & reach,
        ingredients=piles & reach,
        plates=shared["plate pile"] & reach,
        lying_food=food & laid_down & reach,
        lying_plates=plate & laid_down & reach,
        servings=shared["serving"] & reach,
    )


def targets(scene: Scene, habits: Habits, dropping: Array) -> Array:
    """[..., height, width] bool: the tiles a cook wants to use now; none if it has to wait."""
    pot_free, soup_coming = anywhere(scene.open_pots), anywhere(scene.busy_pots)
    counter_free = anywhere(scene.counters)
    does_both = habits.cooks & habits.serves
    cooks_now = habits.cooks & (pot_free | ~habits.serves)
    lays_food_down = (dropping | (habits.serves & ~pot_free)) & counter_free
    lays_plate_down = (dropping | (habits.cooks & ~soup_coming)) & counter_free
    errands = (
        (NOTHING, cooks_now, scene.ingredients | (scene.lying_food & does_both)),
        (NOTHING, habits.serves & ~cooks_now, scene.plates | (scene.lying_plates & does_both)),
        (FOOD, lays_food_down, scene.counters),
        (FOOD, ~lays_food_down, scene.open_pots),
        (PLATE, lays_plate_down, scene.counters),
        (PLATE, ~lays_plate_down, scene.ready_pots),
        (SOUP, True, scene.servings),
    )
    chosen = jnp.zeros_like(scene.own)
    for hand, when, tiles in errands:
        chosen |= tiles & ((scene.hand == hand) & when)[..., None, None]
    return chosen


def next_action(scene: Scene, target: Array, aside: Array) -> Array:
    """The next action on a shortest path to a target tile; `aside` if all paths are blocked."""
    free = scene.room & ~scene.other
    distance = walking_distance(beside(target) & free, free)
    here = at(distance, scene.own)
    around = [at(neighbour(distance, d, UNREACHABLE), scene.own) for d in range(4)]
    action = jnp.where(here < UNREACHABLE, jnp.stack(around, -1).argmin(-1), aside)
    action = jnp.where(here == 0, next_to(scene.own, target).argmax(-1), action)
    action = jnp.where(ahead(scene.own, target, scene.facing), INTERACT, action)
    return jnp.where(anywhere(target), action, STAY)


def is_stuck(scene: Scene, before: Errand, view: View, action: Array) -> Array:
    """Whether the last move was blocked, or the next one would only undo it."""
    walked = (view.prev_action >= 0) & (view.prev_action < STAY)
    stayed = scene.cell == before.cell
    width = view.obs.shape[-2]
    next_cell = scene.cell + jnp.array([-width, width, 1, -1, 0, 0])[action]
    turns_back = ~stayed & (next_cell == before.cell) & (scene.hand == before.hand)
    return (walked & stayed & scene.floor_ahead) | turns_back


# --- planes [..., height, width] ---


def neighbour(plane: Array, direction: int, outside: bool | int) -> Array:
    """For each tile the value of its neighbour in a direction: up, down, right, left."""
    axis, by = ((-2, 1), (-2, -1), (-1, -1), (-1, 1))[direction]
    moved = jnp.roll(plane, by, axis)
    edge = (0, -1, -1, 0)[direction]
    if axis == -2:
        return moved.at[..., edge, :].set(outside)
    return moved.at[..., edge].set(outside)


def beside(plane: Array) -> Array:
    """The tiles next to marked ones."""
    up, down, right, left = (neighbour(plane, direction, False) for direction in range(4))
    return up | down | right | left


def next_to(mark: Array, plane: Array) -> Array:
    """[..., 4] bool: in which directions from the marked tile the plane is marked."""
    return jnp.stack(
        [anywhere(mark & neighbour(plane, direction, False)) for direction in range(4)], -1
    )


def ahead(mark: Array, plane: Array, facing: Array) -> Array:
    """Whether the plane is marked on the tile that the marked tile faces."""
    return jnp.take_along_axis(next_to(mark, plane), facing[..., None], axis=-1)[..., 0]


def flood(start: Array, passable: Array) -> Array:
    """All passable tiles that can be reached from `start`, including `start` itself."""

    def grow(_: int, reached: Array) -> Array:
        return reached | (beside(reached) & passable)

    return jax.lax.fori_loop(0, longest_walk(start), grow, start)


def walking_distance(goal: Array, passable: Array) -> Array:
    """int32: steps over passable tiles to the nearest goal, or UNREACHABLE."""

    def relax(_: int, distance: Array) -> Array:
        nearest = distance
        for direction in range(4):
            nearest = jnp.minimum(nearest, 1 + neighbour(distance, direction, UNREACHABLE))
        return jnp.where(passable, jnp.minimum(nearest, UNREACHABLE), UNREACHABLE)

    start = jnp.where(goal & passable, 0, UNREACHABLE)
    return jax.lax.fori_loop(0, longest_walk(goal), relax, start)


def longest_walk(plane: Array) -> int:
    """An upper bound on the length of a shortest path: the number of inner tiles."""
    height, width = plane.shape[-2:]
    return (height - 2) * (width - 2)


def at(plane: Array, mark: Array) -> Array:
    """The value on the marked tile."""
    return jnp.sum(jnp.where(mark, plane, 0), axis=(-2, -1))


def anywhere(plane: Array) -> Array:
    """Whether any tile is marked."""
    return plane.any(axis=(-2, -1))

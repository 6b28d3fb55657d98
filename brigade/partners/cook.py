"""Cooks that follow a plan: they fetch, cook and serve on shortest paths, from what they see.

Everything is read from the observation, so that a cook can take any seat of any kitchen that is
seen in full. What a cook takes on, and how reliably, are its habits: numbers, so that cooks with
different habits are one program.
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

NOTHING, FOOD, PLATE, SOUP = range(4)  # what is in a hand
NO_WAY = 2**15


class Habits(struct.PyTreeNode):
    """What a cook does, and how often it does otherwise. Leaves [], or [members]."""

    cooks: Array  # bool: brings ingredients to pots
    serves: Array  # bool: fetches plates, plates soups and serves them
    drops: Array  # f32: how likely it leaves what it fetched on a counter

    @classmethod
    def of(cls, cooks: bool = True, serves: bool = True, drops: float = 0.0) -> Habits:
        """From plain values."""
        return cls(jnp.bool_(cooks), jnp.bool_(serves), jnp.float32(drops))


class Errand(struct.PyTreeNode):
    """What a cook remembers. Leaves [..., seats]."""

    cell: Array  # int32: where it stood a step ago
    hand: Array  # int32: what it held
    dropping: Array  # bool: what it holds is meant for a counter


@dataclass(frozen=True)
class Cook:
    """Fills pots as long as one has room, then plates and serves, by default.

    One that does only half of this waits where it is for the other half to be done. One that does
    both puts away what is of no use now, and uses what lies on counters. With no free way to go it
    steps aside at random. Where it did not get on, or would turn back at once, it waits every other
    time: two who want the same tile, or make way for each other in step, would do so for ever.
    """

    always_samples: ClassVar[bool] = True

    def init(self, key: Key) -> Habits:
        """The habits of one who does it all, and does it reliably."""
        return Habits.of()

    def initial_carry(self, batch: tuple[int, ...]) -> Errand:
        """Empty hands."""
        zeros = jnp.zeros(batch, jnp.int32)
        return Errand(zeros, zeros, zeros == 1)

    def act(
        self, params: Habits, carry: Errand, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Errand, dict[str, Array]]:
        """One action per seat."""
        drop_key, wait_key, aside_key = jax.random.split(key, 3)
        shape = view.active.shape
        seen = look(view.obs)
        fetched = (seen.hand == FOOD) | (seen.hand == PLATE)
        picked_up = fetched & ((carry.hand == NOTHING) | view.first)
        drops = jax.random.uniform(drop_key, shape) < params.drops
        dropping = jnp.where(picked_up, drops, carry.dropping & fetched & ~view.first)
        aside = jax.random.randint(aside_key, shape, 0, STAY)
        action = way_to(seen, targets(seen, params, dropping), aside)
        waits = gets_nowhere(seen, carry, view, action) & ~view.first
        action = jnp.where(waits & jax.random.bernoulli(wait_key, 0.5, shape), STAY, action)
        return action.astype(jnp.int32), Errand(seen.cell, seen.hand, dropping), {}


@dataclass(frozen=True)
class Planner(Cook):
    """A cook with settled habits."""

    drops: float = 0.1
    """How likely it leaves an onion or a plate on a counter."""

    cooks: ClassVar[bool] = True
    serves: ClassVar[bool] = True

    def init(self, key: Key) -> Habits:
        """Its habits."""
        return Habits.of(self.cooks, self.serves, self.drops)

    @classmethod
    def for_game(cls, env: Environment) -> Planner:
        """Cooks work in kitchens that are seen in full."""
        if not isinstance(env, Overcooked) or env.view != "full":
            raise ValueError(
                "cooks that plan need Overcooked with the full view; choose another partner"
            )
        return cls()

    def member(self) -> tuple[Cook, Habits]:
        """The program that all cooks share, and what makes this one."""
        return Cook(), Habits.of(self.cooks, self.serves, self.drops)


@dataclass(frozen=True)
class Human(Planner):
    """Fills pots, and when none is free plates and serves."""


@dataclass(frozen=True)
class OnionOnly(Planner):
    """Fills pots, nothing else."""

    serves: ClassVar[bool] = False


@dataclass(frozen=True)
class PlateOnly(Planner):
    """Plates and serves, nothing else."""

    cooks: ClassVar[bool] = False


class Seen(NamedTuple):
    """An observation in words. Planes [..., height, width] bool, the rest [...]."""

    own: Array
    other: Array
    cell: Array  # int32: where it stands, row by row
    floor_ahead: Array  # bool: it faces a tile that can be walked on
    facing: Array  # up, down, right, left
    hand: Array  # int32
    room: Array  # floor that can be walked to, other cooks aside
    open_pots: Array  # that take ingredients; a full pot cooks at once
    busy_pots: Array  # that cook, or hold a soup
    ready_pots: Array
    counters: Array  # with nothing on them
    ingredients: Array  # piles
    plates: Array
    lying_food: Array  # on counters
    lying_plates: Array
    servings: Array


def look(obs: Array) -> Seen:
    """Understand observations [..., height, width, channels], without stations out of reach."""
    planes = obs > 0
    own, other, facings = planes[..., 0], planes[..., 1], planes[..., 2:6]
    shared = {
        name: planes[..., place - len(SHARED_CHANNELS)]
        for place, name in enumerate(SHARED_CHANNELS)
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
    return Seen(
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


def targets(seen: Seen, habits: Habits, dropping: Array) -> Array:
    """[..., height, width] bool: the tiles a cook would now use; none if there is only waiting."""
    pot_free, soup_coming = anywhere(seen.open_pots), anywhere(seen.busy_pots)
    counter_free = anywhere(seen.counters)
    does_both = habits.cooks & habits.serves
    cooks_now = habits.cooks & (pot_free | ~habits.serves)
    lays_food_down = (dropping | (habits.serves & ~pot_free)) & counter_free
    lays_plate_down = (dropping | (habits.cooks & ~soup_coming)) & counter_free
    errands = (
        (NOTHING, cooks_now, seen.ingredients | (seen.lying_food & does_both)),
        (NOTHING, habits.serves & ~cooks_now, seen.plates | (seen.lying_plates & does_both)),
        (FOOD, lays_food_down, seen.counters),
        (FOOD, ~lays_food_down, seen.open_pots),
        (PLATE, lays_plate_down, seen.counters),
        (PLATE, ~lays_plate_down, seen.ready_pots),
        (SOUP, True, seen.servings),
    )
    chosen = jnp.zeros_like(seen.own)
    for hand, when, tiles in errands:
        chosen |= tiles & ((seen.hand == hand) & when)[..., None, None]
    return chosen


def way_to(seen: Seen, target: Array, aside: Array) -> Array:
    """The next action on the shortest way to use one of the target tiles."""
    free = seen.room & ~seen.other
    distance = walking_distance(beside(target) & free, free)
    here = at(distance, seen.own)
    around = [at(neighbour(distance, way, NO_WAY), seen.own) for way in range(4)]
    action = jnp.where(here < NO_WAY, jnp.stack(around, -1).argmin(-1), aside)
    action = jnp.where(here == 0, next_to(seen.own, target).argmax(-1), action)
    action = jnp.where(ahead(seen.own, target, seen.facing), INTERACT, action)
    return jnp.where(anywhere(target), action, STAY)


def gets_nowhere(seen: Seen, before: Errand, view: View, action: Array) -> Array:
    """Whether the last step failed for want of room, or the next would only take it back."""
    walked = (view.prev_action >= 0) & (view.prev_action < STAY)
    stayed = seen.cell == before.cell
    width = view.obs.shape[-2]
    next_cell = seen.cell + jnp.array([-width, width, 1, -1, 0, 0])[action]
    turns_back = ~stayed & (next_cell == before.cell) & (seen.hand == before.hand)
    return (walked & stayed & seen.floor_ahead) | turns_back


# --- planes [..., height, width] ---


def neighbour(plane: Array, way: int, outside: bool | int) -> Array:
    """What each tile has next to it in a direction: up, down, right, left."""
    axis, by = ((-2, 1), (-2, -1), (-1, -1), (-1, 1))[way]
    moved = jnp.roll(plane, by, axis)
    edge = (0, -1, -1, 0)[way]
    if axis == -2:
        return moved.at[..., edge, :].set(outside)
    return moved.at[..., edge].set(outside)


def beside(plane: Array) -> Array:
    """The tiles next to marked ones."""
    up, down, right, left = (neighbour(plane, way, False) for way in range(4))
    return up | down | right | left


def next_to(mark: Array, plane: Array) -> Array:
    """[..., 4] bool: which ways from the marked tile the plane is marked."""
    return jnp.stack([anywhere(mark & neighbour(plane, way, False)) for way in range(4)], -1)


def ahead(mark: Array, plane: Array, facing: Array) -> Array:
    """Whether the plane is marked on the tile that is faced from the marked one."""
    return jnp.take_along_axis(next_to(mark, plane), facing[..., None], axis=-1)[..., 0]


def flood(start: Array, passable: Array) -> Array:
    """All passable tiles that can be walked to from `start`, which counts as one."""

    def grow(_: int, reached: Array) -> Array:
        return reached | (beside(reached) & passable)

    return jax.lax.fori_loop(0, longest_walk(start), grow, start)


def walking_distance(goal: Array, passable: Array) -> Array:
    """int32: steps over passable tiles to the nearest goal; NO_WAY where there is none."""

    def relax(_: int, distance: Array) -> Array:
        nearest = distance
        for way in range(4):
            nearest = jnp.minimum(nearest, 1 + neighbour(distance, way, NO_WAY))
        return jnp.where(passable, jnp.minimum(nearest, NO_WAY), NO_WAY)

    start = jnp.where(goal & passable, 0, NO_WAY)
    return jax.lax.fori_loop(0, longest_walk(goal), relax, start)


def longest_walk(plane: Array) -> int:
    """More steps than the inside of a kitchen has tiles, no shortest way has."""
    height, width = plane.shape[-2:]
    return (height - 2) * (width - 2)


def at(plane: Array, mark: Array) -> Array:
    """The number on the marked tile."""
    return jnp.sum(jnp.where(mark, plane, 0), axis=(-2, -1))


def anywhere(plane: Array) -> Array:
    """Whether any tile is marked."""
    return plane.any(axis=(-2, -1))

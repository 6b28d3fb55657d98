"""A kitchen as one cook knows it: paths, the nearest station, and how to get there.

Everything is about one cook; policies batch it. Cells are numbered row by row. The border of a
kitchen is never floor, so neighbours of a cell can be looked up by shifting whole arrays.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array
from brigade.envs.overcooked_v2.things import (
    BUTTON,
    COOKED,
    COUNTER,
    FLOOR,
    INDICATOR,
    MAX_INGREDIENTS,
    NOTHING,
    OUTSIDE,
    PILE,
    PLATE,
    PLATE_PILE,
    POT,
    POT_SIZE,
    SERVING,
    count,
    is_ingredient,
)

RIGHT, DOWN, LEFT, UP, STAY, INTERACT = range(6)
GO, HOVER, WANDER = 6, 7, 8  # ways to act that need a path; see `Plan`
FAR = 10_000  # the distance of what cannot be reached
BLOCKED = 100  # what it costs that the other cook stands where one would use a station
FACING = (2, 1, 3, 0)  # after the moves right, down, left, up
UNKNOWN = -1  # the other cook's cell, if it is not known


class Scene(struct.PyTreeNode):
    """What a cook knows. Leaves are of one cook; `thing` and `timer` are [cells]."""

    tile: Array  # [height, width]
    seat: Array
    cell: Array
    facing: Array
    held: Array
    other: Array  # the other cook's cell, or UNKNOWN
    other_held: Array
    thing: Array
    timer: Array
    recipe: Array  # contents; 0: not known
    shown: Array  # bool: it sees the recipe now
    time: Array


class Plan(NamedTuple):
    """What a rule decides: an action, or to GO to a cell, HOVER at it, or WANDER."""

    how: Array | int
    target: Array | int = 0
    why: Array | int = 0  # of the family's own kinds of rules


class Decision(NamedTuple):
    """What a family decides."""

    action: Array
    memory: Any
    branch: Array | int = 0  # which of the release's next keys follows
    scores: Array | None = None  # [intents] of H4


Rule = tuple[Array, Plan]  # where it applies, and what it decides


def first(rules: list[Rule]) -> Plan:
    """What the first rule that applies decides; the last one always does."""
    plan = rules[-1][1]
    for applies, decided in reversed(rules[:-1]):
        both = zip(decided, plan, strict=True)
        plan = Plan(*(jnp.where(applies, one, other) for one, other in both))
    return plan


class Way(NamedTuple):
    """How to get to a station: from which side, at what cost, and with which first move."""

    beside: Array  # whether the cook stands next to it
    faced: Array  # and faces it
    turn: Array  # the move towards it
    side: Array  # the floor cell from which to use it
    cost: Array  # its distance, with BLOCKED if the other cook is there
    sides: Array  # how many floor neighbours the station has
    step: Array  # the first move to `side`, or STAY


class Kitchen:
    """A scene with what follows from it, computed when it is first asked for."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.width = scene.tile.shape[1]
        self.tile = scene.tile.reshape(-1)
        self.cells = self.tile.size
        self.numbers = np.arange(self.cells, dtype=np.int32)
        self.rows, self.columns = self.numbers // self.width, self.numbers % self.width
        self.shifts = np.array(
            [1, self.width, -1, -self.width], np.int32
        )  # of right, down, left, up
        self.floor = self.tile == FLOOR
        self.held_plate = scene.held == PLATE
        self.held_dish = is_dish(scene.held)
        self.held_ingredient = is_ingredient(scene.held)
        self.empty = scene.held == NOTHING

    # --- stations, as masks [cells] ---

    @cached_property
    def pots(self) -> Array:
        """Pots."""
        return self.tile == POT

    @cached_property
    def cooking(self) -> Array:
        """Pots that cook."""
        return self.pots & (self.scene.timer > 0)

    @cached_property
    def cooked(self) -> Array:
        """Pots with a soup that is ready."""
        return self.pots & (self.scene.thing & COOKED != 0)

    @cached_property
    def in_pots(self) -> Array:
        """How many ingredients each pot has; 0 elsewhere."""
        return jnp.where(self.pots, count(self.scene.thing), 0)

    @cached_property
    def open_pots(self) -> Array:
        """Pots that take another ingredient."""
        return self.pots & (self.in_pots < POT_SIZE) & ~self.cooking & ~self.cooked

    @cached_property
    def full_pots(self) -> Array:
        """Full pots that a cook has to start."""
        return self.pots & (self.in_pots == POT_SIZE) & ~self.cooking & ~self.cooked

    @cached_property
    def busy_pots(self) -> Array:
        """Pots that cook or hold anything."""
        return self.pots & ((self.scene.timer > 0) | (self.scene.thing != NOTHING))

    @cached_property
    def empty_counters(self) -> Array:
        """Counters on which nothing lies."""
        return (self.tile == COUNTER) & (self.scene.thing == NOTHING)

    @cached_property
    def lone_ingredients(self) -> Array:
        """Counters on which an ingredient lies."""
        return (self.tile == COUNTER) & is_ingredient(self.scene.thing)

    @cached_property
    def serving(self) -> Array:
        """Where soups are served."""
        return self.tile == SERVING

    @cached_property
    def plate_piles(self) -> Array:
        """Piles of plates."""
        return self.tile == PLATE_PILE

    @cached_property
    def indicators(self) -> Array:
        """What always shows the recipe."""
        return self.tile == INDICATOR

    @cached_property
    def buttons(self) -> Array:
        """What shows the recipe after it was pressed."""
        return self.tile == BUTTON

    @cached_property
    def at_a_loss(self) -> Array:
        """Whether the recipe is not known, and no pot is on its way."""
        return (self.scene.recipe == 0) & ~self.cooking.any() & ~self.cooked.any()

    @cached_property
    def looks(self) -> Array:
        """Whether the recipe is not known and an indicator can be reached: it costs nothing."""
        return (self.scene.recipe == 0) & self.reachable(self.indicators).any()

    @cached_property
    def begun(self) -> Array:
        """[types] int32: 1 for the first ingredient in the fullest open pot."""
        filled = jnp.where(self.open_pots, self.in_pots, 0)
        kind = lowest_type(self.scene.thing[filled.argmax()])
        return ((np.arange(MAX_INGREDIENTS) == kind) & filled.any()).astype(jnp.int32)

    @cached_property
    def lit(self) -> Array:
        """Whether a button shows the recipe."""
        return (self.buttons & (self.scene.timer > 0)).any()

    @cached_property
    def size(self) -> tuple[Array, Array]:
        """Height and width, without padding."""
        inside = self.tile != OUTSIDE
        return (
            jnp.where(inside, self.rows, -1).max() + 1,
            jnp.where(inside, self.columns, -1).max() + 1,
        )

    def piles(self, wanted: Array) -> Array:
        """Piles of the ingredients that are `wanted` [types] bool."""
        bits = (wanted.astype(jnp.int32) << np.arange(MAX_INGREDIENTS)).sum()
        kind = jnp.maximum(self.tile - PILE, 0)
        return (self.tile >= PILE) & ((bits >> kind) & 1 == 1)

    def missing(self, most_types: int, carried: Array | int = 0) -> Array:
        """[types] How many of each ingredient the recipe has beyond all pots and `carried`.

        If the recipe is not known: one more of what somebody put into the fullest open pot.
        """
        there = jnp.where(self.pots, contents(self.scene.thing, self.cells), 0)
        need = contents(self.scene.recipe) - there.sum(1) - carried
        need = jnp.where(self.scene.recipe == 0, self.begun, need)
        return jnp.maximum(need, 0) * (np.arange(MAX_INGREDIENTS) < most_types)

    # --- distances and paths ---

    @cached_property
    def paths(self) -> tuple[Array, Array]:
        """Of both cooks [2, cells]: the length of the shortest path, and its first move.

        Among shortest paths, that of a search in the order right, down, left, up: its first move
        is the first in this order that begins any shortest path.
        """
        starts = jnp.stack([self.scene.cell, self.scene.other])[:, None]
        at_start, most = self.numbers == starts, 4 * FAR
        begin = jnp.full((2, self.cells), most, jnp.int32)
        for move, shift in reversed(list(enumerate(self.shifts))):
            begin = jnp.where(self.numbers == starts + shift, 4 + move, begin)
        known = self.scene.other != UNKNOWN
        begin = jnp.where(self.floor & jnp.stack([known | True, known])[:, None], begin, most)
        passable = self.floor & ~at_start  # paths never come back to their start

        def further(values: Array) -> Array:
            around = [jnp.roll(values, shift, axis=1) for shift in self.shifts]
            nearest = jnp.minimum(
                jnp.minimum(around[0], around[1]), jnp.minimum(around[2], around[3])
            )
            return jnp.where(passable, jnp.minimum(values, nearest + 4), most)

        def spread(state: tuple[Array, Array]) -> tuple[Array, Array]:
            return further(further(state[0])), state[0]

        start = (begin, jnp.full_like(begin, -1))
        values, _ = jax.lax.while_loop(lambda state: (state[0] != state[1]).any(), spread, start)
        steps = jnp.where(at_start, 0, jnp.where(values < most, values // 4, FAR))
        moves = jnp.where(at_start | (values >= most), STAY, values % 4)
        return steps, moves

    @cached_property
    def steps(self) -> Array:
        """[cells] The length of the own path to each floor cell."""
        return self.paths[0][0]

    @cached_property
    def others_steps(self) -> Array:
        """[cells] The length of the other cook's path to each floor cell."""
        return self.paths[0][1]

    @cached_property
    def first_moves(self) -> Array:
        """[cells] The first move of the own path to each floor cell."""
        return self.paths[1][0]

    @cached_property
    def reach(self) -> Array:
        """[cells] The length of the own path to the nearest neighbour of each cell."""
        around = [jnp.roll(self.steps, shift) for shift in self.shifts]
        return jnp.minimum(jnp.minimum(around[0], around[1]), jnp.minimum(around[2], around[3]))

    def reachable(self, mask: Array) -> Array:
        """The cells of a mask that have a reachable neighbour."""
        return mask & (self.reach < FAR)

    def near(self, mask: Array) -> tuple[Array, Array]:
        """Whether a cell of the mask can be reached, and the nearest; the first of equal ones."""
        ranked = jnp.where(self.reachable(mask), self.reach * self.cells + self.numbers, FAR**2)
        best = ranked.min()
        return best < FAR**2, best % self.cells

    def distance(self, mask: Array) -> Array:
        """The length of the path to the nearest reachable cell of the mask; FAR if none."""
        return jnp.where(mask, self.reach, FAR).min()

    def manhattan(self, one: Array | np.ndarray, other: Array) -> Array:
        """Rows and columns between cells."""
        rows = jnp.abs(one // self.width - other // self.width)
        return rows + jnp.abs(one % self.width - other % self.width)

    def to_other(self, cell: Array | np.ndarray) -> Array:
        """Rows and columns between a cell and the other cook; FAR if it is not known."""
        found = self.manhattan(cell, self.scene.other)
        return jnp.where(self.scene.other == UNKNOWN, FAR, found)

    def beside(self, mask: Array) -> Array:
        """Cells with a neighbour in the mask."""
        around = [jnp.roll(mask, shift) for shift in self.shifts]
        return around[0] | around[1] | around[2] | around[3]

    # --- rules ---

    def go(self, applies: Array, mask: Array) -> Rule:
        """To the nearest cell of the mask, to use it; does not apply if none can be reached."""
        found, cell = self.near(mask)
        return applies & found, Plan(GO, cell)

    def hover(self, applies: Array, mask: Array) -> Rule:
        """To the nearest cell of the mask, to face it; does not apply if none can be reached."""
        found, cell = self.near(mask)
        return applies & found, Plan(HOVER, cell)

    # --- moves ---

    @cached_property
    def next_cells(self) -> Array:
        """[4] Where the moves right, down, left, up lead, whether one can walk there or not."""
        return self.scene.cell + self.shifts

    @cached_property
    def free_moves(self) -> Array:
        """[4] bool: moves onto floor on which the other cook does not stand."""
        return self.floor[self.next_cells] & (self.next_cells != self.scene.other)

    def wander(self, into_others: bool) -> Array:
        """The first move onto free floor; if there is none, stay, or walk into the other cook."""
        action = first_of(self.free_moves)
        if into_others:
            taken = first_of(self.floor[self.next_cells])
            action = jnp.where(self.free_moves.any(), action, taken)
        return action

    def way(self, target: Array | int, preference: Array | int = 0) -> Way:
        """How to use a station. `preference` [cells]: tenths of a step that a side costs more."""
        other = self.scene.other
        sides = (jnp.asarray(target) + self.shifts[np.array([UP, DOWN, LEFT, RIGHT])]) % self.cells
        usable = self.floor[sides]
        cost = self.steps[sides] + jnp.where(sides == other, BLOCKED, 0)
        extra = jnp.broadcast_to(preference, (self.cells,))[sides]
        rank = jnp.where(usable & (cost < FAR), 10 * cost + extra, 10 * FAR)
        best = rank.argmin()
        turn = jnp.where(self.next_cells == target, np.arange(4), STAY).min()
        return Way(
            beside=turn < STAY,
            faced=(turn < STAY) & (jnp.asarray((*FACING, -1))[turn] == self.scene.facing),
            turn=turn,
            side=sides[best],
            cost=cost[best],
            sides=usable.sum(),
            step=jnp.where(rank[best] < 10 * FAR, self.first_moves[sides[best]], STAY),
        )

    def carry_out(self, plan: Plan, way: Way, step: Array, into_others: bool = False) -> Array:
        """The action of a plan, where `step` is the move on the way to its target."""
        how = jnp.asarray(plan.how)
        used = jnp.where(how == HOVER, STAY, INTERACT)
        travel = jnp.where(way.beside, jnp.where(way.faced, used, way.turn), step)
        moving = jnp.where(how == WANDER, self.wander(into_others), travel)
        return jnp.where(how < GO, how, moving).astype(jnp.int32)


def first_of(possible: Array) -> Array:
    """The first of the four moves that is possible, else STAY."""
    return jnp.where(possible, np.arange(4), STAY).min()


def contents(thing: Array, cells: int = 0) -> Array:
    """[types] How many of each ingredient a thing is made of; for several [types, cells]."""
    shifts = 2 + 2 * np.arange(MAX_INGREDIENTS)
    if cells:
        return (thing.reshape(1, cells) >> shifts[:, None]) & 3
    return (thing >> shifts) & 3


def is_dish(thing: Array) -> Array:
    """Whether a thing is a soup on a plate."""
    return thing & (PLATE | COOKED) == PLATE | COOKED


def lowest_type(thing: Array) -> Array:
    """The first ingredient of a thing; MAX_INGREDIENTS if it has none."""
    return first_type(contents(thing) > 0)


def first_type(wanted: Array) -> Array:
    """The first of the ingredients [types] that is wanted; MAX_INGREDIENTS if none is."""
    return jnp.where(wanted, np.arange(MAX_INGREDIENTS), MAX_INGREDIENTS).min()


def below(drawn: Array, limit: float) -> Array:
    """Whether a float32 number is below a decimal one, as if compared in double precision."""
    return drawn < single(limit, up=True)


def above(parameter: Array, limit: float, released: bool) -> Array:
    """Whether a parameter is above a limit.

    The release compares float32 parameters in double precision, where 0.1 is above 0.1.
    """
    if released:
        return parameter > single(limit, up=False)
    return parameter > np.float32(limit)


def single(limit: float, up: bool) -> np.float32:
    """The nearest float32 number that is not below the limit (`up`), or not above it."""
    near = np.float32(limit)
    if up and float(near) < limit:
        return np.nextafter(near, np.float32(np.inf))
    if not up and float(near) > limit:
        return np.nextafter(near, np.float32(-np.inf))
    return near

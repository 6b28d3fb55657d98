"""H2, territory: works in its part of the kitchen, or in one of five ways against its partner.

`decide` has the rules in their order. With `released` they are those of the public release, also
where these read what a cook cannot see.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Key
from brigade.envs.overcooked_v2.teammates.kitchen import (
    DOWN,
    LEFT,
    RIGHT,
    STAY,
    UP,
    WANDER,
    Decision,
    Kitchen,
    Plan,
    Rule,
    Way,
    above,
    below,
    first,
    first_of,
)
from brigade.envs.overcooked_v2.things import MAX_INGREDIENTS, PILE

RELEASED_TYPES = 4  # ingredients that the release looks at
NORMAL, BLOCKER, HOARDER, LAZY, COUNTER, INVADER = range(6)  # of behavior_mode
VERTICAL, HORIZONTAL, STATIONS = range(3)  # of split_mode
PATIENCE = 3  # decisions without a step, after which it wanders


class Territory(struct.PyTreeNode):
    """The parameters of H2."""

    split_mode: Array
    strictness: Array
    shared_margin: Array
    rescue_threshold: Array
    yield_bias: Array
    behavior_mode: Array
    action_probability: Array


class Stuck(struct.PyTreeNode):
    """The memory of H2."""

    last: Array  # its cell at the last decision, or -1
    count: Array  # decisions since it last moved


class Draws(struct.PyTreeNode):
    """The random number of a decision."""

    roll: Array


class Reach:
    """Which targets are within the territory."""

    def __init__(self, params: Territory, kitchen: Kitchen) -> None:
        self.kitchen = kitchen
        self.strict, self.wide = own_side(params, kitchen)
        urgency = jnp.minimum(kitchen.cooked.sum() / 2, 1.0)
        self.anywhere = (urgency > params.rescue_threshold) | (params.strictness <= 0.5)

    def __call__(self, mask: Array, fallback: bool = False) -> Array:
        """Those in the strict part; if there are none in the wide part; then, perhaps, all."""
        reachable = self.kitchen.reachable(mask)
        strict, wide = reachable & self.strict, reachable & self.wide
        rest = reachable if fallback else jnp.zeros_like(reachable)
        limited = jnp.where(strict.any(), strict, jnp.where(wide.any(), wide, rest))
        return jnp.where(self.anywhere, reachable, limited)


def start() -> Stuck:
    """The memory at the start of an episode."""
    return Stuck(jnp.int32(-1), jnp.int32(0))


def draw(key: Key, mood: Array) -> Draws:
    """Fresh noise."""
    return Draws(jax.random.uniform(key))


def draw_as_released(key: Array) -> tuple[Draws, Array]:
    """The release's noise from its key [2] uint32, and the next key [1, 2]."""
    after, now = jax.random.split(jax.random.wrap_key_data(key))
    return Draws(jax.random.uniform(now)), jax.random.key_data(after)[None]


def decide(
    params: Territory, memory: Stuck, kitchen: Kitchen, draws: Draws, released: bool
) -> Decision:
    """An action and the next memory."""
    plan = first(rules(params, memory, kitchen, draws, released))
    way = kitchen.way(plan.target)
    action = kitchen.carry_out(plan, way, step(params, kitchen, way, released), into_others=True)
    stood = (memory.last == kitchen.scene.cell) & (memory.last >= 0)
    return Decision(action, Stuck(kitchen.scene.cell, jnp.where(stood, memory.count + 1, 0)))


def rules(
    params: Territory, memory: Stuck, kitchen: Kitchen, draws: Draws, released: bool
) -> list[Rule]:
    """What it does; the first rule that applies decides."""
    k, roll, mode = kitchen, draws.roll, params.behavior_mode
    within, wander = Reach(params, kitchen), Plan(WANDER)
    hoards, counters = mode == HOARDER, mode == COUNTER
    some_cooked, some_open = k.cooked.any(), k.open_pots.any()
    needed = k.piles(k.missing(RELEASED_TYPES if released else MAX_INGREDIENTS) > 0)
    return [
        # 1: lazy.
        ((mode == LAZY) & (roll > params.action_probability), Plan(STAY)),
        # 2: blocks the middle.
        ((mode == BLOCKER) & below(roll, 0.7), Plan(STAY)),
        (mode == BLOCKER, Plan(to_the_middle(k))),
        # 3: hoards things on counters.
        k.go(hoards & k.held_dish, k.empty_counters),
        (hoards & k.held_dish, Plan(STAY)),
        k.go(hoards & k.held_ingredient & below(roll, 0.8), k.empty_counters),
        (hoards & k.held_plate & below(roll, 0.7), wander),
        # 4: does the opposite of what is needed.
        k.go(counters & k.held_dish, k.empty_counters),
        (counters & k.held_dish, Plan(STAY)),
        k.go(counters & k.empty & some_cooked, needed),
        # 6: stuck.
        (memory.count >= PATIENCE, wander),
        # 7: a soup is served.
        k.go(k.held_dish, within(k.serving, fallback=True)),
        (k.held_dish, wander),
        # 8: an ingredient goes into a pot.
        k.go(k.held_ingredient, within(k.open_pots, fallback=True)),
        k.go(k.held_ingredient, within(k.empty_counters, fallback=True)),
        (k.held_ingredient, wander),
        # 9: a plate takes a soup, or waits for one.
        k.go(k.held_plate, within(k.cooked)),
        k.hover(k.held_plate, within(k.cooking)),
        k.go(k.held_plate, within(k.empty_counters, fallback=True)),
        (k.held_plate, wander),
        # 10 to 12: empty hands fetch a plate, an ingredient, or a plate nevertheless.
        k.go(some_cooked, within(k.plate_piles)),
        *only_mended(k, within, released),
        k.go(some_open | ~k.cooking.any(), within(k.lone_ingredients)),
        k.go(some_open | ~k.cooking.any(), within(needed, fallback=True)),
        k.go(~k.at_a_loss, within(k.plate_piles)),
        (jnp.bool_(True), wander),
    ]


def only_mended(kitchen: Kitchen, within: Reach, released: bool) -> list[Rule]:
    """It starts full pots where they wait for a cook, and looks for a recipe it does not know."""
    if released:
        return []
    starts = kitchen.go(kitchen.empty, within(kitchen.full_pots))
    return [starts, kitchen.hover(kitchen.looks, kitchen.indicators)]


def step(params: Territory, kitchen: Kitchen, way: Way, released: bool) -> Array:
    """The move on its way: it stays, or gives way, where the other cook would be in it."""
    k, scene = kitchen, kitchen.scene
    second = scene.seat > 0
    contested = (way.sides == 1) & second & (k.others_steps[way.side] <= 1) & (way.cost <= 2)
    yields = contested & above(params.yield_bias, 0.1, released)
    after = scene.cell + jnp.asarray((*k.shifts, 0, 0))[way.step]
    moves, taken = way.step < STAY, after == scene.other
    gives_way = moves & taken & (second | above(params.yield_bias, 0.3, released))
    aside = first_of(k.free_moves & (np.arange(4) != way.step))
    return jnp.where(yields, STAY, jnp.where(gives_way, aside, way.step))


def to_the_middle(kitchen: Kitchen) -> Array:
    """A step towards the middle: sideways first; none where the kitchen is in the way."""
    height, width = kitchen.size
    down = height // 2 - kitchen.scene.cell // kitchen.width
    right = width // 2 - kitchen.scene.cell % kitchen.width
    sideways = jnp.where(right > 0, RIGHT, LEFT)
    upright = jnp.where(down > 0, DOWN, UP)
    move = jnp.where(right != 0, sideways, upright)
    possible = ((right != 0) | (down != 0)) & kitchen.floor[kitchen.next_cells[move]]
    return jnp.where(possible, move, STAY)


def own_side(params: Territory, kitchen: Kitchen) -> tuple[Array, Array]:
    """[cells] The strict territory and the wide one; an invader has the other seat's."""
    seat, margin = kitchen.scene.seat, params.shared_margin
    seat = jnp.where(params.behavior_mode == INVADER, 1 - seat, seat)
    height, width = kitchen.size
    columns = halves(kitchen.columns, width // 2, margin)
    rows = halves(kitchen.rows, height // 2, margin)
    stations = by_stations(kitchen, margin)
    empty_side = ~(stations[:, 0] & kitchen.floor).any(1)
    stations = jnp.where(empty_side.any(), columns, stations)
    modes = jnp.stack([columns, rows, stations])
    strict, wide = modes[params.split_mode, seat]
    return strict, wide


def halves(places: np.ndarray, middle: Array, margin: Array) -> Array:
    """[seats, (strict, wide), cells]: before the middle, and from it on."""
    before = jnp.stack([places < middle, places < middle + margin])
    after = jnp.stack([places >= middle, places >= middle - margin])
    return jnp.stack([before, after])


def by_stations(kitchen: Kitchen, margin: Array) -> Array:
    """[seats, (strict, wide), cells]: nearer to pots and piles, or to serving tiles and plates."""
    k = kitchen
    height, width = k.size
    cooks = k.pots | (k.tile >= PILE)
    serves = k.serving | k.plate_piles
    pots_row, pots_column = mean_place(k, cooks, height // 2, width // 4)
    plates_row, plates_column = mean_place(k, serves, height // 2, 3 * width // 4)
    rows, columns = jnp.asarray(k.rows), jnp.asarray(k.columns)
    with jax.enable_x64(True):  # constants stay int32: they are lowered outside of it
        rows, columns = rows.astype(np.float64), columns.astype(np.float64)
        near_pots = jnp.abs(rows - pots_row) + jnp.abs(columns - pots_column)
        near_plates = jnp.abs(rows - plates_row) + jnp.abs(columns - plates_column)
        more = 1.5 * margin.astype(np.float64)
        first_seat = [near_pots < near_plates, near_pots < near_plates + more]
        second_seat = [near_plates <= near_pots, near_plates < near_pots + more]
    return jnp.stack([jnp.stack(first_seat), jnp.stack(second_seat)])


def mean_place(kitchen: Kitchen, mask: Array, row: Array, column: Array) -> tuple[Array, Array]:
    """The mean row and column of a mask as float64; the given ones if it is empty."""
    number = mask.sum()
    totals = [jnp.where(mask, places, 0).sum() for places in (kitchen.rows, kitchen.columns)]
    with jax.enable_x64(True):
        counted = jnp.maximum(number, 1).astype(np.float64)
        means = [
            jnp.where(number > 0, total.astype(np.float64) / counted, other.astype(np.float64))
            for total, other in zip(totals, (row, column), strict=True)
        ]
    return means[0], means[1]

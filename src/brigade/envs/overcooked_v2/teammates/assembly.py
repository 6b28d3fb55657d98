"""H3, assembly line: runs ingredients to pots, or plates and serves soups, or what is needed.

`decide` has the rules in their order. With `released` they are those of the public release, also
where these read what a cook cannot see or ignore a parameter.
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
    contents,
    first,
    first_of,
    is_dish,
    lowest_type,
)
from brigade.envs.overcooked_v2.things import MAX_INGREDIENTS, PLATE, is_ingredient

RELEASED_TYPES = 4  # ingredients that the release looks at
RUNNER, PLATER, FLEXIBLE = range(3)  # of role_mode
BY_POTS, CENTRAL, BY_OTHER = range(3)  # of handoff_style
# Moves away from the other cook on the right, below, on the left, above: back, then aside.
AWAY = ((LEFT, DOWN, UP), (UP, RIGHT, LEFT), (RIGHT, DOWN, UP), (DOWN, RIGHT, LEFT))


class Assembly(struct.PyTreeNode):
    """The parameters of H3."""

    role_mode: Array
    handoff_style: Array
    plate_urgency: Array
    prestage_bias: Array
    start_cook_bias: Array
    hesitation_prob: Array
    wrong_action_prob: Array
    task_abandon_prob: Array
    stubbornness: Array
    timing_mismatch: Array


class Draws(struct.PyTreeNode):
    """The random numbers of a decision; not all are used."""

    hesitate: Array
    wrong: Array
    abandon: Array
    timing: Array
    wrong_action: Array  # a move
    stubborn: Array
    stubborn_after_wrong: Array  # instead, if the wrong move was taken
    prestage: Array  # stays for some steps; not in the release


def start() -> tuple[()]:
    """The memory at the start of an episode: none."""
    return ()


def draw(key: Key, mood: Array) -> Draws:
    """Fresh noise."""
    move_key, key = jax.random.split(key)
    numbers = jax.random.uniform(key, (5,))
    move = jax.random.randint(move_key, (), 0, 4)
    hesitate, wrong, abandon, timing, stubborn = numbers
    return Draws(hesitate, wrong, abandon, timing, move, stubborn, stubborn, mood[0])


def draw_as_released(key: Array) -> tuple[Draws, Array]:
    """The release's noise from its key [2] uint32, and the next keys [branches, 2]."""
    split, uniform = jax.random.split, jax.random.uniform
    now = jax.random.wrap_key_data(key)
    after, *others = split(now, 5)
    hesitate, wrong, abandon, timing = (uniform(each) for each in others)
    after_wrong, move_key = split(after)
    stubborn_next, stubborn_key = split(after)
    both_next, both_key = split(after_wrong)
    draws = Draws(
        hesitate,
        wrong,
        abandon,
        timing,
        jax.random.randint(move_key, (), 0, 4),
        uniform(stubborn_key),
        uniform(both_key),
        jnp.float32(1.0),
    )
    keys = [after, after_wrong, stubborn_next, both_next, split(now)[0]]
    return draws, jnp.stack([jax.random.key_data(each) for each in keys])


def decide(
    params: Assembly, memory: tuple[()], kitchen: Kitchen, draws: Draws, released: bool
) -> Decision:
    """An action."""
    before = rules_before_role(params, kitchen, draws, released)
    wrong = draws.wrong < params.wrong_action_prob
    stubborn = kitchen.empty & (params.stubbornness > 0)
    plan = first(
        [
            *before,
            *overrides(params, kitchen, draws, wrong, stubborn),
            *rules_of_role(params, kitchen, draws, released),
        ]
    )
    way = kitchen.way(plan.target)
    action = kitchen.carry_out(plan, way, step(kitchen, way))
    decided_before = jnp.stack([applies for applies, _ in before])
    branch = jnp.where(decided_before[2:].any(), 4, wrong + 2 * stubborn)
    branch = jnp.where(decided_before[:2].any(), 0, branch)
    return Decision(action, memory, branch)


def rules_before_role(
    params: Assembly, kitchen: Kitchen, draws: Draws, released: bool
) -> list[Rule]:
    """Rules 1 to 5, which come before those of a role."""
    k, scene = kitchen, kitchen.scene
    some_cooked = k.cooked.any()
    with jax.enable_x64(True):
        column, row = scene.cell % k.width, scene.cell // k.width
        share = ((7 * column + 13 * row) % 10).astype(np.float64) / 10
        mismatch = params.timing_mismatch.astype(np.float64) * share
        mistimed = draws.timing.astype(np.float64) < mismatch
    other_holds = is_ingredient(scene.other_held) | is_dish(scene.other_held)
    other_holds |= scene.other_held == PLATE
    yields = (scene.seat > 0) & k.empty & other_holds & (k.to_other(scene.cell) == 1)
    return [
        # 1, 2: it hesitates, or its timing is off on this cell.
        (draws.hesitate < params.hesitation_prob, Plan(STAY)),
        (mistimed, Plan(STAY)),
        # 3: a soup is served.
        k.go(k.held_dish, k.serving),
        (k.held_dish, Plan(WANDER)),
        # 4: where a soup waits for a plate, an ingredient is put down.
        k.go(k.held_ingredient & some_cooked, k.empty_counters),
        (k.held_ingredient & some_cooked, Plan(WANDER)),
        # 5: it makes room for a cook that carries something.
        (yields, Plan(step_away(k))),
    ]


def overrides(
    params: Assembly, kitchen: Kitchen, draws: Draws, wrong: Array, stubborn: Array
) -> list[Rule]:
    """Rule 7: what takes the place of a role's decision."""
    k, scene = kitchen, kitchen.scene
    height, width = k.size
    corner = (3 * scene.seat) % height * k.width + (5 * scene.seat) % width
    roll = jnp.where(wrong, draws.stubborn_after_wrong, draws.stubborn)
    insists = stubborn & (roll < params.stubbornness) & (k.manhattan(scene.cell, corner) > 2)
    abandons = (draws.abandon < params.task_abandon_prob) & ~k.empty
    return [
        (insists & k.floor[corner], Plan(k.first_moves[corner])),
        (wrong, Plan(draws.wrong_action)),
        k.go(abandons, k.empty_counters),
    ]


def rules_of_role(params: Assembly, kitchen: Kitchen, draws: Draws, released: bool) -> list[Rule]:
    """Rule 6: what a runner or a plater does."""
    k = kitchen
    soon = k.cooked.any() | (k.cooking.any() & (params.plate_urgency > 0.5))
    flexible = jnp.where(soon, PLATER, RUNNER)
    role = jnp.where(params.role_mode == FLEXIBLE, flexible, params.role_mode)
    runs, plates = role == RUNNER, role == PLATER
    runs_plate, runs_food, runs_empty = (
        runs & k.held_plate,
        runs & k.held_ingredient,
        runs & k.empty,
    )
    has_plate, has_food, plates_empty = plates & k.held_plate, plates & k.held_ingredient, k.empty
    needed = needed_piles(k, released)
    early, late = only_mended(params, k, draws, runs_empty, needed, released)
    wander, always = Plan(WANDER), jnp.bool_(True)
    return [
        # A runner: puts a plate down; brings ingredients to pots or hands them over; fetches.
        k.go(runs_plate, k.empty_counters),
        (runs_plate, wander),
        k.go(runs_food, k.open_pots),
        k.go(runs_food, handoff(params, k)),
        (runs_food, wander),
        *early,
        k.go(runs_empty, needed),
        *late,
        k.hover(runs_empty, k.pots),
        k.hover(runs_empty, k.buttons),
        k.hover(runs_empty, k.indicators),
        (runs, wander),
        # A plater: takes soups, or waits for one; puts an ingredient down; fetches plates.
        k.go(has_plate, k.cooked),
        k.hover(has_plate, k.busy_pots),
        k.hover(has_plate, k.pots),
        k.hover(has_plate, k.buttons),
        (has_plate, wander),
        k.go(has_food, k.empty_counters),
        (has_food, wander),
        k.go(plates_empty, k.plate_piles),
        k.hover(plates_empty, k.busy_pots),
        k.hover(plates_empty, k.buttons),
        k.hover(plates_empty, k.indicators),
        (always, wander),
    ]


def needed_piles(kitchen: Kitchen, released: bool) -> Array:
    """Piles of what is missing from pots and hands; where it can cook, also what was staged."""
    k = kitchen
    types = RELEASED_TYPES if released else MAX_INGREDIENTS
    hands = jnp.stack([k.scene.held, k.scene.other_held])
    carried = is_ingredient(hands)[:, None] & (
        jnp.stack([lowest_type(hands[0]), lowest_type(hands[1])])[:, None]
        == np.arange(MAX_INGREDIENTS)
    )
    missing = k.missing(types, carried.sum(0)) > 0
    if released:
        return k.piles(missing)
    lying = (contents(k.scene.thing, k.cells) > 0) & missing[:, None]
    staged = k.lone_ingredients & lying.any(0) & k.reachable(k.open_pots).any()
    return k.piles(missing) | staged


def only_mended(
    params: Assembly, kitchen: Kitchen, draws: Draws, runs: Array, needed: Array, released: bool
) -> tuple[list[Rule], list[Rule]]:
    """What a runner with empty hands does before it fetches what is needed, and after.

    It starts full pots that wait for a cook, first if `start_cook_bias` is above 0.5; it looks for
    a recipe it does not know; and it stages ingredients of the recipe ahead of time.
    """
    if released:
        return [], []
    k = kitchen
    starts_first = params.start_cook_bias > 0.5
    prestages = runs & (draws.prestage < params.prestage_bias) & ~k.reachable(needed).any()
    of_recipe = k.piles(contents(k.scene.recipe) > 0)
    early = [
        k.go(runs & starts_first, k.full_pots),
        k.hover(runs & k.looks, k.indicators),
    ]
    return early, [k.go(runs, k.full_pots), k.go(prestages, of_recipe)]


def handoff(params: Assembly, kitchen: Kitchen) -> Array:
    """The empty counters on which it hands things over."""
    k = kitchen
    free = k.empty_counters
    number = jnp.maximum(k.floor.sum(), 1)
    middle = jnp.where(k.floor, k.rows, 0).sum() // number * k.width
    middle += jnp.where(k.floor, k.columns, 0).sum() // number
    by_pots = free & k.beside(k.pots)
    by_pots = jnp.where(by_pots.any(), by_pots, free)
    central = free & (k.manhattan(k.numbers, middle) <= 3)
    central = jnp.where(central.any(), central, free)
    by_other = free & (k.to_other(k.numbers) <= 2)
    by_other = jnp.where(by_other.any(), by_other, by_pots)
    return jnp.stack([by_pots, central, by_other])[params.handoff_style]


def step_away(kitchen: Kitchen) -> Array:
    """A move away from the other cook next to it, or aside."""
    where = first_of(kitchen.next_cells == kitchen.scene.other)
    moves = jnp.asarray(AWAY)[jnp.minimum(where, UP)]
    free = kitchen.free_moves[moves]
    return jnp.where(free.any(), moves[free.argmax()], STAY)


def step(kitchen: Kitchen, way: Way) -> Array:
    """The move on its way; the second cook waits where the first is in it or could come."""
    k, scene = kitchen, kitchen.scene
    after = scene.cell + jnp.asarray((*k.shifts, 0, 0))[way.step]
    one_side = (way.sides == 1) & (k.others_steps[way.side] == 1) & (k.steps[way.side] == 1)
    in_the_way = (after == scene.other) | (k.others_steps[after] == 1) | one_side
    waits = (scene.seat > 0) & (way.step < STAY) & in_the_way
    return jnp.where(waits, STAY, way.step)

"""H1, recipe-aware: cooks by the recipe it knows, and finds it out if it has to.

`decide` has the rules in their order. With `released` they are those of the public release, also
where these read what a cook cannot see or ignore a parameter.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Key
from brigade.envs.overcooked_v2.teammates.cramped import (
    avoid,
    is_cramped,
    step,
    tenths,
    yield_at,
)
from brigade.envs.overcooked_v2.teammates.kitchen import (
    FAR,
    GO,
    HOVER,
    STAY,
    WANDER,
    Decision,
    Kitchen,
    Plan,
    Rule,
    contents,
    first,
    first_type,
    is_dish,
    lowest_type,
)
from brigade.envs.overcooked_v2.things import COOK_TIME, MAX_INGREDIENTS, NOTHING, PILE, PLATE

RELEASED_TYPES = 3  # ingredients that the release looks at
NEVER = -1000  # when the recipe was seen, if it was not
NO_INTENT, PRESSED = -1, 5  # the second only in the release, where nothing reads it
OTHER, CARRIES, PRESSES, FETCHES = range(4)  # kinds of rules
# By the steps that a pot still cooks; rounded as the release does.
URGENCY = (1 - np.arange(COOK_TIME + 1) / COOK_TIME).astype(np.float32)


class Recipe(struct.PyTreeNode):
    """The parameters of H1."""

    press_L_when_unknown: Array
    refresh_interval: Array
    cost_sensitivity: Array
    strict_recipe: Array
    exploration_bias: Array
    plate_timing: Array
    dist_weight: Array
    inertia: Array
    task_specialization: Array
    stubbornness: Array
    wrong_ingredient_prob: Array
    idle_prob: Array
    path_blocking: Array


class Known(struct.PyTreeNode):
    """The memory of H1."""

    recipe: Array  # contents; 0: not known
    seen: Array  # when
    intent: Array  # the ingredient it fetched last, or -1; in the release, whether it pressed


class Draws(struct.PyTreeNode):
    """The random numbers of a decision; the last three stay for some steps."""

    idle: Array
    wrong: Array
    block: Array
    press: Array
    explore: Array  # not in the release
    stubborn: Array  # not in the release
    move: Array  # a move, to explore


def start() -> Known:
    """The memory at the start of an episode."""
    return Known(jnp.int32(0), jnp.int32(NEVER), jnp.int32(NO_INTENT))


def draw(key: Key, mood: Array) -> Draws:
    """Fresh noise; `mood` has numbers that stay for some steps."""
    move_key, key = jax.random.split(key)
    idle, wrong, block = jax.random.uniform(key, (3,))
    press, explore, stubborn = mood
    move = jax.random.randint(move_key, (), 0, 4)
    return Draws(idle, wrong, block, press, explore, stubborn, move)


def draw_as_released(key: Array) -> tuple[Draws, Array]:
    """The release's noise from its key [2] uint32, and the next keys [branches, 2]."""
    split, uniform = jax.random.split, jax.random.uniform
    now = jax.random.wrap_key_data(key)
    after, *others = split(now, 4)
    after_plate, press_key = split(now)
    idle, wrong, block = (uniform(each) for each in others)
    never = jnp.float32(1.0)
    draws = Draws(idle, wrong, block, uniform(press_key), never, never, jnp.int32(0))
    keys = [after, split(after)[0], after_plate]
    return draws, jnp.stack([jax.random.key_data(each) for each in keys])


def decide(
    params: Recipe, memory: Known, kitchen: Kitchen, draws: Draws, released: bool
) -> Decision:
    """An action and the next memory."""
    k, scene = kitchen, kitchen.scene
    known = Known(
        jnp.where(scene.shown | (not released), scene.recipe, memory.recipe),
        jnp.where(scene.shown, scene.time, memory.seen),
        memory.intent,
    )
    kind = fetched_type(params, known, k, released)
    goes_wrong = (draws.wrong < params.wrong_ingredient_prob) & (num_ingredients(k) > 1)
    plan = first(
        [
            *because(OTHER, dish_rules(params, k, draws)),
            *because(CARRIES, plate_rules(k)),
            *because(CARRIES, ingredient_rules(known, k, draws, params, released)),
            *because(PRESSES, query_rules(params, known, k, draws, released)),
            *because(OTHER, waiting_rules(params, k, draws)),
            *because(FETCHES, fetch_rules(k, kind, goes_wrong)),
            *because(FETCHES, idle_rules(params, k, draws, released)),
        ]
    )
    way = k.way(plan.target, preference=tenths(k))
    on_its_way = step(k, way, jnp.where(plan.how == HOVER, NOTHING, scene.held))
    if not released:
        on_its_way = jnp.where(draws.stubborn < params.stubbornness, way.step, on_its_way)
    action = k.carry_out(plan, way, on_its_way)
    if released:
        intent = jnp.where(plan.why == PRESSES, PRESSED, NO_INTENT)
    else:
        fetches = (plan.why == FETCHES) & ~goes_wrong & (plan.how == GO)
        intent = jnp.where(fetches, kind, memory.intent)
    late = jnp.where((plan.why == FETCHES) & goes_wrong, 1, 0)
    branch = jnp.where((plan.why == CARRIES) | (plan.why == PRESSES), 2, late)
    return Decision(action, known.replace(intent=intent), branch)


def because(why: int, rules: list[Rule]) -> list[Rule]:
    """The rules with their kind."""
    return [(applies, plan._replace(why=why)) for applies, plan in rules]


def specialists(params: Recipe, kitchen: Kitchen) -> tuple[Array, Array]:
    """Whether it is a specialist on the first seat, who cooks, or the second, who serves."""
    specialist = params.task_specialization > 0.5
    return specialist & (kitchen.scene.seat == 0), specialist & (kitchen.scene.seat > 0)


def dish_rules(params: Recipe, kitchen: Kitchen, draws: Draws) -> list[Rule]:
    """Rules 1 and 2: it is idle; or it serves a soup, or leaves that to the other cook."""
    k = kitchen
    cooks, _ = specialists(params, k)
    return [
        (draws.idle < params.idle_prob, Plan(STAY)),
        k.go(k.held_dish & cooks, k.empty_counters),
        k.go(k.held_dish, k.serving),
        (k.held_dish, Plan(WANDER)),
    ]


def plate_rules(kitchen: Kitchen) -> list[Rule]:
    """Rule 3: a plate takes a soup; in a cramped kitchen it lets the other cook serve first."""
    k = kitchen
    lets_serve = k.held_plate & is_cramped(k) & is_dish(k.scene.other_held)
    return [
        k.go(k.held_plate, k.cooked),
        (lets_serve, Plan(avoid(k))),
        k.hover(k.held_plate, k.busy_pots),
        (k.held_plate, Plan(WANDER)),
    ]


def ingredient_rules(
    known: Known, kitchen: Kitchen, draws: Draws, params: Recipe, released: bool
) -> list[Rule]:
    """Rule 4: an ingredient goes into a pot that misses it, else into any open one."""
    k = kitchen
    kind, types = lowest_type(k.scene.held), known_types(released)
    missing = missing_by_pot(known, k)[jnp.minimum(kind, MAX_INGREDIENTS - 1)] > 0
    fitting = k.open_pots & (missing | (kind >= types))
    pots = jnp.where(fitting.any(), fitting, k.open_pots)
    found, target = k.near(pots)
    yields, aside = yield_at(k, target)
    if not released:
        yields &= draws.stubborn >= params.stubbornness
    holds = k.held_ingredient
    return [
        (holds & found & yields, Plan(aside)),
        (holds & found, Plan(GO, target)),
        k.go(holds, k.empty_counters),
        (holds, Plan(WANDER)),
    ]


def query_rules(
    params: Recipe, known: Known, kitchen: Kitchen, draws: Draws, released: bool
) -> list[Rule]:
    """Rule 5: it presses a button for a recipe that is unknown or stale, or looks where it is."""
    k = kitchen
    stale = k.scene.time - known.seen > params.refresh_interval
    asks = ((known.recipe == 0) | stale) & ~k.lit
    asks &= draws.press < params.press_L_when_unknown * (1 - params.cost_sensitivity)
    press = k.go(asks, k.buttons)
    if released:
        return [press]
    return [k.go(k.empty, k.full_pots), k.hover(asks, k.indicators), press]


def waiting_rules(params: Recipe, kitchen: Kitchen, draws: Draws) -> list[Rule]:
    """Rules 6 to 8: it fetches a plate in time; waits as a specialist; stands in the way."""
    k, scene = kitchen, kitchen.scene
    cooks, serves = specialists(params, k)
    left = jnp.where(k.cooking, k.scene.timer, COOK_TIME).min()
    urgency = jnp.where(k.cooked.any(), 1.0, jnp.asarray(URGENCY)[left])
    in_time = (urgency >= 1 - params.plate_timing) | serves
    plate = jnp.where(k.plate_piles, k.numbers, k.cells).min()
    one_side = k.floor[(plate + k.shifts) % k.cells].sum() <= 1
    carries = (scene.other_held == PLATE) | is_dish(scene.other_held)
    left_to_other = is_cramped(k) & (scene.seat > 0) & one_side & ~carries
    critical = k.reachable(k.floor & k.beside(k.pots | k.serving))
    steps = jnp.where(critical, k.steps * k.cells + k.numbers, FAR * k.cells)
    to_critical = jnp.where(steps.min() < FAR * k.cells, k.first_moves[steps.min() % k.cells], STAY)
    in_the_way = jnp.where(critical[scene.cell], STAY, to_critical)
    blocks = (draws.block < params.path_blocking) & critical.any()
    return [
        k.go(in_time & ~cooks & ~left_to_other, k.plate_piles),
        k.hover(serves, k.pots),
        (serves, Plan(WANDER)),
        (blocks, Plan(in_the_way)),
    ]


def fetch_rules(kitchen: Kitchen, kind: Array, goes_wrong: Array) -> list[Rule]:
    """Rules 9 and 10: it fetches a wrong ingredient, or the one it should."""
    k = kitchen
    wrong = (kind + 1) % jnp.maximum(num_ingredients(k), 1)
    return [
        k.go(goes_wrong, k.tile == PILE + wrong),
        k.go(kind >= 0, k.tile == PILE + kind),
    ]


def idle_rules(params: Recipe, kitchen: Kitchen, draws: Draws, released: bool) -> list[Rule]:
    """Rule 11: it waits at a pot; or explores."""
    k = kitchen
    waits = [k.hover(jnp.bool_(True), k.pots), (jnp.bool_(True), Plan(WANDER))]
    if released:
        return waits
    move = jnp.where(k.free_moves[draws.move], draws.move, STAY)
    return [(draws.explore < params.exploration_bias, Plan(move)), *waits]


def fetched_type(params: Recipe, known: Known, kitchen: Kitchen, released: bool) -> Array:
    """The ingredient that rule 10 fetches, or -1."""
    k = kitchen
    is_known = known.recipe != 0
    second = is_cramped(k) & (k.scene.seat > 0)
    missing = missing_by_pot(known, k).sum(1) * (np.arange(MAX_INGREDIENTS) < known_types(released))
    lowest = first_type(missing > 0)
    if released:
        other = first_type((missing > 0) & (np.arange(MAX_INGREDIENTS) > lowest))
        wanted = jnp.where(second & (other < MAX_INGREDIENTS), other, lowest)
    else:
        wanted = jnp.where(lowest < MAX_INGREDIENTS, best_type(params, known, k, missing), lowest)
    wanted = jnp.where(wanted < MAX_INGREDIENTS, wanted, -1)
    guessed = jnp.where(params.strict_recipe >= 0.5, -1, jnp.where(second, 1, 0))
    return jnp.minimum(jnp.where(is_known, wanted, guessed), num_ingredients(k) - 1)


def best_type(params: Recipe, known: Known, kitchen: Kitchen, missing: Array) -> Array:
    """The missing ingredient with the best balance of need, distance and what it fetched last."""
    k, types = kitchen, np.arange(MAX_INGREDIENTS)
    steps = jnp.where(k.tile == PILE + types[:, None], k.reach, FAR).min(1)
    score = missing - params.dist_weight * steps + params.inertia * (types == known.intent)
    return jnp.where((missing > 0) & (steps < FAR), score, -jnp.inf).argmax()


def missing_by_pot(known: Known, kitchen: Kitchen) -> Array:
    """[types, cells] How many of each ingredient of the recipe the open pots miss."""
    wanted = contents(known.recipe)[:, None]
    missing = jnp.maximum(wanted - contents(kitchen.scene.thing, kitchen.cells), 0)
    return jnp.where(kitchen.open_pots, missing, 0)


def known_types(released: bool) -> int:
    """The ingredients that it tells apart."""
    return RELEASED_TYPES if released else MAX_INGREDIENTS


def num_ingredients(kitchen: Kitchen) -> Array:
    """One more than the highest pile."""
    return jnp.maximum(kitchen.tile - PILE + 1, 0).max()

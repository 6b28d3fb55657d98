"""H4, utility-greedy: scores every intent by its value and its distance, and follows the best.

`decide` has the rules in their order. With `released` they are those of the public release, also
where these read what a cook cannot see or ignore a parameter.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Key
from brigade.envs.overcooked_v2.teammates.kitchen import (
    FAR,
    GO,
    HOVER,
    STAY,
    WANDER,
    Decision,
    Kitchen,
    Plan,
    contents,
)
from brigade.envs.overcooked_v2.things import MAX_INGREDIENTS

RELEASED_TYPES = 4  # ingredients that the release looks at
(DELIVER, PICKUP, PLATE, ADD, FETCH, STAGE, START, PRESS), INTENTS = range(8), 8
NO_INTENT = -1


class Utility(struct.PyTreeNode):
    """The parameters of H4."""

    w_deliver: Array
    w_pickup_cooked: Array
    w_get_plate: Array
    w_add_ingredient: Array
    w_fetch_ingredient: Array
    w_stage_on_counter: Array
    w_start_cooking: Array
    w_press_L: Array
    dist_weight: Array
    inertia: Array
    counter_preference: Array

    @property
    def weights(self) -> Array:
        """[intents] In the order of the intents."""
        return jnp.stack(
            [
                self.w_deliver,
                self.w_pickup_cooked,
                self.w_get_plate,
                self.w_add_ingredient,
                self.w_fetch_ingredient,
                self.w_stage_on_counter,
                self.w_start_cooking,
                self.w_press_L,
            ]
        )


class Intention(struct.PyTreeNode):
    """The memory of H4."""

    intent: Array  # the last one, or NO_INTENT
    wait: Array  # steps in which it still waits


class Draws(struct.PyTreeNode):
    """The random number of a decision."""

    percent: Array  # 0 to 99


class Options(NamedTuple):
    """What each intent would do."""

    possible: Array  # [intents] bool
    masks: Array  # [intents, cells] where
    values: Array  # [intents] float64
    counted: Array  # [intents] bool: whether the value depends on a number of pots


def start() -> Intention:
    """The memory at the start of an episode."""
    return Intention(jnp.int32(NO_INTENT), jnp.int32(0))


def draw(key: Key, mood: Array) -> Draws:
    """Fresh noise."""
    return Draws(jax.random.randint(key, (), 0, 100))


def draw_as_released(key: Array) -> tuple[Draws, Array]:
    """The release's noise from its key [2] uint32, and the next key [1, 2]."""
    after = jax.random.key_data(jax.random.split(jax.random.wrap_key_data(key))[0])
    return Draws((key[0] % 100).astype(jnp.int32)), after[None]


def decide(
    params: Utility, memory: Intention, kitchen: Kitchen, draws: Draws, released: bool
) -> Decision:
    """An action, the next memory, and the scores of the intents."""
    scores = scores_of(params, memory, kitchen, released)
    # 2, 3: the best intent, the first of equal ones; without any it wanders.
    intent = jnp.where((scores > -jnp.inf).any(), scores.argmax(), NO_INTENT).astype(jnp.int32)
    masks = options(params, kitchen, released).masks
    _, target = kitchen.near(masks[jnp.maximum(intent, 0)])
    # 4: a soup that is not ready yet is waited for.
    waits_at_pot = (intent == PICKUP) & ~kitchen.reachable(kitchen.cooked).any()
    how = jnp.where(intent == NO_INTENT, WANDER, jnp.where(waits_at_pot, HOVER, GO))
    way = kitchen.way(target)
    action = kitchen.carry_out(Plan(how, target), way, way.step)
    # 5: where the other cook is close it waits a little, with a probability by seat.
    moves = action < STAY
    after = kitchen.scene.cell + jnp.asarray((*kitchen.shifts, 0, 0))[action]
    contested = moves & (kitchen.to_other(after) <= 1)
    contested &= draws.percent < 20 + 20 * kitchen.scene.seat
    action = jnp.where(contested, STAY, action)
    wait = jnp.where(contested, 1 + draws.percent % 2, 0)
    # 1: it waits on.
    waiting = memory.wait > 0
    after_waiting = Intention(memory.intent, memory.wait - 1)
    chosen = Intention(intent, wait)
    next_memory = jax.tree.map(lambda a, b: jnp.where(waiting, a, b), after_waiting, chosen)
    return Decision(jnp.where(waiting, STAY, action), next_memory, scores=scores)


def scores_of(params: Utility, memory: Intention, kitchen: Kitchen, released: bool) -> Array:
    """[intents] float32; -inf where an intent is not possible.

    Rounded as in the release: single precision, but double where a number of pots is a factor.
    """
    found = options(params, kitchen, released)
    steps = jnp.where(found.masks, kitchen.reach, FAR).min(-1)
    looks = kitchen.looks & (np.arange(INTENTS) == PRESS)
    weights = jnp.where(looks, params.w_fetch_ingredient, params.weights)
    with jax.enable_x64(True):
        weights, far = weights.astype(np.float64), params.dist_weight.astype(np.float64)
        value = jnp.where(found.counted, found.values, rounded(found.values))
        worth = weights * value
        worth = jnp.where(found.counted, worth, rounded(worth))
        score = (worth - rounded(far * steps.astype(np.float64))).astype(np.float32)
    score = jnp.where(found.possible & (steps < FAR), score, -jnp.inf)
    return score + jnp.where(np.arange(INTENTS) == memory.intent, 2 * params.inertia, 0.0)


def rounded(number: Array) -> Array:
    """A double with the precision of a single."""
    return jax.lax.reduce_precision(number, 8, 23)


def options(params: Utility, kitchen: Kitchen, released: bool) -> Options:
    """Which intents are possible, where, and what they are worth."""
    k, scene = kitchen, kitchen.scene
    types = RELEASED_TYPES if released else MAX_INGREDIENTS
    cooking, cooked = k.cooking.sum(), k.cooked.sum()
    opened, most = k.open_pots.sum(), k.in_pots.max()
    active, is_open = cooking + cooked > 0, opened > 0
    some_cooked = k.reachable(k.cooked).any()
    some_open = k.reachable(k.open_pots).any()
    some_counter = k.reachable(k.empty_counters).any()
    in_recipe = (contents(scene.recipe) > 0) & (np.arange(MAX_INGREDIENTS) < types)
    needed = k.piles(k.missing(types) > 0)
    some_needed = k.reachable(needed).any()
    by_pots = k.empty_counters & k.beside(k.pots)
    prefers_pots = by_pots.any() & (params.counter_preference > 0.5)
    stages = (k.held_ingredient & ~some_open) | (k.held_plate & ~active & ~is_open)
    if released:
        starts, asks = jnp.bool_(False), k.empty & (params.w_press_L > 0)
    else:  # it looks at an indicator that it can reach rather than press a button, which costs
        starts = k.empty
        asks = k.empty & (scene.recipe == 0) & (k.looks | (params.w_press_L > 0))
    possible = jnp.stack(
        [
            k.held_dish,
            k.held_plate,
            k.empty & ~k.at_a_loss,
            k.held_ingredient,
            k.empty & (some_open | some_counter) & needed.any() & ~k.looks,
            stages,
            starts,
            asks & ~k.lit,
        ]
    )
    masks = jnp.stack(
        [
            k.serving,
            jnp.where(some_cooked, k.cooked, k.cooking),
            k.plate_piles,
            k.open_pots,
            jnp.where(some_needed, needed, k.piles(in_recipe)),
            jnp.where(prefers_pots, by_pots, k.empty_counters),
            k.full_pots,
            jnp.where(k.looks, k.indicators, k.buttons),
        ]
    )
    with jax.enable_x64(True):
        cooking, cooked, opened = (x.astype(np.float64) for x in (cooking, cooked, opened))
        soup = 1 + 0.5 * cooked
        plate = jnp.where(active, 1 + 0.3 * cooking + 0.5 * cooked, jnp.where(is_open, 0.2, 0.8))
        fetch = jnp.where(some_open, 1 + 0.2 * opened, 0.8)
        fetch_more = jnp.where(some_open, 0.4 + 0.05 * opened, 0.15)
        values = jnp.stack(
            [
                soup,
                jnp.where(some_cooked, soup, 1.5),
                plate,
                1 + 0.2 * (3 - most.astype(np.float64)),
                jnp.where(some_needed, fetch, fetch_more),
                0.5 + 0.1 * opened,
                jnp.float64(1.0),
                jnp.float64(1.0),
            ]
        )
    counts = (True, some_cooked, active, True, some_open, True, False, False)
    counted = jnp.stack([jnp.asarray(each) for each in counts])
    return Options(possible, masks, values, counted)

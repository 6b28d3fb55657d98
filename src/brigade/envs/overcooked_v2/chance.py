"""What is sampled: recipes, starts, and things that lie around."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from brigade.core import Array, Key
from brigade.envs.overcooked_v2.rules import State
from brigade.envs.overcooked_v2.tasks import Task
from brigade.envs.overcooked_v2.things import (
    COOK_TIME,
    COOKED,
    COUNTER,
    NOTHING,
    PILE,
    PLATE,
    POT,
    POT_SIZE,
)

# How often at the start: nothing, a plate, an ingredient, a soup; and for pots: as they are,
# waiting, cooking, ready.
HANDS, COUNTERS, POTS = (0.5, 0.1, 0.25, 0.15), (0.5, 0.1, 0.3, 0.1), (0.4, 0.35, 0.15, 0.1)


def recipe(key: Key, task: Task) -> Array:
    """One of the kitchen's recipes."""
    # The remainder of 32 random bits: half the work of `randint`, and even to one in a million.
    return task.recipes[jax.random.bits(key, (), jnp.uint32) % task.num_recipes.astype(jnp.uint32)]


def starts(key: Key, task: Task) -> tuple[Array, Array]:
    """Cells and facings: anywhere in the room of each start, one cook per cell."""
    cell_key, facing_key = jax.random.split(key)
    order = jax.random.uniform(cell_key, (len(task.start), task.room.size))
    free, cells = jnp.ones(task.room.size, bool), []
    for seat, start in enumerate(task.start):
        allowed = free & (task.room == task.room[start])
        cell = jnp.where(allowed, order[seat], -1.0).argmax()
        free = free.at[cell].set(False)
        cells.append(cell)
    facing = jax.random.randint(facing_key, (len(cells),), 0, 4)
    return jnp.stack(cells).astype(jnp.int32), facing


def things(key: Key, state: State, task: Task, waits: bool) -> State:
    """The state with things in hands, in pots and on counters; full pots cook, if none `waits`."""
    hand_key, counter_key, pot_key = jax.random.split(key, 3)
    tiles, cells = task.tile.reshape(-1), task.tile.size
    ingredients = jnp.maximum(tiles.max() - PILE + 1, 1)
    held = any_thing(hand_key, len(task.start), HANDS, task, ingredients)
    lying = any_thing(counter_key, cells, COUNTERS, task, ingredients)
    kind_key, what_key, number_key, time_key = jax.random.split(pot_key, 4)
    numbers = jax.random.randint(what_key, (cells, POT_SIZE), 0, ingredients)
    each = 4 << 2 * numbers
    some = jnp.arange(POT_SIZE) < jax.random.randint(number_key, (cells, 1), 1, POT_SIZE + 1)
    part, whole = (each * some).sum(1), each.sum(1)
    cooking = part if waits else whole
    kind = jax.random.choice(kind_key, 4, (cells,), p=jnp.array(POTS))
    in_pot = jnp.stack([jnp.zeros(cells, jnp.int32), part, cooking, cooking | COOKED])
    time = jax.random.randint(time_key, (cells,), 1, COOK_TIME + 1)
    thing = jnp.where(tiles == COUNTER, lying, NOTHING)
    thing = jnp.where(tiles == POT, jnp.take_along_axis(in_pot, kind[None], 0)[0], thing)
    timer = jnp.where((tiles == POT) & (kind == 2), time, 0)
    return state.replace(held=held, thing=thing, timer=timer)


def any_thing(key: Key, number: int, shares: tuple[float, ...], task: Task, kinds: Array) -> Array:
    """[number] things: nothing, a plate, an ingredient or a soup by one of the recipes."""
    kind_key, what_key, soup_key = jax.random.split(key, 3)
    one = 4 << 2 * jax.random.randint(what_key, (number,), 0, kinds)
    wanted = task.recipes[jax.random.randint(soup_key, (number,), 0, task.num_recipes)]
    every = jnp.stack(
        [jnp.full(number, NOTHING), jnp.full(number, PLATE), one, wanted | PLATE | COOKED]
    )
    kind = jax.random.choice(kind_key, 4, (number,), p=jnp.array(shares))
    return jnp.take_along_axis(every, kind[None], axis=0)[0].astype(jnp.int32)

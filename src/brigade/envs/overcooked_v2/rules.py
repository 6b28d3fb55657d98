"""The rules of OvercookedV2.

Within a step, cooks move, then interact in the order of their seats, then pots and buttons tick.
Functions are about one kitchen; the environment batches them. Cells are numbered row by row.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from flax import struct

from brigade.core import Array
from brigade.envs.overcooked_v2.tasks import Task
from brigade.envs.overcooked_v2.things import (
    BUTTON,
    COOKED,
    COUNTER,
    DOWN_OF_FACING,
    FACING_OF_ACTION,
    FLOOR,
    INTERACT,
    NOTHING,
    PILE,
    PLATE,
    PLATE_PILE,
    POT,
    POT_SIZE,
    RIGHT_OF_FACING,
    SERVING,
    STAY,
    count,
    is_ingredient,
)

COOK_TIME, SHOW_TIME = 20, 10  # steps of a pot, and of a button's display
DELIVERY, BUTTON_COST = 20.0, 5.0
PLACED, STARTED, PLATED, PLATE_TAKEN = 3.0, 5.0, 5.0, 3.0  # shaped rewards


class State(struct.PyTreeNode):
    """A kitchen at one timestep."""

    cell: Array  # [seats] int32
    facing: Array  # [seats] int32, of FACINGS
    held: Array  # [seats] int32: things
    thing: Array  # [cells] int32: on counters and in pots
    timer: Array  # [cells] int32: steps until a pot is ready or a button's display ends
    recipe: Array  # int32: the contents of the soup that is wanted
    delivered: Array  # bool: that soup was served in the last step
    served: Array  # int32: right soups so far, minus wrong ones if they cost points
    time: Array  # int32


class Whole(struct.PyTreeNode):
    """A kitchen with all that is in it."""

    state: State
    tile: Array  # [height, width] int32


class Settings(NamedTuple):
    """How the rules are set; static."""

    negative_rewards: bool = True  # a wrong soup costs as much as a right one pays
    start_cooking_interaction: bool = False  # a full pot waits until a cook starts it


class Kitchen(NamedTuple):
    """What interactions change."""

    held: Array
    thing: Array
    timer: Array


class Outcome(NamedTuple):
    """What came of a step."""

    reward: Array  # f32, of the team
    shaped: Array  # [seats] f32
    delivered: Array  # bool: the right soup was served
    served: Array  # int32: right soups, minus wrong ones if they cost points
    events: Array  # [seats, kinds] bool


EVENTS = ("placement", "start", "soup", "plate", "delivery", "wrong_delivery", "button")


def step(state: State, action: Array, task: Task, settings: Settings) -> tuple[State, Outcome]:
    """Play one joint action; the recipe stays as it is."""
    cell, facing = move(state, action, task)
    kitchen = Kitchen(state.held, state.thing, state.timer)
    plates = (state.held == PLATE).sum()
    parts = []
    for seat in range(len(cell)):
        front = in_front(cell[seat], facing[seat], task)
        acts = action[seat] == INTERACT
        kitchen, part = interact(kitchen, seat, front, acts, plates, state.recipe, task, settings)
        parts.append(part)
    thing, timer = ticked(kitchen.thing, kitchen.timer, task)
    reward, shaped, delivered, served, events = (
        jnp.stack(each) for each in zip(*parts, strict=True)
    )
    outcome = Outcome(reward.sum(), shaped, delivered.any(), served.sum(), events)
    after = State(
        cell=cell,
        facing=facing,
        held=kitchen.held,
        thing=thing,
        timer=timer,
        recipe=state.recipe,
        delivered=outcome.delivered,
        served=state.served + outcome.served,
        time=state.time + 1,
    )
    return after, outcome


def move(state: State, action: Array, task: Task) -> tuple[Array, Array]:
    """Cells and facings after moving. Cooks who want the same cell, or each other's, stay."""
    turns = action < STAY
    facing = jnp.where(
        turns, jnp.asarray(FACING_OF_ACTION)[jnp.minimum(action, STAY - 1)], state.facing
    )
    target = in_front(state.cell, facing, task)
    walks = turns & (task.tile.reshape(-1)[target] == FLOOR)
    wanted, others = jnp.where(walks, target, state.cell), ~jnp.eye(len(action), dtype=bool)
    stays = jnp.zeros_like(walks)
    for _ in range(len(action)):  # whoever stays may be in the way of the next
        at = jnp.where(stays, state.cell, wanted)
        stays |= ((at[:, None] == at) & others).any(1)
    at = jnp.where(stays, state.cell, wanted)
    swaps = (at[:, None] == state.cell) & (state.cell[:, None] == at) & others
    return jnp.where(swaps.any(1), state.cell, at), facing


def in_front(cell: Array, facing: Array, task: Task) -> Array:
    """The cell that a cook faces; kitchens have no floor on their border."""
    down, right = jnp.asarray(DOWN_OF_FACING)[facing], jnp.asarray(RIGHT_OF_FACING)[facing]
    return cell + down * task.tile.shape[1] + right


def interact(
    kitchen: Kitchen,
    seat: int,
    front: Array,
    acts: Array,
    plates: Array,
    recipe: Array,
    task: Task,
    settings: Settings,
) -> tuple[Kitchen, tuple[Array, ...]]:
    """What a cook does to the tile in front of it, if it `acts`.

    `plates` is how many cooks held a plate before the step.
    """
    tiles = task.tile.reshape(-1)
    tile, there, timer = tiles[front], kitchen.thing[front], kitchen.timer[front]
    held = kitchen.held[seat]
    empty_hands, has_plate = held == NOTHING, held == PLATE
    is_pot = tile == POT
    cooking, cooked = is_pot & (timer > 0), is_pot & (there & COOKED != 0)
    idle = is_pot & ~cooking & ~cooked
    wanted_soup = recipe | PLATE | COOKED

    # Taking: from a pile, from a counter, and a soup onto one's plate.
    from_pile = (tile >= PILE) | (tile == PLATE_PILE)
    plates_soup = cooked & has_plate
    takes = (empty_hands & (from_pile | (tile == COUNTER) & (there != NOTHING))) | plates_soup
    piled = jnp.where(tile == PLATE_PILE, PLATE, 4 << 2 * jnp.maximum(tile - PILE, 0))
    taken = jnp.where(from_pile, piled, there + held)

    # Putting down: on an empty counter, or an ingredient into a pot that has room.
    places = idle & is_ingredient(held) & (count(there) < POT_SIZE)
    drops = places | ((tile == COUNTER) & (there == NOTHING) & ~empty_hands)

    serves = (tile == SERVING) & (held & COOKED != 0)
    presses = (tile == BUTTON) & empty_hands
    starts = idle & (there != NOTHING) & empty_hands & settings.start_cooking_interaction

    left = jnp.where(takes, NOTHING, jnp.where(drops, there + held, there))
    new_held = jnp.where(takes, taken, jnp.where(drops | serves, NOTHING, held))
    fills = idle & (count(left) == POT_SIZE) & (not settings.start_cooking_interaction)
    new_timer = jnp.where(starts | fills, COOK_TIME, jnp.where(presses, SHOW_TIME, timer))

    # An ingredient is useful while the pot has less of it than the recipe.
    of_kind = held | held << 1
    useful_placement = places & (there & of_kind < recipe & of_kind)
    useful_soup = plates_soup & (there + held == wanted_soup)
    takes_plate = takes & (new_held == PLATE)
    pots_in_use = ((tiles == POT) & (kitchen.thing != NOTHING)).sum()
    no_plate_lies = (kitchen.thing != PLATE).all()
    useful_plate = takes_plate & (plates < pots_in_use) & no_plate_lies
    shaped = (
        PLACED * useful_placement
        + STARTED * (starts & (there == recipe))
        + PLATED * useful_soup
        + PLATE_TAKEN * useful_plate
    )
    right, wrong = serves & (held == wanted_soup), serves & (held != wanted_soup)
    penalty = wrong * settings.negative_rewards
    reward = DELIVERY * right - DELIVERY * penalty - BUTTON_COST * presses
    events = jnp.stack([places, starts, plates_soup, takes_plate, right, wrong, presses]) & acts

    def changed(array: Array, place: Array | int, value: Array) -> Array:
        return array.at[place].set(jnp.where(acts, value, array[place]))

    after = Kitchen(
        changed(kitchen.held, seat, new_held),
        changed(kitchen.thing, front, left),
        changed(kitchen.timer, front, new_timer),
    )
    served = right.astype(jnp.int32) - penalty
    return after, (reward * acts, shaped * acts, right & acts, served * acts, events)


def ticked(thing: Array, timer: Array, task: Task) -> tuple[Array, Array]:
    """Pots cook and buttons go out."""
    is_pot = task.tile.reshape(-1) == POT
    after = jnp.maximum(timer - 1, 0)
    ready = is_pot & (timer > 0) & (after == 0)
    return jnp.where(ready, thing | COOKED, thing), after

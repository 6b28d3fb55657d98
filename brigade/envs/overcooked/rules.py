"""The rules of Overcooked, with pots that start by themselves when they are full.

One step: interactions in seat order, then movement, then the pots cook. Everything is a mask or
arithmetic over seats and cells, so a batch of kitchens compiles to a few fused kernels. Cells are
numbered row by row; the rim of a kitchen is never floor, so a step from a floor cell to its
neighbour never leaves the board.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import struct

from brigade.core import Array
from brigade.envs.overcooked.tasks import Task
from brigade.envs.overcooked.things import (
    COUNTER,
    FLOOR,
    INGREDIENTS_PER_SOUP,
    INTERACT,
    NOTHING,
    ONE_ONION,
    ONE_TOMATO,
    ONION,
    ONION_PILE,
    PLATE,
    PLATE_PILE,
    POT,
    SERVING,
    SOUP,
    STAY,
    TOMATO,
    TOMATO_PILE,
    onions,
    tomatoes,
)

DELIVERY_REWARD = 20.0
PLACEMENT_REWARD = 3.0
USEFUL_PLATE_REWARD = 3.0
SOUP_PICKUP_REWARD = 5.0

# What a seat did in a step, in this order.
EVENTS = (
    "put_onion_on_counter",
    "put_plate_on_counter",
    "put_soup_on_counter",
    "pickup_onion_from_counter",
    "pickup_onion_from_pile",
    "pickup_plate_from_counter",
    "pickup_plate_from_pile",
    "pickup_soup_from_counter",
    "useful_plate_pickup",
    "soup_pickup",
    "placement_in_pot",
    "delivery",
    "stay",
    "move",
    "idle_move",
    "idle_interact_counter",
    "idle_interact_empty",
)


class State(struct.PyTreeNode):
    """A kitchen at one moment."""

    cell: Array  # [seats] int32: where each cook stands
    facing: Array  # [seats] int32: up, down, right, left
    held: Array  # [seats] uint8: a thing
    counter: Array  # [cells] uint8: the thing that lies there
    pot: Array  # [cells] uint8: what is in the pot
    tick: Array  # [cells] uint8: steps the pot has cooked, 0 while it is not full
    time: Array  # int32: steps played
    soups: Array  # int32: soups served


class Outcome(struct.PyTreeNode):
    """What a step brought, per seat."""

    deliveries: Array  # [seats] bool
    shaped_reward: Array  # [seats] f32
    events: Array  # [seats, len(EVENTS)] bool


class Interaction(struct.PyTreeNode):
    """What one seat's interaction did; at most one of these is true, except `useful_plate`."""

    puts_on_counter: Array
    takes_from_counter: Array
    takes_onion: Array
    takes_tomato: Array
    takes_plate: Array
    useful_plate: Array
    fills_pot: Array
    takes_soup: Array
    delivers: Array
    finds_counter_idle: Array
    finds_nothing: Array
    thing: Array  # what was put down, or taken from the counter


def start(task: Task, facing: Array) -> State:
    """Everyone on their start cell, hands, counters and pots empty."""
    nothing = jnp.zeros(task.tile.size, jnp.uint8)
    zero = jnp.int32(0)
    held = jnp.zeros(task.start.shape, jnp.uint8)
    return State(task.start, facing, held, nothing, nothing, nothing, zero, zero)


def step(state: State, action: Array, task: Task) -> tuple[State, Outcome]:
    """Play one joint action [seats]."""
    acted, interactions = interact_in_seat_order(state, action, task)
    cell, facing = move(state.cell, state.facing, action, task)
    deliveries = jnp.stack([did.delivers for did in interactions])
    after = acted.replace(
        cell=cell,
        facing=facing,
        tick=cook(acted.pot, acted.tick, task),
        time=state.time + 1,
        soups=state.soups + deliveries.sum(dtype=jnp.int32),
    )
    shaped = jnp.stack([shaped_reward(did) for did in interactions])
    return after, Outcome(deliveries, shaped, events(state, after, action, interactions))


def interact_in_seat_order(
    state: State, action: Array, task: Task
) -> tuple[State, list[Interaction]]:
    """A later seat meets what an earlier one left. Facing is as it was before the step."""
    pots_in_use = jnp.sum(state.pot != NOTHING, dtype=jnp.int32)
    faced = state.cell + offsets(task)[state.facing]
    interactions = []
    for seat in range(action.shape[0]):
        state, did = interact(state, seat, faced[seat], action[seat] == INTERACT, task, pots_in_use)
        interactions.append(did)
    return state, interactions


def interact(
    state: State, seat: int, faced: Array, acts: Array, task: Task, pots_in_use: Array
) -> tuple[State, Interaction]:
    """What `seat` does to the tile it faces, given what it holds and what is there."""
    tile = task.tile.reshape(-1)[faced]
    hand, lying = state.held[seat], state.counter[faced]
    contents, tick = state.pot[faced], state.tick[faced]
    empty_handed = hand == NOTHING
    has_ingredient = (hand == ONION) | (hand == TOMATO)
    has_room = onions(contents) + tomatoes(contents) < INGREDIENTS_PER_SOUP
    is_ready = (tick > 0) & (tick == task.cook_time)

    at_counter, at_pot = acts & (tile == COUNTER), acts & (tile == POT)
    at_serving = acts & (tile == SERVING)
    at_pile = acts & ((tile == ONION_PILE) | (tile == TOMATO_PILE) | (tile == PLATE_PILE))
    puts_on_counter = at_counter & ~empty_handed & (lying == NOTHING)
    takes_from_counter = at_counter & empty_handed & (lying != NOTHING)
    takes_plate = acts & empty_handed & (tile == PLATE_PILE)
    did = Interaction(
        puts_on_counter=puts_on_counter,
        takes_from_counter=takes_from_counter,
        takes_onion=acts & empty_handed & (tile == ONION_PILE),
        takes_tomato=acts & empty_handed & (tile == TOMATO_PILE),
        takes_plate=takes_plate,
        useful_plate=takes_plate & plate_is_wanted(state, pots_in_use),
        fills_pot=at_pot & has_ingredient & has_room,
        takes_soup=at_pot & (hand == PLATE) & is_ready,
        delivers=at_serving & (hand >= SOUP),
        finds_counter_idle=at_counter & ~puts_on_counter & ~takes_from_counter,
        finds_nothing=(acts & (tile == FLOOR))
        | (at_pile & ~empty_handed)
        | ((at_pot | at_serving) & empty_handed),
        thing=jnp.where(puts_on_counter, hand, lying),
    )
    return apply_interaction(state, seat, faced, did), did


def plate_is_wanted(state: State, pots_in_use: Array) -> Array:
    """Fewer plates in hands than pots in use before the step, and none waits on a counter."""
    plates_held = jnp.sum(state.held == PLATE, dtype=jnp.int32)
    return (plates_held < pots_in_use) & ~jnp.any(state.counter == PLATE)


def apply_interaction(state: State, seat: int, faced: Array, did: Interaction) -> State:
    """Move the thing between hand, counter and pot."""
    hand = state.held[seat]
    ingredient = jnp.where(hand == ONION, ONE_ONION, ONE_TOMATO).astype(jnp.uint8)
    soup = SOUP + state.pot[faced]
    gives = did.puts_on_counter | did.fills_pot | did.delivers
    new_hand = hand
    for happened, thing in (
        (gives, NOTHING),
        (did.takes_from_counter, did.thing),
        (did.takes_onion, ONION),
        (did.takes_tomato, TOMATO),
        (did.takes_plate, PLATE),
        (did.takes_soup, soup),
    ):
        new_hand = jnp.where(happened, jnp.asarray(thing, jnp.uint8), new_hand)

    here = jnp.arange(state.counter.size) == faced
    is_seat = jnp.arange(state.held.size) == seat
    lies = jnp.where(did.puts_on_counter, hand, NOTHING).astype(jnp.uint8)
    counter_changes = here & (did.puts_on_counter | did.takes_from_counter)
    filled = jnp.where(here & did.fills_pot, state.pot + ingredient, state.pot)
    emptied = here & did.takes_soup
    return state.replace(
        held=jnp.where(is_seat, new_hand, state.held),
        counter=jnp.where(counter_changes, lies, state.counter),
        pot=jnp.where(emptied, jnp.uint8(0), filled),
        tick=jnp.where(emptied, jnp.uint8(0), state.tick),
    )


def move(cell: Array, facing: Array, action: Array, task: Task) -> tuple[Array, Array]:
    """Turn, and go where nobody is in the way.

    Seats that want the same cell stay. A seat may follow one that goes, so a file of cooks moves
    on as one; those who swap or chase each other in a ring all stay, since none can go first.
    """
    walks = action < STAY
    target = cell + offsets(task)[action]
    free = task.tile.reshape(-1)[target] == FLOOR
    wants = jnp.where(walks & free, target, cell)

    others = ~jnp.eye(cell.shape[0], dtype=bool)
    contested = jnp.any((wants[:, None] == wants[None, :]) & others, axis=1)
    wants_place_of = (wants[:, None] == cell[None, :]) & others
    may_go = (wants != cell) & ~contested
    goes = jnp.zeros_like(may_go)
    for _ in range(cell.shape[0]):
        goes = may_go & ~jnp.any(wants_place_of & ~goes[None, :], axis=1)
    return jnp.where(goes, wants, cell), jnp.where(walks, action, facing)


def cook(pot: Array, tick: Array, task: Task) -> Array:
    """A full pot cooks, from the very step that filled it, until its soup is ready."""
    is_full = onions(pot) + tomatoes(pot) == INGREDIENTS_PER_SOUP
    return jnp.where(is_full & (tick < task.cook_time), tick + 1, tick).astype(jnp.uint8)


def shaped_reward(did: Interaction) -> Array:
    """What one seat earns for useful steps towards a soup."""
    return (
        PLACEMENT_REWARD * did.fills_pot
        + USEFUL_PLATE_REWARD * did.useful_plate
        + SOUP_PICKUP_REWARD * did.takes_soup
    )


def events(before: State, after: State, action: Array, interactions: list[Interaction]) -> Array:
    """[seats, len(EVENTS)] bool, in the order of EVENTS."""
    walks = action < STAY
    stuck = (before.cell == after.cell) & (before.facing == after.facing)
    rows = []
    for seat, did in enumerate(interactions):
        puts, takes = did.puts_on_counter, did.takes_from_counter
        rows.append(
            jnp.stack(
                [
                    puts & (did.thing == ONION),
                    puts & (did.thing == PLATE),
                    puts & (did.thing >= SOUP),
                    takes & (did.thing == ONION),
                    did.takes_onion,
                    takes & (did.thing == PLATE),
                    did.takes_plate,
                    takes & (did.thing >= SOUP),
                    did.useful_plate,
                    did.takes_soup,
                    did.fills_pot,
                    did.delivers,
                    action[seat] == STAY,
                    walks[seat],
                    walks[seat] & stuck[seat],
                    did.finds_counter_idle,
                    did.finds_nothing,
                ]
            )
        )
    return jnp.stack(rows)


def offsets(task: Task) -> Array:
    """[6] int32: how far each action moves a cook in the numbering of cells."""
    width = task.tile.shape[1]
    return jnp.array([-width, width, 1, -1, 0, 0], jnp.int32)

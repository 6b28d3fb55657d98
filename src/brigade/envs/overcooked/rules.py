"""The rules of Overcooked. `cooking` has what differs between one recipe and a list of recipes.

One step: interactions in seat order, then movement, then the pots cook. Everything is a mask or
arithmetic over seats and cells, so a batch of kitchens compiles to a few fused kernels. Cells are
numbered in row-major order. The border of a kitchen is never floor, so a step from a floor cell
never leaves the grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array
from brigade.envs.overcooked.cooking import JUST_STARTED, Cooking, OneRecipe
from brigade.envs.overcooked.events import events
from brigade.envs.overcooked.tasks import Task
from brigade.envs.overcooked.things import INTERACT, ONE_ONION, ONE_TOMATO, STAY, Item, Role, Tile

PLACEMENT_REWARD = 3.0
USEFUL_PLATE_REWARD = 3.0
SOUP_PICKUP_REWARD = 5.0

ONE_RECIPE = OneRecipe()


class State(struct.PyTreeNode):
    """A kitchen at one timestep."""

    cell: Array  # [seats] int32: position of each cook
    facing: Array  # [seats] int32: up, down, right, left
    held: Array  # [seats] uint8: the item in hand
    counter: Array  # [cells] uint8: the item on the counter
    pot: Array  # [cells] uint8: contents of the pot
    tick: Array  # [cells] uint8: steps the pot has cooked, 0 while it is waiting
    time: Array  # int32: steps played
    soups: Array  # int32: soups served
    earned: Any = None  # f32: rewards for soups so far; only with a list of recipes
    last_action: Any = None  # [seats] int32, -1 before the first; only with sticky actions
    kitchen: Any = None  # int32: which kitchen of the task it is; only if there are several


class Outcome(struct.PyTreeNode):
    """The outcome of a step for each seat."""

    pay: Array  # [seats] f32: for soups served
    shaped_reward: Array  # [seats] f32
    events: Array  # [seats, kinds] bool


class Faced(struct.PyTreeNode):
    """What is on the tile a seat faces."""

    lying: Array  # uint8: the item on a counter
    contents: Array  # uint8: the contents of a pot
    tick: Array  # uint8: steps that pot has cooked


class Interaction(struct.PyTreeNode):
    """The effect of one seat's interaction; at most one is true, besides `useful_plate`."""

    puts_on_counter: Array
    takes_from_counter: Array
    takes_onion: Array
    takes_tomato: Array
    takes_plate: Array
    useful_plate: Array
    fills_pot: Array
    starts_cooking: Array
    takes_soup: Array
    delivers: Array
    finds_counter_idle: Array
    finds_nothing: Array
    thing: Array  # the item put on or taken from the counter
    hand: Array  # what the seat held before
    contents: Array  # of the pot it faces, before
    contents_after: Array  # and after


def start(task: Task, facing: Array, cooking: Cooking = ONE_RECIPE) -> State:
    """All cooks on their start cells; hands, counters and pots are empty."""
    nothing = jnp.zeros(task.tile.size, jnp.uint8)
    zero = jnp.int32(0)
    held = jnp.zeros(task.start.shape, jnp.uint8)
    earned = None if isinstance(cooking, OneRecipe) else jnp.float32(0.0)
    return State(task.start, facing, held, nothing, nothing, nothing, zero, zero, earned)


def step(
    state: State, action: Array, task: Task, roles: bool = False, cooking: Cooking = ONE_RECIPE
) -> tuple[State, Outcome]:
    """Play one joint action [seats]; with `roles`, chefs take no plates, waiters no ingredients."""
    acted, interactions = interact_in_seat_order(state, action, task, roles, cooking)
    cell, facing = move(state.cell, state.facing, action, task)
    deliveries = jnp.stack([did.delivers for did in interactions])
    soups = jnp.stack([did.hand - jnp.uint8(Item.SOUP) for did in interactions])  # where delivered
    pay = (cooking.pay(soups, task) * deliveries).astype(jnp.float32)
    after = acted.replace(
        cell=cell,
        facing=facing,
        tick=cooking.cook(acted.pot, acted.tick, task),
        time=state.time + 1,
        soups=state.soups + deliveries.sum(dtype=jnp.int32),
        earned=None if state.earned is None else state.earned + pay.sum(),
    )
    shaped = [shaped_reward(did, task, cooking) for did in interactions]
    happened = events(state, after, action, interactions, task, cooking)
    return after, Outcome(pay, jnp.stack(shaped).astype(jnp.float32), happened)


def interact_in_seat_order(
    state: State, action: Array, task: Task, roles: bool, cooking: Cooking
) -> tuple[State, list[Interaction]]:
    """Interactions one after another: a later seat sees what an earlier one changed.

    Cooks face where they did before the step. The grid is read once and written once; in between,
    the tile that several seats face is passed from one to the next.
    """
    faced = state.cell + offsets(task)[state.facing]
    tile = task.tile.reshape(-1)[faced]
    found = Faced(state.counter[faced], state.pot[faced], state.tick[faced])
    plates_of_use = cooking.plates_of_use(state.pot, state.tick)
    plates_lying = jnp.sum(state.counter == Item.PLATE, dtype=jnp.int32)
    held = [state.held[seat] for seat in range(action.shape[0])]
    left: list[Faced] = []
    interactions: list[Interaction] = []
    for seat, hand in enumerate(held):
        here = as_left_by_earlier_seats(found, faced, left, seat)
        plates_held = sum((thing == Item.PLATE).astype(jnp.int32) for thing in held)
        plate_wanted = (plates_held < plates_of_use) & (plates_lying == 0)
        role = task.role[seat] if roles else None
        acts = action[seat] == INTERACT
        did = interact(tile[seat], hand, here, acts, plate_wanted, role, task, cooking)
        held[seat], after = hand_and_tile_after(hand, here, did)
        plates_lying += (after.lying == Item.PLATE).astype(jnp.int32) - (here.lying == Item.PLATE)
        left.append(after)
        interactions.append(did)
    return write_back(state, jnp.stack(held), faced, left), interactions


def as_left_by_earlier_seats(found: Faced, faced: Array, left: list[Faced], seat: int) -> Faced:
    """The tile that `seat` faces, as changed by earlier seats that face the same tile."""
    here = jax.tree.map(lambda board: board[seat], found)
    for earlier, after in enumerate(left):
        same = faced[earlier] == faced[seat]
        here = jax.tree.map(lambda new, old, same=same: jnp.where(same, new, old), after, here)
    return here


def interact(
    tile: Array,
    hand: Array,
    here: Faced,
    acts: Array,
    plate_wanted: Array,
    role: Array | None,
    task: Task,
    cooking: Cooking,
) -> Interaction:
    """The effect of a seat on the tile it faces, given what it holds and what is there."""
    empty_handed = hand == Item.NOTHING
    can_take = empty_handed if role is None else empty_handed & ~is_barred(role, tile, here.lying)
    has_ingredient = (hand == Item.ONION) | (hand == Item.TOMATO)
    has_room = cooking.has_room(here.contents, here.tick, task)
    is_ready = (here.tick > 0) & (here.tick == cooking.cook_time(here.contents, task))

    at_counter, at_pot = acts & (tile == Tile.COUNTER), acts & (tile == Tile.POT)
    at_serving = acts & (tile == Tile.SERVING)
    at_pile = acts & Tile.is_pile(tile)
    puts_on_counter = at_counter & ~empty_handed & (here.lying == Item.NOTHING)
    takes_from_counter = at_counter & can_take & (here.lying != Item.NOTHING)
    takes_plate = acts & can_take & (tile == Tile.PLATE_PILE)
    fills_pot = at_pot & has_ingredient & has_room
    starts_cooking = at_pot & empty_handed & cooking.can_start(here.contents, here.tick)
    takes_soup = at_pot & (hand == Item.PLATE) & is_ready
    ingredient = jnp.where(hand == Item.ONION, jnp.uint8(ONE_ONION), jnp.uint8(ONE_TOMATO))
    filled = here.contents + jnp.where(fills_pot, ingredient, jnp.uint8(Item.NOTHING))
    return Interaction(
        puts_on_counter=puts_on_counter,
        takes_from_counter=takes_from_counter,
        takes_onion=acts & can_take & (tile == Tile.ONION_PILE),
        takes_tomato=acts & can_take & (tile == Tile.TOMATO_PILE),
        takes_plate=takes_plate,
        useful_plate=takes_plate & plate_wanted,
        fills_pot=fills_pot,
        starts_cooking=starts_cooking,
        takes_soup=takes_soup,
        delivers=at_serving & (hand >= Item.SOUP),
        finds_counter_idle=at_counter & ~puts_on_counter & ~takes_from_counter,
        finds_nothing=(acts & (tile == Tile.FLOOR))
        | (at_pile & ~can_take)
        | (at_serving & empty_handed)
        | (at_pot & empty_handed & cooking.idle_at_pots),
        thing=jnp.where(puts_on_counter, hand, here.lying),
        hand=hand,
        contents=here.contents,
        contents_after=jnp.where(takes_soup, jnp.uint8(Item.NOTHING), filled),
    )


def is_barred(role: Array, tile: Array, lying: Array) -> Array:
    """Whether a role may not take what is on a tile: chefs no plates, waiters no ingredients."""
    plate = (tile == Tile.PLATE_PILE) | (lying == Item.PLATE)
    onion = (tile == Tile.ONION_PILE) | (lying == Item.ONION)
    tomato = (tile == Tile.TOMATO_PILE) | (lying == Item.TOMATO)
    return ((role == Role.CHEF) & plate) | ((role == Role.WAITER) & (onion | tomato))


def hand_and_tile_after(hand: Array, here: Faced, did: Interaction) -> tuple[Array, Faced]:
    """Move the item between hand, counter and pot."""
    gives = did.puts_on_counter | did.fills_pot | did.delivers
    new_hand = hand
    for happened, thing in (
        (gives, Item.NOTHING),
        (did.takes_from_counter, did.thing),
        (did.takes_onion, Item.ONION),
        (did.takes_tomato, Item.TOMATO),
        (did.takes_plate, Item.PLATE),
        (did.takes_soup, Item.SOUP + here.contents),
    ):
        new_hand = jnp.where(happened, jnp.asarray(thing, jnp.uint8), new_hand)

    nothing = jnp.uint8(Item.NOTHING)
    lying = jnp.where(did.takes_from_counter, nothing, here.lying)
    tick = jnp.where(did.starts_cooking, jnp.uint8(JUST_STARTED), here.tick)
    return new_hand, Faced(
        lying=jnp.where(did.puts_on_counter, hand, lying),
        contents=did.contents_after,
        tick=jnp.where(did.takes_soup, jnp.uint8(0), tick),
    )


def write_back(state: State, held: Array, faced: Array, left: list[Faced]) -> State:
    """Write the faced tiles back in seat order, so the last seat to change a tile decides."""
    counter, pot, tick = state.counter, state.pot, state.tick
    for seat, after in enumerate(left):
        here = jnp.arange(counter.size) == faced[seat]
        counter = jnp.where(here, after.lying, counter)
        pot = jnp.where(here, after.contents, pot)
        tick = jnp.where(here, after.tick, tick)
    return state.replace(held=held, counter=counter, pot=pot, tick=tick)


def move(cell: Array, facing: Array, action: Array, task: Task) -> tuple[Array, Array]:
    """Turn, and move unless another cook is in the way.

    Seats that want the same cell stay. A seat may move into a cell that another one leaves, so a
    line of cooks moves together. Cooks that want to swap or to rotate in a ring all stay.
    """
    walks = action < STAY
    target = cell + offsets(task)[action]
    free = task.tile.reshape(-1)[target] == Tile.FLOOR
    wants = jnp.where(walks & free, target, cell)
    seats = range(cell.shape[0])

    may_go = [
        (wants[seat] != cell[seat])
        & ~any_of(wants[seat] == wants[other] for other in seats if other != seat)
        for seat in seats
    ]
    goes = [jnp.bool_(False) for _ in seats]
    for _ in seats:  # each round lets seats follow those that already move
        goes = [
            may_go[seat]
            & ~any_of(
                (wants[seat] == cell[other]) & ~goes[other] for other in seats if other != seat
            )
            for seat in seats
        ]
    return jnp.where(jnp.stack(goes), wants, cell), jnp.where(walks, action, facing)


def any_of(conditions: Iterable[Array]) -> Array:
    """Whether any of a few conditions holds, as arithmetic that fuses; a reduction does not."""
    return reduce(or_, conditions, jnp.bool_(False))


def shaped_reward(did: Interaction, task: Task, cooking: Cooking) -> Array:
    """The shaped reward of one seat for progress towards a soup."""
    helps = did.fills_pot & ~cooking.spoils(did.contents, did.contents_after, task)
    return (
        PLACEMENT_REWARD * helps
        + USEFUL_PLATE_REWARD * did.useful_plate
        + SOUP_PICKUP_REWARD * did.takes_soup
    )


def offsets(task: Task) -> Array:
    """[6] int32: the change of the cell number for each action."""
    width = task.tile.shape[1]
    return jnp.array([-width, width, 1, -1, 0, 0], jnp.int32)

"""The rules of OvercookedV2.

Within a step, cooks move, then interact in the order of their seats, then pots and buttons tick.
Functions are about one kitchen; the environment batches them, so everything is a mask or arithmetic
over seats and cells, which fuses into few loops. Cells are numbered row by row.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array
from brigade.envs.overcooked_v2.tasks import Task
from brigade.envs.overcooked_v2.things import (
    BUTTON,
    COOK_TIME,
    COOKED,
    COUNTER,
    FLOOR,
    INTERACT,
    NOTHING,
    PILE,
    PLATE,
    PLATE_PILE,
    POT,
    POT_SIZE,
    SERVING,
    SHOW_TIME,
    STAY,
    count,
    facing_of_action,
    is_ingredient,
    offset_of_facing,
)

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


class Front(NamedTuple):
    """The tile in front of a cook."""

    tile: Array
    thing: Array  # on the counter or in the pot
    timer: Array  # of the pot or the button


class Tally(NamedTuple):
    """What decides whether a plate is useful."""

    plates_held: Array  # by all cooks before anybody interacts
    plates_lying: Array
    pots_in_use: Array


class Deed(NamedTuple):
    """What a cook does to the tile in front of it: at most one of these."""

    takes_from_pile: Array
    takes_from_counter: Array
    takes_soup: Array
    puts_on_counter: Array
    puts_into_pot: Array
    starts: Array
    serves_right: Array
    serves_wrong: Array
    presses: Array


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
    front = cell + offset_of_facing(facing, task.tile.shape[1])
    deeds, rewards, held, left = interactions(state, front, action, task, settings)
    thing, timer = state.thing, state.timer
    for seat, tile in enumerate(left):  # the last cook to change a tile decides
        here = jnp.arange(thing.size) == front[seat]
        thing, timer = jnp.where(here, tile.thing, thing), jnp.where(here, tile.timer, timer)
    thing, timer = ticked(thing, timer, task)
    right, wrong, pressed = (
        jnp.stack(each).sum(dtype=jnp.int32)
        for each in zip(
            *((deed.serves_right, deed.serves_wrong, deed.presses) for deed in deeds), strict=True
        )
    )
    served = right - wrong * settings.negative_rewards
    outcome = Outcome(
        reward=(DELIVERY * served - BUTTON_COST * pressed).astype(jnp.float32),
        shaped=jnp.stack(rewards).astype(jnp.float32),
        delivered=right > 0,
        served=served,
        events=jnp.stack([events(deed, now) for deed, now in zip(deeds, held, strict=True)]),
    )
    after = state.replace(
        cell=cell,
        facing=facing,
        held=jnp.stack(held),
        thing=thing,
        timer=timer,
        delivered=outcome.delivered,
        served=state.served + served,
        time=state.time + 1,
    )
    return after, outcome


# --- moving ---


def move(state: State, action: Array, task: Task) -> tuple[Array, Array]:
    """Cells and facings after moving. Cooks who want the same cell, or each other's, stay."""
    turns = action < STAY
    facing = jnp.where(turns, facing_of_action(action), state.facing)
    target = state.cell + offset_of_facing(facing, task.tile.shape[1])
    walks = turns & (task.tile.reshape(-1)[target] == FLOOR)
    was, wanted = list(state.cell), list(jnp.where(walks, target, state.cell))
    seats = range(len(was))
    at = wanted
    for _ in seats:  # whoever stays may be in the way of the next
        meets = [
            any_of(at[seat] == at[other] for other in seats if other != seat) for seat in seats
        ]
        at = [jnp.where(meets[seat], was[seat], at[seat]) for seat in seats]
    swaps = [
        any_of(
            (at[seat] == was[other]) & (was[seat] == at[other]) for other in seats if other != seat
        )
        for seat in seats
    ]
    return jnp.stack([jnp.where(swaps[seat], was[seat], at[seat]) for seat in seats]), facing


def any_of(conditions: Iterable[Array]) -> Array:
    """Whether any of a few conditions holds, as arithmetic that fuses; a reduction does not."""
    return reduce(or_, conditions, jnp.bool_(False))


# --- interacting ---


def interactions(
    state: State, front: Array, action: Array, task: Task, settings: Settings
) -> tuple[list[Deed], list[Array], list[Array], list[Front]]:
    """Deeds, shaped rewards, hands and tiles by seat; a later seat sees what an earlier one left.

    The grid is read once; the tile that several seats face is passed from one to the next.
    """
    tiles = task.tile.reshape(-1)
    found = Front(tiles[front], state.thing[front], state.timer[front])
    tally = Tally(
        plates_held=(state.held == PLATE).sum(),
        plates_lying=(state.thing == PLATE).sum(),
        pots_in_use=in_use(Front(tiles, state.thing, state.timer)).sum(),
    )
    deeds: list[Deed] = []
    rewards: list[Array] = []
    hands: list[Array] = []
    left: list[Front] = []
    for seat in range(len(front)):
        here = jax.tree.map(lambda each, seat=seat: each[seat], found)
        for earlier, changed in enumerate(left):
            same = front[earlier] == front[seat]
            here = jax.tree.map(lambda new, old, s=same: jnp.where(s, new, old), changed, here)
        held, acts = state.held[seat], action[seat] == INTERACT
        deed = deed_of(held, here, state.recipe, settings)
        deed = jax.tree.map(lambda does, acts=acts: does & acts, deed)
        after = front_after(held, here, deed, acts, settings)
        deeds.append(deed)
        rewards.append(shaped_reward(held, here, deed, tally, state.recipe))
        hands.append(hand_after(held, here, deed))
        left.append(after)
        tally = tally._replace(
            plates_lying=tally.plates_lying + (after.thing == PLATE) - (here.thing == PLATE),
            pots_in_use=tally.pots_in_use + in_use(after) - in_use(here),
        )
    return deeds, rewards, hands, left


def deed_of(held: Array, here: Front, recipe: Array, settings: Settings) -> Deed:
    """What an interaction does here, with this in one's hands."""
    empty_hands, empty_tile = held == NOTHING, here.thing == NOTHING
    at_counter, at_pile = here.tile == COUNTER, (here.tile == PLATE_PILE) | (here.tile >= PILE)
    ready = (here.tile == POT) & (here.thing & COOKED != 0)
    serves = (here.tile == SERVING) & (held & COOKED != 0)
    right = held == recipe | PLATE | COOKED
    return Deed(
        takes_from_pile=at_pile & empty_hands,
        takes_from_counter=at_counter & empty_hands & ~empty_tile,
        takes_soup=ready & (held == PLATE),
        puts_on_counter=at_counter & ~empty_hands & empty_tile,
        puts_into_pot=waits(here) & is_ingredient(held) & (count(here.thing) < POT_SIZE),
        starts=waits(here) & empty_hands & ~empty_tile & settings.start_cooking_interaction,
        serves_right=serves & right,
        serves_wrong=serves & ~right,
        presses=(here.tile == BUTTON) & empty_hands,
    )


def in_use(here: Front) -> Array:
    """1 for a pot with something in it, else 0."""
    return ((here.tile == POT) & (here.thing != NOTHING)).astype(jnp.int32)


def waits(here: Front) -> Array:
    """Whether this is a pot that neither cooks nor is ready."""
    return (here.tile == POT) & (here.timer == 0) & (here.thing & COOKED == 0)


def hand_after(held: Array, here: Front, deed: Deed) -> Array:
    """What the cook holds then."""
    gives = deed.puts_on_counter | deed.puts_into_pot | deed.serves_right | deed.serves_wrong
    pile = jnp.where(here.tile == PLATE_PILE, PLATE, 4 << 2 * jnp.maximum(here.tile - PILE, 0))
    taken = jnp.where(deed.takes_from_pile, pile, held)
    taken = jnp.where(deed.takes_from_counter | deed.takes_soup, here.thing + held, taken)
    return jnp.where(gives, NOTHING, taken)


def front_after(held: Array, here: Front, deed: Deed, acts: Array, settings: Settings) -> Front:
    """What the tile is like then."""
    thing = jnp.where(deed.puts_on_counter | deed.puts_into_pot, here.thing + held, here.thing)
    thing = jnp.where(deed.takes_from_counter | deed.takes_soup, NOTHING, thing)
    # Also if nothing was put into it: games may start with pots that are full and wait.
    by_itself = acts & (not settings.start_cooking_interaction)
    cooks = deed.starts | (by_itself & waits(here) & (count(thing) == POT_SIZE))
    timer = jnp.where(deed.presses, SHOW_TIME, here.timer)
    return Front(here.tile, thing, jnp.where(cooks, COOK_TIME, timer))


def shaped_reward(held: Array, here: Front, deed: Deed, tally: Tally, recipe: Array) -> Array:
    """For an ingredient, a start, a plate and a soup that help towards the recipe."""
    kind = held | held << 1  # the two bits that count the ingredient that is held
    lacks = here.thing & kind < recipe & kind
    soup_is_right = here.thing + held == recipe | PLATE | COOKED
    wanted = (tally.plates_held < tally.pots_in_use) & (tally.plates_lying == 0)
    return (
        PLACED * (deed.puts_into_pot & lacks)
        + STARTED * (deed.starts & (here.thing == recipe))
        + PLATED * (deed.takes_soup & soup_is_right)
        + PLATE_TAKEN * (takes_plate(deed, hand_after(held, here, deed)) & wanted)
    )


def takes_plate(deed: Deed, hand: Array) -> Array:
    """Whether what was taken is a plate."""
    return (deed.takes_from_pile | deed.takes_from_counter) & (hand == PLATE)


def events(deed: Deed, hand: Array) -> Array:
    """[kinds] bool, in the order of EVENTS."""
    return jnp.stack(
        [
            deed.puts_into_pot,
            deed.starts,
            deed.takes_soup,
            takes_plate(deed, hand),
            deed.serves_right,
            deed.serves_wrong,
            deed.presses,
        ]
    )


# --- cooking ---


def ticked(thing: Array, timer: Array, task: Task) -> tuple[Array, Array]:
    """Pots cook and buttons go out."""
    is_pot = task.tile.reshape(-1) == POT
    after = jnp.maximum(timer - 1, 0)
    ready = is_pot & (timer > 0) & (after == 0)
    return jnp.where(ready, thing | COOKED, thing), after

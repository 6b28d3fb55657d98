"""What a scripted cook reads from an observation: stations, items, rooms and what to pass on.

Everything is relative to one cook: stations it cannot reach are left out, and cooks in other rooms
need what it can pass over the counters between them.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import NamedTuple

import jax
import jax.numpy as jnp

from brigade.core import Array
from brigade.envs.overcooked.cooks.planes import (
    ahead,
    anywhere,
    at,
    beside,
    count,
    flood,
    only_if,
    values_around,
    within,
)
from brigade.envs.overcooked.env import RecipeKind
from brigade.envs.overcooked.observe import SHARED_CHANNELS
from brigade.envs.overcooked.things import POT_SIZE

NOTHING, FOOD, PLATE, SOUP = range(4)  # what a cook holds
MAX_TOMATOES = POT_SIZE - 1  # in a soup: without an onion it does not pay

SOUPS, WAITING = "soup, cooking, ready or plated", "pot that is not cooking"

# With one recipe all ingredients are alike, and tomatoes are read as onions.
SAME_WITH_ONE_RECIPE = {
    "tomato pile": "onion pile",
    f"tomatoes in a {WAITING}": f"onions in a {WAITING}",
    f"tomatoes in a {SOUPS}": f"onions in a {SOUPS}",
    "tomatoes": "onions",
}


class Stations(NamedTuple):
    """Tiles by what can be done there. Planes [..., height, width] bool."""

    pots: Array
    open_pots: Array  # take an onion
    tomato_pots: Array  # take a tomato, and the soup can still pay
    full_pots: Array  # have to be started; with one recipe they start by themselves
    busy_pots: Array  # cook, or hold a soup
    ready_pots: Array
    counters: Array  # with nothing on them
    onion_piles: Array
    tomato_piles: Array
    plate_piles: Array
    servings: Array


class Items(NamedTuple):
    """Items on counters or in hands. Planes [..., height, width] bool."""

    onions: Array
    tomatoes: Array
    plates: Array
    soups: Array  # those that pay
    spoiled_soups: Array


class Rooms(NamedTuple):
    """The cook's room, and those of cooks it cannot reach. Planes [..., height, width] bool."""

    floor: Array  # that it can reach, ignoring other cooks
    reach: Array  # all tiles beside its floor
    their_reach: Array  # all tiles beside the floor of the other rooms
    others: Array  # the cooks in the other rooms


class Passing(NamedTuple):
    """What a cook passes to other rooms. Planes [..., height, width] bool, the rest [...] bool.

    If all cooks are in one room, or each room has everything, nothing is shared or passed.
    """

    shared: Array  # tiles that another room reaches, too
    counters: Array  # the empty counters among them
    gives_food: Array  # ingredients on shared counters are meant for others
    gives_plates: Array  # plates are
    wants_food: Array  # others need another onion, and there is space for it
    wants_plate: Array  # others need another plate, and there is space for it
    others_serve: Array  # they have a serving tile
    clutter: Array  # items to clear away, because no shared counter is empty


class Scene(NamedTuple):
    """An observation by meaning. Planes [..., height, width] bool, the rest [...]."""

    own: Array
    other: Array
    cell: Array  # int32: own position, in row-major order
    floor_ahead: Array  # bool: it faces a floor tile
    facing: Array  # up, down, right, left
    hand: Array  # int32
    holds_tomato: Array  # bool
    holds_spoiled_soup: Array  # bool
    others_hold_tomato: Array  # bool
    gives_way: Array  # bool: if it has nothing to do it steps aside for a cook next to it
    room: Array  # floor that it can reach, ignoring other cooks
    stations: Stations  # in its reach
    lying: Items  # on counters in its reach
    passing: Passing


def parse(obs: Array, recipes: RecipeKind) -> Scene:
    """Parse observations [..., height, width, channels]; stations out of reach are left out."""
    own, other, facings = obs[..., 0] > 0, obs[..., 1] > 0, obs[..., 2:6] > 0
    amounts = shared_channels(obs, recipes)
    stations, items = read_stations(amounts, recipes), read_items(amounts, recipes)
    lying, held = within(items, ~own & ~other), within(items, own)
    rooms = find_rooms(own, other, ~walls(stations, lying))
    facing = facings.any(axis=(-3, -2)).argmax(-1)
    kinds = (held.onions | held.tomatoes, held.plates, held.soups | held.spoiled_soups)
    hand = jnp.stack([anywhere(kind) for kind in kinds], -1) @ jnp.array([FOOD, PLATE, SOUP])
    # With one recipe, cooks that wait with an item stand still: recorded results depend on it.
    may_give_way = (hand == NOTHING) | (recipes == "multi")
    return Scene(
        own=own,
        other=other,
        cell=own.reshape(*own.shape[:-2], -1).argmax(-1).astype(jnp.int32),
        floor_ahead=ahead(values_around(own, rooms.floor, False), facing) > 0,
        facing=facing,
        hand=hand,
        holds_tomato=anywhere(held.tomatoes),
        holds_spoiled_soup=anywhere(held.spoiled_soups),
        others_hold_tomato=anywhere(items.tomatoes & other),
        gives_way=may_give_way & anywhere(beside(own) & other),
        room=rooms.floor,
        stations=within(stations, rooms.reach),
        lying=within(lying, rooms.reach),
        passing=plan_passing(stations, items, rooms, ingredients_missing(amounts)),
    )


def shared_channels(obs: Array, recipes: RecipeKind) -> dict[str, Array]:
    """The channels that all cooks share, by name. Values [..., height, width] uint8."""
    amounts = {
        name: obs[..., index - len(SHARED_CHANNELS)] for index, name in enumerate(SHARED_CHANNELS)
    }
    if recipes == "single":
        for tomato, onion in SAME_WITH_ONE_RECIPE.items():
            amounts[onion] += amounts[tomato]
            amounts[tomato] = jnp.zeros_like(amounts[onion])
    return amounts


def read_stations(amounts: dict[str, Array], recipes: RecipeKind) -> Stations:
    """All stations of a kitchen."""
    pots = amounts["pot"] > 0
    tomatoes = amounts[f"tomatoes in a {WAITING}"]
    busy, full = pots & (ingredients(amounts, SOUPS) > 0), jnp.zeros_like(pots)
    if recipes == "multi":
        full = pots & (ingredients(amounts, WAITING) >= POT_SIZE)
    open_pots = pots & ~busy & ~full
    return Stations(
        pots=pots,
        open_pots=open_pots,
        tomato_pots=open_pots & (tomatoes < MAX_TOMATOES),
        full_pots=full,
        busy_pots=busy,
        ready_pots=pots & (amounts["soup ready, in a pot or plated"] > 0),
        counters=amounts["counter"] > 0,
        onion_piles=amounts["onion pile"] > 0,
        tomato_piles=amounts["tomato pile"] > 0,
        plate_piles=amounts["plate pile"] > 0,
        servings=amounts["serving"] > 0,
    )


def read_items(amounts: dict[str, Array], recipes: RecipeKind) -> Items:
    """All items of a kitchen."""
    soups = (amounts["soup ready, in a pot or plated"] > 0) & (amounts["pot"] == 0)
    spoiled = jnp.zeros_like(soups)
    if recipes == "multi":
        onions = amounts[f"onions in a {SOUPS}"]
        spoiled = soups & ((onions == 0) | (ingredients(amounts, SOUPS) < 2))
    return Items(
        onions=amounts["onions"] > 0,
        tomatoes=amounts["tomatoes"] > 0,
        plates=amounts["plates"] > 0,
        soups=soups & ~spoiled,
        spoiled_soups=spoiled,
    )


def ingredients(amounts: dict[str, Array], where: str) -> Array:
    """Onions and tomatoes in pots or soups."""
    return amounts[f"onions in a {where}"] + amounts[f"tomatoes in a {where}"]


def ingredients_missing(amounts: dict[str, Array]) -> Array:
    """Ingredients that a waiting pot still takes, at least 1; pots of other sizes look the same."""
    return jnp.maximum(POT_SIZE - ingredients(amounts, WAITING).astype(jnp.int32), 1)


def walls(stations: Stations, lying: Items) -> Array:
    """All tiles that are not floor."""
    return reduce(or_, (*stations, *lying))


def find_rooms(own: Array, other: Array, floor: Array) -> Rooms:
    """The room of a cook and the rooms of others."""
    room, reach = flood(own, floor)
    others = other & ~room
    _, their_reach = flood(others, floor)
    return Rooms(room, reach, their_reach, others)


def plan_passing(stations: Stations, items: Items, rooms: Rooms, missing: Array) -> Passing:
    """What others need from this cook, and the counters for it.

    Others get what they have no pile for. Soups come first: if one has to pass, other items leave
    a counter empty for it, or both rooms could wait for an empty counter forever.
    """
    mine, theirs = within(stations, rooms.reach), within(stations, rooms.their_reach)
    have, others_have = jax.tree.map(anywhere, (mine, theirs))  # which kinds a room has
    passes = ~(complete(have) & complete(others_have))
    shared = only_if(passes, rooms.reach & rooms.their_reach)
    counters = mine.counters & shared
    on_their_side = rooms.their_reach & ~rooms.reach
    soups_to_come = count(items.soups & (rooms.others | on_their_side)) * ~others_have.servings
    soup_here = anywhere(items.soups & rooms.reach & ~shared)
    soup_to_go = soup_here & ~have.servings & others_have.servings
    coming = within(items, shared | rooms.others)
    needs_onion = at(missing, stations.open_pots & on_their_side) > count(coming.onions)
    needs_plate = count(stations.busy_pots & on_their_side) > count(coming.plates)
    has_space = count(counters) > soups_to_come
    gives_food = have.onion_piles & ~others_have.onion_piles
    gives_plates = have.plate_piles & ~others_have.plate_piles
    in_the_way = useless(
        within(items, shared),
        within(stations, rooms.reach | rooms.their_reach),
        soup_waits=(soups_to_come > 0) | soup_to_go,
    )
    return Passing(
        shared=shared,
        counters=counters,
        gives_food=gives_food,
        gives_plates=gives_plates,
        wants_food=gives_food & needs_onion & has_space,
        wants_plate=gives_plates & needs_plate & has_space,
        others_serve=others_have.servings,
        clutter=only_if(~anywhere(counters), in_the_way),
    )


def complete(room: Stations) -> Array:
    """Whether cooks in a room with these kinds of stations can make and serve soups alone."""
    return room.pots & room.onion_piles & room.plate_piles & room.servings


def useless(items: Items, stations: Stations, soup_waits: Array) -> Array:
    """The items for which no station has a use now; if a soup waits for space, all but soups."""
    return (
        only_if(soup_waits | ~anywhere(stations.open_pots), items.onions)
        | only_if(soup_waits | ~anywhere(stations.tomato_pots), items.tomatoes)
        | only_if(soup_waits | ~anywhere(stations.busy_pots), items.plates)
        | items.spoiled_soups
    )

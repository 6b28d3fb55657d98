"""What a seat did in a step, as events: 17 kinds with one recipe, 29 with a list of recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from brigade.core import Array
from brigade.envs.overcooked.cooking import Cooking, OneRecipe, size
from brigade.envs.overcooked.recipes import look_up
from brigade.envs.overcooked.tasks import Task
from brigade.envs.overcooked.things import STAY, Item

if TYPE_CHECKING:
    from brigade.envs.overcooked.rules import Interaction, State

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
MULTI_EVENTS = (
    "put_onion_on_counter",
    "put_tomato_on_counter",
    "put_plate_on_counter",
    "put_soup_on_counter",
    "pickup_onion_from_counter",
    "pickup_onion_from_pile",
    "pickup_tomato_from_counter",
    "pickup_tomato_from_pile",
    "pickup_plate_from_counter",
    "pickup_plate_from_pile",
    "pickup_soup_from_counter",
    "useful_plate_pickup",
    "soup_pickup",
    "placement_in_pot",
    "viable_placement",
    "optimal_placement",
    "catastrophic_placement",
    "useless_placement",
    "potting_onion",
    "potting_tomato",
    "cook",
    "delivery",
    "delivery_of_size_two",
    "delivery_of_size_three",
    "delivery_of_useless_soup",
    "stay",
    "move",
    "idle_move",
    "idle_interact",
)


def event_names(cooking: Cooking) -> tuple[str, ...]:
    """The kinds of events, in the order of their columns."""
    return EVENTS if isinstance(cooking, OneRecipe) else MULTI_EVENTS


def events(
    before: State,
    after: State,
    action: Array,
    interactions: list[Interaction],
    task: Task,
    cooking: Cooking,
) -> Array:
    """[seats, kinds] bool, in the order of `event_names`."""
    walks = action < STAY
    stuck = walks & (before.cell == after.cell) & (before.facing == after.facing)
    rows = []
    for seat, did in enumerate(interactions):
        now = {
            **handling(did),
            **(placement(did, task) | serving(did, task)),
            "stay": action[seat] == STAY,
            "move": walks[seat],
            "idle_move": stuck[seat],
            "idle_interact": did.finds_counter_idle | did.finds_nothing,
            "idle_interact_counter": did.finds_counter_idle,
            "idle_interact_empty": did.finds_nothing,
        }
        rows.append(jnp.stack([now[name] for name in event_names(cooking)]))
    return jnp.stack(rows)


def handling(did: Interaction) -> dict[str, Array]:
    """Items picked up and put down."""
    puts, takes = did.puts_on_counter, did.takes_from_counter
    return {
        "put_onion_on_counter": puts & (did.thing == Item.ONION),
        "put_tomato_on_counter": puts & (did.thing == Item.TOMATO),
        "put_plate_on_counter": puts & (did.thing == Item.PLATE),
        "put_soup_on_counter": puts & (did.thing >= Item.SOUP),
        "pickup_onion_from_counter": takes & (did.thing == Item.ONION),
        "pickup_onion_from_pile": did.takes_onion,
        "pickup_tomato_from_counter": takes & (did.thing == Item.TOMATO),
        "pickup_tomato_from_pile": did.takes_tomato,
        "pickup_plate_from_counter": takes & (did.thing == Item.PLATE),
        "pickup_plate_from_pile": did.takes_plate,
        "pickup_soup_from_counter": takes & (did.thing >= Item.SOUP),
        "useful_plate_pickup": did.useful_plate,
        "soup_pickup": did.takes_soup,
    }


def placement(did: Interaction, task: Task) -> dict[str, Array]:
    """Ingredients put into pots, by what the soup in it can still become; and its start."""
    fills = did.fills_pot
    was, is_now = (look_up(task.recipes.best, x) for x in (did.contents, did.contents_after))
    return {
        "placement_in_pot": fills,
        "viable_placement": fills & (is_now > 0),
        "optimal_placement": fills & (is_now == was),
        "catastrophic_placement": fills & (was > 0) & (is_now <= 0),
        "useless_placement": fills & (was <= 0),
        "potting_onion": fills & (did.hand == Item.ONION),
        "potting_tomato": fills & (did.hand == Item.TOMATO),
        "cook": did.starts_cooking,
    }


def serving(did: Interaction, task: Task) -> dict[str, Array]:
    """Soups served, by their size."""
    soup = did.hand - jnp.uint8(Item.SOUP)  # its contents, where a soup is served
    return {
        "delivery": did.delivers,
        "delivery_of_size_two": did.delivers & (size(soup) == 2),
        "delivery_of_size_three": did.delivers & (size(soup) == 3),
        "delivery_of_useless_soup": did.delivers & ~look_up(task.recipes.listed, soup),
    }

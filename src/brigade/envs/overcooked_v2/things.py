"""Integer codes of tiles, items and actions, as in JaxMARL's OvercookedV2."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from brigade.core import Array

# Tiles. Cooks can only walk on FLOOR; things lie on COUNTER and in POT. OUTSIDE pads kitchens.
FLOOR, COUNTER, SERVING, POT, INDICATOR, BUTTON, PLATE_PILE, OUTSIDE = range(8)
PILE = 16  # of ingredient 0; that of ingredient i is PILE + i
MAX_INGREDIENTS = 10
TILE_OF_SYMBOL = {
    ".": FLOOR,
    "W": COUNTER,
    "X": SERVING,
    "P": POT,
    "R": INDICATOR,
    "L": BUTTON,
    "B": PLATE_PILE,
    **{str(number): PILE + number for number in range(MAX_INGREDIENTS)},
}

# Things: bits for a plate and for being cooked, then two bits per ingredient that count it.
NOTHING, PLATE, COOKED = 0, 1, 2
POT_SIZE = 3  # ingredients per soup
COOK_TIME, SHOW_TIME = 20, 10  # steps of a pot, and of a button's display

ACTIONS = ("right", "down", "left", "up", "stay", "interact")
STAY, INTERACT = 4, 5
FACINGS = "UDRL"  # letters in the recorded games
UP, DOWN, RIGHT, LEFT = range(4)


def facing_of_action(action: Array) -> Array:
    """The facing of the first four actions."""
    return jnp.asarray((RIGHT, DOWN, LEFT, UP, UP, UP))[action]


def offset_of_facing(facing: Array, width: int) -> Array:
    """The change of the cell number from a cook to what it faces."""
    return jnp.asarray((-width, width, 1, -1))[facing]


def ingredient(number: int) -> int:
    """The thing that is one ingredient."""
    return 4 << 2 * number


def contents(recipe: Sequence[int]) -> int:
    """The ingredients of a recipe, as they are in a pot."""
    return sum(ingredient(number) for number in recipe)


def is_ingredient(thing: Array) -> Array:
    """Whether a thing is an ingredient, and not on a plate."""
    return (thing >> 2 != 0) & (thing & PLATE == 0)


def count(thing: Array) -> Array:
    """How many ingredients are in it."""
    low = jax.lax.population_count((thing >> 2) & 0x15555555)
    high = jax.lax.population_count((thing >> 2) & 0x2AAAAAAA)
    return (low + 2 * high).astype(jnp.int32)


def ingredients_of(thing: int) -> list[int]:
    """The numbers of its ingredients, each as often as it has it."""
    numbers = range(MAX_INGREDIENTS)
    return [number for number in numbers for _ in range(thing >> 2 + 2 * number & 3)]


def ingredients_name(thing: int) -> str:
    """Its ingredients as digits: 001."""
    return "".join(map(str, ingredients_of(thing)))


def thing_name(thing: int) -> str:
    """The name in the recorded games: 0 is an ingredient, dish:001 a soup, and nothing is empty."""
    if thing & PLATE:
        return f"dish:{ingredients_name(thing)}" if thing & COOKED else "plate"
    return ingredients_name(thing)

"""Lists of recipes: what a soup pays and how long it cooks, by its contents.

They are data, part of the task: arrays indexed by a soup's contents in one byte
(`things.ONE_ONION`, `things.ONE_TOMATO`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array
from brigade.core.checks import within
from brigade.envs.overcooked.things import COOK_TIME, ONE_ONION, ONE_TOMATO, POT_SIZE
from brigade.registry import unknown_name


class Recipe(NamedTuple):
    """What a soup on the list pays when it is served, and how long it cooks."""

    value: float
    cook_time: int


# Those of ZSC-Eval. O is an onion, T a tomato.
RECIPES: Mapping[str, Recipe] = {
    "OOO": Recipe(20, 20),
    "OOT": Recipe(20, 20),
    "OTT": Recipe(20, 20),
    "OO": Recipe(10, 10),
    "OT": Recipe(10, 10),
}
WRONG_DELIVERY = -10.0  # for serving a soup that is not on the list
MAX_COOK_TIME = 250

CONTENTS = tuple(
    onions * ONE_ONION + tomatoes * ONE_TOMATO
    for onions in range(POT_SIZE + 1)
    for tomatoes in range(POT_SIZE + 1 - onions)
)
CODES = max(CONTENTS) + 1


class Recipes(struct.PyTreeNode):
    """A list of recipes as arrays. Leaves [CODES], indexed by contents."""

    value: Array  # f32: what serving the soup pays
    cook_time: Array  # uint8: in steps
    listed: Array  # bool: the soup is on the list
    best: Array  # f32: the highest value of a recipe that the contents can still become, or 0


def recipe_arrays(recipes: Mapping[str, Recipe] = RECIPES) -> Recipes:
    """The arrays of a list of recipes, by their ingredients: `{"OOT": Recipe(20, 20)}`."""
    value = np.full(CODES, WRONG_DELIVERY, np.float32)
    cook_time = np.full(CODES, COOK_TIME, np.uint8)
    listed = np.zeros(CODES, bool)
    best = np.zeros(CODES, np.float32)
    for name, recipe in recipes.items():
        code = contents_of(name)
        within(f"cook_time of {name}", recipe.cook_time, 1, MAX_COOK_TIME)
        value[code], cook_time[code], listed[code] = recipe.value, recipe.cook_time, True
        for part in CONTENTS:
            if is_part(part, code):
                best[part] = max(best[part], recipe.value)
    return Recipes(*(jnp.asarray(each) for each in (value, cook_time, listed, best)))


def choose_recipes(names: Sequence[str]) -> dict[str, Recipe]:
    """Some of ZSC-Eval's recipes by name; the order of letters does not matter."""
    by_code = {contents_of(name): name for name in RECIPES}
    chosen = {}
    for name in names:
        code = contents_of(name)
        if code not in by_code:
            raise ValueError(unknown_name("recipe", name, RECIPES))
        chosen[by_code[code]] = RECIPES[by_code[code]]
    if not chosen:
        raise ValueError(f"there is no recipe; give one or more of {', '.join(RECIPES)}")
    return chosen


def contents_of(name: str) -> int:
    """The contents that letters stand for: "OOT" is two onions and a tomato."""
    if not 1 <= len(name) <= POT_SIZE or not set(name) <= set("OT"):
        raise ValueError(
            f"recipe {name!r} is not known; write 1 to {POT_SIZE} letters O (onion) and T (tomato)"
        )
    return name.count("O") * ONE_ONION + name.count("T") * ONE_TOMATO


def is_part(some: int, whole: int) -> bool:
    """Whether ingredients can be added to `some` to get `whole`."""
    return some % ONE_TOMATO <= whole % ONE_TOMATO and some // ONE_TOMATO <= whole // ONE_TOMATO


def look_up(values: Array, contents: Array) -> Array:
    """The entries of an array [CODES] for an array of contents.

    As comparisons and sums, which fuse with their neighbours; a gather does not.
    """
    zero = jnp.zeros((), values.dtype if values.dtype != bool else jnp.int32)
    found = sum((jnp.where(contents == code, values[code], zero) for code in CONTENTS), zero)
    return found.astype(values.dtype)

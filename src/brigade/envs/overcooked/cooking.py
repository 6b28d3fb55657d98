"""How pots cook and what soups pay: with one recipe, or with a list of recipes.

`rules` asks one of these two for everything in which the games differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from brigade.core import Array
from brigade.envs.overcooked.recipes import look_up
from brigade.envs.overcooked.tasks import Task
from brigade.envs.overcooked.things import POT_SIZE, Item, onions, tomatoes

DELIVERY_REWARD = 20.0
JUST_STARTED = 255  # the tick of a pot between an interaction that starts it and the end of a step


def size(contents: Any) -> Any:
    """The number of ingredients in a soup."""
    return onions(contents) + tomatoes(contents)


@dataclass(frozen=True)
class OneRecipe:
    """A pot starts cooking as soon as it is full. All soups pay the same."""

    idle_at_pots: ClassVar[bool] = True  # an empty-handed interaction with a pot is an idle event

    def has_room(self, contents: Array, tick: Array, task: Task) -> Array:
        """Whether a pot takes another ingredient; a full one cooks."""
        return size(contents) < task.pot_size

    def can_start(self, contents: Array, tick: Array) -> Array:
        """Whether an empty-handed interaction starts the cooking."""
        return jnp.bool_(False)

    def cook_time(self, contents: Array, task: Task) -> Array:
        """Steps until a soup is ready."""
        return task.cook_time

    def plates_of_use(self, pot: Array, tick: Array) -> Array:
        """The number of plates the pots will need: one for each that is not empty."""
        return jnp.sum(pot != Item.NOTHING, dtype=jnp.int32)

    def cook(self, pot: Array, tick: Array, task: Task) -> Array:
        """A full pot cooks until its soup is ready, starting with the step that filled it."""
        is_full = size(pot) == task.pot_size
        return jnp.where(is_full & (tick < task.cook_time), tick + 1, tick).astype(jnp.uint8)

    def pay(self, contents: Array, task: Task) -> Array:
        """The reward for serving a soup."""
        return jnp.float32(DELIVERY_REWARD)

    def spoils(self, before: Array, after: Array, task: Task) -> Array:
        """Whether an ingredient makes it impossible to serve a soup that pays."""
        return jnp.bool_(False)


@dataclass(frozen=True)
class RecipeList:
    """An empty-handed interaction starts a pot with 1 to 3 ingredients.

    Soups on the task's list pay what the list says; others cost the cooks.
    """

    idle_at_pots: ClassVar[bool] = False

    def has_room(self, contents: Array, tick: Array, task: Task) -> Array:
        """Whether a pot takes another ingredient: not once it cooks."""
        return (size(contents) < POT_SIZE) & (tick == 0)

    def can_start(self, contents: Array, tick: Array) -> Array:
        """Whether an empty-handed interaction starts the cooking."""
        return (contents != Item.NOTHING) & (tick == 0)

    def cook_time(self, contents: Array, task: Task) -> Array:
        """Steps until a soup is ready, by its recipe."""
        return look_up(task.recipes.cook_time, contents)

    def plates_of_use(self, pot: Array, tick: Array) -> Array:
        """The number of plates the pots will need; full ones that wait do not count."""
        counts = (pot != Item.NOTHING) & ((tick > 0) | (size(pot) < POT_SIZE))
        return jnp.sum(counts, dtype=jnp.int32)

    def cook(self, pot: Array, tick: Array, task: Task) -> Array:
        """A pot that was started cooks until its soup is ready; its first tick is 1."""
        cooks = (tick > 0) & (tick < self.cook_time(pot, task))
        return jnp.where(
            tick == JUST_STARTED, jnp.uint8(1), jnp.where(cooks, tick + 1, tick)
        ).astype(jnp.uint8)

    def pay(self, contents: Array, task: Task) -> Array:
        """The reward for serving a soup."""
        return look_up(task.recipes.value, contents)

    def spoils(self, before: Array, after: Array, task: Task) -> Array:
        """Whether an ingredient makes it impossible to serve a soup that pays."""
        best = task.recipes.best
        return (look_up(best, before) > 0) & (look_up(best, after) <= 0)


Cooking = OneRecipe | RecipeList
COOKING: dict[str, Cooking] = {"single": OneRecipe(), "multi": RecipeList()}

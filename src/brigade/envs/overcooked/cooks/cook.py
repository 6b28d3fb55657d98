"""Scripted cooks: they fetch, cook and serve on shortest paths.

They act on the observation alone, so a cook can play any seat of any kitchen with the full view.
Which tasks a cook does, and how reliably, are its parameters (`Habits`), so cooks with different
habits share one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, get_args

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Environment, Key, Policy, View
from brigade.core.checks import one_of
from brigade.envs.overcooked import Overcooked
from brigade.envs.overcooked.cooks.kitchen_map import FOOD, NOTHING, PLATE, SOUP, Scene, parse
from brigade.envs.overcooked.cooks.planes import (
    UNREACHABLE,
    ahead,
    anywhere,
    only_if,
    values_around,
    walking_distance,
)
from brigade.envs.overcooked.env import RecipeKind
from brigade.envs.overcooked.things import INTERACT, STAY


class Habits(struct.PyTreeNode):
    """The parameters of a cook. Leaves [], or [members]."""

    cooks: Array  # bool: brings ingredients to pots, and starts them
    serves: Array  # bool: fetches plates, plates soups and serves them
    drops: Array  # f32: probability of leaving what it fetched on a counter

    @classmethod
    def of(cls, cooks: bool = True, serves: bool = True, drops: float = 0.0) -> Habits:
        """From plain values."""
        return cls(jnp.bool_(cooks), jnp.bool_(serves), jnp.float32(drops))


class Errand(struct.PyTreeNode):
    """The state of a cook from one timestep to the next. Leaves [..., seats]."""

    cell: Array  # int32: its position one step ago
    hand: Array  # int32: what it held
    dropping: Array  # bool: it is going to leave what it holds on a counter


@dataclass(frozen=True)
class Cook(Policy):
    """Fills pots while one has room, then plates and serves soups, by default.

    A cook that does only one of the two holds its item and waits until its partner has done the
    other. A cook that does both puts down items it cannot use now, and uses items on counters.
    Cooks in separate rooms pass ingredients, plates and soups over the counters between them.
    If all paths are blocked it moves in a random direction. If its last move was blocked, or its
    next move would only undo the last one, it stays with probability 1/2: otherwise two cooks could
    block each other, or step aside for each other, forever.
    """

    recipes: RecipeKind = "single"
    """The kitchen's: with multi, cooks start full pots, and use at most two tomatoes per soup."""

    always_samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of("recipes", self.recipes, get_args(RecipeKind))

    def init(self, key: Key) -> Habits:
        """The habits of a cook that does everything, reliably."""
        return Habits.of()

    def initial_carry(self, batch: tuple[int, ...]) -> Errand:
        """The state before an episode: empty hands."""
        zeros = jnp.zeros(batch, jnp.int32)
        return Errand(zeros, zeros, zeros == 1)

    def act(
        self, params: Habits, carry: Errand, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Errand, dict[str, Array]]:
        """One action per seat."""
        drop_key, wait_key, aside_key = jax.random.split(key, 3)
        shape = view.active.shape
        scene = parse(view.obs, self.recipes)
        fetched = (scene.hand == FOOD) | (scene.hand == PLATE)
        picked_up = fetched & ((carry.hand == NOTHING) | view.resets)
        drops = jax.random.uniform(drop_key, shape) < params.drops
        dropping = jnp.where(picked_up, drops, carry.dropping & fetched & ~view.resets)
        aside = jax.random.randint(aside_key, shape, 0, STAY)
        action = next_action(scene, targets(scene, params, dropping), aside)
        waits = is_stuck(scene, carry, view, action) & ~view.resets
        action = jnp.where(waits & jax.random.bernoulli(wait_key, 0.5, shape), STAY, action)
        return action.astype(jnp.int32), Errand(scene.cell, scene.hand, dropping), {}


@dataclass(frozen=True)
class Planner(Cook):
    """A cook with fixed habits."""

    drops: float = 0.1
    """Probability of leaving an ingredient or a plate on a counter."""

    cooks: ClassVar[bool] = True
    serves: ClassVar[bool] = True

    def init(self, key: Key) -> Habits:
        """Its habits."""
        return self.member()[1]

    @classmethod
    def for_game(cls, env: Environment) -> Planner:
        """A cook for Overcooked with the full view; an error for other environments."""
        if not isinstance(env, Overcooked) or env.view != "full":
            raise ValueError(
                "scripted cooks need Overcooked with the full view; choose another partner"
            )
        return cls(recipes=env.recipes)

    def member(self) -> tuple[Cook, Habits]:
        """The policy that all cooks share, and the parameters of this one."""
        return Cook(self.recipes), Habits.of(self.cooks, self.serves, self.drops)


@dataclass(frozen=True)
class Human(Planner):
    """A cook that fills pots; if no pot has room, it serves soups."""


@dataclass(frozen=True)
class OnionOnly(Planner):
    """A cook that only fills pots and starts them."""

    serves: ClassVar[bool] = False


@dataclass(frozen=True)
class PlateOnly(Planner):
    """A cook that only plates and serves soups."""

    cooks: ClassVar[bool] = False


# --- what a cook wants ---

Choices = Sequence[tuple[Array | bool, Array]]  # conditions and tiles; the first that holds counts


def targets(scene: Scene, habits: Habits, dropping: Array) -> Array:
    """[..., height, width] bool: the tiles a cook wants to use now; none if it has to wait."""
    chosen = jnp.zeros_like(scene.own)
    for hand, choices in (
        (NOTHING, with_empty_hands(scene, habits)),
        (FOOD, with_food(scene, habits, dropping)),
        (PLATE, with_plate(scene, habits, dropping)),
        (SOUP, with_soup(scene)),
    ):
        undecided = scene.hand == hand
        for condition, tiles in choices:
            chosen |= only_if(undecided & condition, tiles)
            undecided &= ~condition
    return chosen


def with_empty_hands(scene: Scene, habits: Habits) -> Choices:
    """Soups of other rooms come first, then pots to start, food while it is of use, and plates."""
    here, passing = scene.stations, scene.passing
    does_both = habits.cooks & habits.serves
    soups = soups_to_take(scene)
    food = food_to_take(scene, does_both)
    plates = plates_to_take(scene, does_both)
    food_of_use = anywhere(food) & (anywhere(here.open_pots) | passing.wants_food)
    plate_of_use = anywhere(plates) & (anywhere(here.busy_pots) | passing.wants_plate)
    clears = does_both & anywhere(passing.clutter) & anywhere(private_counters(scene))
    return (
        (habits.serves & anywhere(soups), soups),
        (clears, passing.clutter),
        (habits.cooks & anywhere(here.full_pots), here.full_pots),
        (habits.cooks & (food_of_use | ~habits.serves), food),
        (habits.serves & (plate_of_use | ~habits.cooks), plates),
    )


def soups_to_take(scene: Scene) -> Array:
    """Soups that others passed; without a serving tile, soups put down because none could pass."""
    soups, passing = scene.lying.soups, scene.passing
    can_serve = anywhere(scene.stations.servings)
    can_pass = ~can_serve & passing.others_serve & anywhere(passing.counters)
    return only_if(can_serve, soups & passing.shared) | only_if(can_pass, soups & ~passing.shared)


def food_to_take(scene: Scene, does_both: Array) -> Array:
    """Ingredients from piles and counters; tomatoes only where they do not spoil a soup."""
    here, lying, passing = scene.stations, scene.lying, scene.passing
    takes_tomatoes = anywhere(here.tomato_pots) & ~scene.others_hold_tomato
    free_to_take = may_take(passing.shared, passing.gives_food, does_both)
    onions = here.onion_piles | (lying.onions & free_to_take)
    tomatoes = here.tomato_piles | (lying.tomatoes & free_to_take)
    return onions | only_if(takes_tomatoes, tomatoes)


def plates_to_take(scene: Scene, does_both: Array) -> Array:
    """Plates from piles and counters."""
    passing = scene.passing
    free_to_take = may_take(passing.shared, passing.gives_plates, does_both)
    return scene.stations.plate_piles | (scene.lying.plates & free_to_take)


def may_take(shared: Array, gives: Array, does_both: Array) -> Array:
    """The counters from which a cook takes items: not what it has put there for others."""
    return only_if(does_both, ~shared) | only_if(~gives, shared)


def with_food(scene: Scene, habits: Habits, dropping: Array) -> Choices:
    """Into a pot, or over a counter to others. If neither is possible it waits or puts it down."""
    here, passing = scene.stations, scene.passing
    counter_free = anywhere(here.counters)
    pots = jnp.where(scene.holds_tomato[..., None, None], here.tomato_pots, here.open_pots)
    needs_free_hands = anywhere(here.full_pots | here.open_pots)
    return (
        (dropping & counter_free, here.counters),
        (anywhere(pots), pots),
        (passing.wants_food & ~scene.holds_tomato, passing.counters),
        (habits.serves | needs_free_hands, spare_counters(scene)),
    )


def with_plate(scene: Scene, habits: Habits, dropping: Array) -> Choices:
    """Over a counter to others who have none, or to a soup. A cook that does both does not wait."""
    here, passing = scene.stations, scene.passing
    soup_coming, counter_free = anywhere(here.busy_pots), anywhere(here.counters)
    return (
        (dropping & counter_free, here.counters),
        (passing.wants_plate, passing.counters),
        (habits.cooks & ~soup_coming & counter_free, spare_counters(scene)),
        (True, here.ready_pots),
    )


def with_soup(scene: Scene) -> Choices:
    """To a serving tile, or over a counter to others who have one."""
    here, passing = scene.stations, scene.passing
    return (
        (scene.holds_spoiled_soup & anywhere(here.counters), spare_counters(scene)),
        (anywhere(here.servings), here.servings),
        (passing.others_serve & anywhere(passing.counters), passing.counters),
        (passing.others_serve, here.counters),
    )


def private_counters(scene: Scene) -> Array:
    """Empty counters that no other room reaches."""
    return scene.stations.counters & ~scene.passing.shared


def spare_counters(scene: Scene) -> Array:
    """Empty counters for what cannot be used now; shared ones only if there are no others."""
    private = private_counters(scene)
    return jnp.where(anywhere(private)[..., None, None], private, scene.stations.counters)


def next_action(scene: Scene, target: Array, aside: Array) -> Array:
    """The next action on a shortest path to a target tile; `aside` if all paths are blocked.

    Without a target it stays, or gives way to a cook next to it.
    """
    distance = walking_distance(target, scene.room & ~scene.other)
    around = values_around(scene.own, distance, UNREACHABLE)
    action = jnp.where(around.min(-1) < UNREACHABLE, around.argmin(-1), aside)
    action = jnp.where(ahead(around, scene.facing) == 0, INTERACT, action)
    idle_action = jnp.where(scene.gives_way, aside, STAY)
    return jnp.where(anywhere(distance == 0), action, idle_action)


def is_stuck(scene: Scene, before: Errand, view: View, action: Array) -> Array:
    """Whether the last move was blocked, or the next one would only undo it."""
    walked = (view.prev_action >= 0) & (view.prev_action < STAY)
    stayed = scene.cell == before.cell
    width = view.obs.shape[-2]
    next_cell = scene.cell + jnp.array([-width, width, 1, -1, 0, 0])[action]
    turns_back = ~stayed & (next_cell == before.cell) & (scene.hand == before.hand)
    return (walked & stayed & scene.floor_ahead) | turns_back

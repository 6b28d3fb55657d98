"""The environment: kitchens in which the recipe may be hidden and cooks see a part of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Environment, Key, TaskSequence, TimeStep, View
from brigade.core.checks import at_least, within
from brigade.envs.overcooked_v2 import chance, rules
from brigade.envs.overcooked_v2.layouts import LAYOUTS
from brigade.envs.overcooked_v2.observe import changing_entries, num_channels, observe
from brigade.envs.overcooked_v2.rules import EVENTS, Settings, State, Whole
from brigade.envs.overcooked_v2.tasks import Task, sequence_from_kitchens
from brigade.envs.overcooked_v2.things import (
    ACTIONS,
    BUTTON,
    COOKED,
    FACINGS,
    MAX_INGREDIENTS,
    POT,
    STAY,
    TILE_OF_SYMBOL,
    ingredients_name,
    thing_name,
)

SYMBOLS = {code: symbol for symbol, code in TILE_OF_SYMBOL.items()}

MEANINGS = {
    "score": "right soups served, minus wrong ones if they cost points, divided by what one good "
    "cook who knows the recipes could serve alone",
    "coordination": "Placement: ingredients put into pots. Plate, soup: plates taken, soups taken "
    "from pots. Delivery, wrong_delivery: each seat's share of the soups served. Button: how often "
    "a seat paid to see the recipe.",
}


@dataclass(frozen=True)
class OvercookedV2(Environment):
    """Cooks who have to find out the recipe; the task is the kitchen."""

    num_agents: int = 2
    height: int = 5
    width: int = 8
    ingredients: int = 3  # planes per list of things: at least as many as the kitchens have
    horizon: int = 400
    view: int | None = 2  # tiles that cooks see each way: 2 is a window of 5 x 5; None: everything
    random_starts: bool = True  # anywhere in the room of the seat's start, facing anywhere
    random_things: bool = False  # things in hands, pots and on counters at the start
    negative_rewards: bool = True  # a wrong soup costs as much as a right one pays
    new_recipe_on_delivery: bool = True  # sample the recipe again after a right soup
    shows_delivery: bool = False  # a plane for serving tiles on which the right soup was served
    start_cooking_interaction: bool = False  # a full pot waits until a cook starts it

    num_actions = len(ACTIONS)
    action_names = ACTIONS
    stay_action = STAY
    fixed_length = True  # no episode ends before its horizon
    meanings = MappingProxyType(MEANINGS)
    events = EVENTS  # the kinds of `info["events"]` [seats, kinds]

    def __post_init__(self) -> None:
        within("num_agents", self.num_agents, 1, 4)
        within("ingredients", self.ingredients, 1, MAX_INGREDIENTS)
        for name in ("height", "width"):
            at_least(name, getattr(self, name), 3)
        at_least("horizon", self.horizon, 1)
        if self.view is not None:
            at_least("view", self.view, 1)

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """[height, width, planes], for one seat."""
        size = (self.height, self.width) if self.view is None else (2 * self.view + 1,) * 2
        return (*size, num_channels(self.ingredients, self.shows_delivery))

    @property
    def partial_view(self) -> str:
        """The window of a partial view."""
        return "" if self.view is None else f"{self.view} tiles each way"

    @property
    def settings(self) -> Settings:
        """The settings of the rules."""
        return Settings(self.negative_rewards, self.start_cooking_interaction)

    def reset(self, key: Key, task: Task) -> tuple[State, TimeStep]:
        """Start an episode with a recipe of the kitchen."""
        self._check_fit(task)
        recipe_key, start_key, thing_key = jax.random.split(key, 3)
        state = self._start(task).replace(recipe=chance.recipe(recipe_key, task))
        if self.random_starts:
            cell, facing = chance.starts(start_key, task)
            state = state.replace(cell=cell, facing=facing)
        if self.random_things:
            state = chance.things(thing_key, state, task, self.start_cooking_interaction)
        action = jnp.full(self.num_agents, -1, jnp.int32)
        events = jnp.zeros((self.num_agents, len(EVENTS)), bool)
        shaped = jnp.zeros(self.num_agents, jnp.float32)
        return state, self._time_step(state, task, action, jnp.float32(0.0), shaped, events)

    def step(self, key: Key, state: State, action: Array, task: Task) -> tuple[State, TimeStep]:
        """Play one joint action [seats]; `key` is for the next recipe only."""
        action = action.astype(jnp.int32)
        state, outcome = rules.step(state, action, task, self.settings)
        if self.new_recipe_on_delivery:
            new = chance.recipe(key, task)
            state = state.replace(recipe=jnp.where(outcome.delivered, new, state.recipe))
        return state, self._time_step(
            state, task, action, outcome.reward, outcome.shaped, outcome.events
        )

    def changing_inputs(self, tasks: Task) -> int | None:
        """Upper bound on the entries of an observation that change within an episode of `tasks`."""
        return changing_entries(tasks, self.view, self.shows_delivery)

    def max_soups(self, task: Task) -> Array:
        """Soups that one good cook could serve in an episode; at least 1, for finite scores."""
        return jnp.maximum(self.horizon // task.cycle_time, 1)

    def score(self, state: State, task: Task) -> Array:
        """Right soups, minus wrong ones if they cost points, as a share of `max_soups`."""
        return state.served / self.max_soups(task)

    def _start(self, task: Task) -> State:
        """Everybody at their starts, nothing anywhere, and the first recipe."""
        zeros = jnp.zeros(self.num_agents, jnp.int32)
        nothing = jnp.zeros(task.tile.size, jnp.int32)
        return State(
            cell=task.start,
            facing=zeros,
            held=zeros,
            thing=nothing,
            timer=nothing,
            recipe=task.recipes[0],
            delivered=jnp.bool_(False),
            served=jnp.int32(0),
            time=jnp.int32(0),
        )

    def _check_fit(self, task: Task) -> None:
        wanted = (self.height, self.width, self.num_agents)
        if (*task.tile.shape, *task.start.shape) != wanted:
            raise ValueError(
                f"the task has {task.tile.shape} tiles and {task.start.shape[0]} cooks; the "
                f"environment expects {wanted[:2]} tiles and {wanted[2]} cooks"
            )

    def _time_step(
        self, state: State, task: Task, action: Array, reward: Array, shaped: Array, events: Array
    ) -> TimeStep:
        seats = (self.num_agents,)
        shared = jnp.broadcast_to(reward, seats)
        view = View(
            obs=observe(state, task, self.ingredients, self.view, self.shows_delivery),
            avail=jnp.ones((*seats, self.num_actions), bool),
            prev_action=action,
            prev_reward=shared,
            first=jnp.broadcast_to(state.time == 0, seats),
            active=jnp.ones(seats, bool),
            task_id=jnp.broadcast_to(task.id, seats),
            state=Whole(state, task.tile),
        )
        info = {"shaped_reward": shaped, "events": events, "score": self.score(state, task)}
        return TimeStep(view, shared, jnp.bool_(False), state.time >= self.horizon, info)

    def describe(self, state: State, task: Task, seat: int | None = None) -> dict[str, Any]:
        """The kitchen; a seat does not see what is outside its window."""
        state, task = jax.device_get((state, task))
        width = task.tile.shape[1]

        def place(cell: Any) -> list[int]:
            return [int(cell) % width, int(cell) // width]

        def seen(cell: Any) -> bool:
            if seat is None or self.view is None:
                return True
            (x, y), (own_x, own_y) = place(cell), place(state.cell[seat])
            return max(abs(x - own_x), abs(y - own_y)) <= self.view

        tiles = task.tile.reshape(-1)
        letters = [SYMBOLS.get(int(kind), " ") if seen(n) else "?" for n, kind in enumerate(tiles)]
        shown = any(
            letter == "R" or (letter == "L" and state.timer[n]) for n, letter in enumerate(letters)
        )
        return {
            "tiles": ["".join(letters[n : n + width]) for n in range(0, len(letters), width)],
            "players": [
                [*place(cell), FACINGS[int(facing)], thing_name(int(held))] if seen(cell) else None
                for cell, facing, held in zip(state.cell, state.facing, state.held, strict=True)
            ],
            "pots": {
                "{},{}".format(*place(n)): [
                    ingredients_name(int(state.thing[n])),
                    int(state.timer[n]),
                    pot_status(int(state.thing[n]), int(state.timer[n])),
                ]
                for n in np.flatnonzero(tiles == POT)
                if seen(n)
            },
            "buttons": {
                "{},{}".format(*place(n)): int(state.timer[n])
                for n in np.flatnonzero(tiles == BUTTON)
                if seen(n)
            },
            "counters": [
                [*place(n), thing_name(int(state.thing[n]))]
                for n in np.flatnonzero((state.thing != 0) & (tiles != POT))
                if seen(n)
            ],
            "recipe": ingredients_name(int(state.recipe)) if seat is None or shown else None,
            "time": int(state.time),
            "horizon": self.horizon,
            "score": float(self.score(state, task)),
        }

    def picture(self, task: Task) -> np.ndarray:
        """RGB picture of a kitchen at its start, with the first of its recipes."""
        from brigade.envs.overcooked_v2.render import render

        return render(self._start(task), task)

    def frames(self, states: State, task: Task) -> list[np.ndarray]:
        """RGB pictures of an episode; `states` has leaves [timesteps, ...]."""
        from brigade.envs.overcooked_v2.render import render_states

        return render_states(states, task, view=self.view)

    @classmethod
    def example(cls) -> tuple[OvercookedV2, TaskSequence]:
        """A small instance for contract tests and documents."""
        names = ["cramped_room_up", "cramped_room_down", "test_time_simple"]
        env = cls(height=5, width=8, ingredients=2, horizon=20)
        kitchens = [LAYOUTS[name] for name in names]
        return env, sequence_from_kitchens(kitchens, names, steps=2000, height=5, width=8)


def pot_status(thing: int, timer: int) -> str:
    """empty, idle, cooking or ready."""
    if timer:
        return "cooking"
    if thing & COOKED:
        return "ready"
    return "idle" if thing else "empty"

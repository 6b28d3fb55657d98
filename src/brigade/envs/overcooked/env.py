"""Overcooked as an environment: its rules behind Brigade's protocol."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Environment, Key, TaskSequence, TimeStep, View
from brigade.core.checks import at_least, one_of, within
from brigade.envs.overcooked import chance, rules
from brigade.envs.overcooked.cooking import COOKING, DELIVERY_REWARD, Cooking, size
from brigade.envs.overcooked.events import event_names
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.envs.overcooked.masks import available_actions
from brigade.envs.overcooked.observe import Sight, changing_entries, in_sight, num_channels, observe
from brigade.envs.overcooked.rules import State
from brigade.envs.overcooked.tasks import Task, sequence_from_grids
from brigade.envs.overcooked.things import ACTIONS, STAY, UP, Tile, ingredients_name, thing_name

Reward = Literal["shared", "individual", "sparse"]
RecipeKind = Literal["single", "multi"]

SYMBOLS = tuple(Tile.OF_SYMBOL)  # of tiles, by their codes
FACINGS = "UDRL"  # letters in the recorded traces, in the order of the actions


MEANINGS = {
    "score": "soups served divided by what one good cook could serve alone",
    "coordination": "Deliveries: each seat's share of the soups served. Idle: share of steps "
    "spent standing still, walking into obstacles or interacting without effect; interacting with "
    "a pot that is not ready counts as work. Work: ingredients put into pots, plates fetched for "
    "soups, soups taken and delivered.",
}


@dataclass(frozen=True)
class Overcooked(Environment):
    """Cooks in a kitchen of tiles; the task is the kitchen."""

    num_agents: int = 2
    height: int = 7
    width: int = 7
    horizon: int = 400
    start_facing: Literal["random", "up"] = "random"
    random_starts: bool = False  # anywhere in the room of the seat's start
    view: Sight = "full"  # or visible tiles (forward, to each side, behind)
    reward: Reward = "shared"
    roles: bool = False  # apply the task's roles: chefs take no plates, waiters no ingredients
    sticky_actions: float = 0.0  # probability that a seat repeats its last action
    slip_chance: float = 0.0  # probability of slipping when moving off a slippery tile
    recipes: RecipeKind = "single"  # or the task's list of recipes, cooked by interaction
    action_masks: bool = False  # ZSC-Eval's: mask actions that certainly have no effect
    kitchens: int = 1  # if more, a task has so many, leaves [kitchens, ...]; an episode samples one

    num_actions = len(ACTIONS)
    fixed_length = True  # no episode ends before its horizon
    stay_action = STAY
    meanings = MappingProxyType(MEANINGS)

    def __post_init__(self) -> None:
        within("num_agents", self.num_agents, 1, 4)
        for name, least in (("height", 3), ("width", 3), ("horizon", 1), ("kitchens", 1)):
            at_least(name, getattr(self, name), least)
        one_of("start_facing", self.start_facing, ("random", "up"))
        one_of("reward", self.reward, get_args(Reward))
        one_of("recipes", self.recipes, COOKING)
        if not is_sight(self.view):
            raise ValueError(
                f"view is {self.view!r}; use 'full' or three numbers of tiles (forward, to each "
                "side, behind), such as (1, 1, 0)"
            )
        if self.roles and self.num_agents < 2:
            raise ValueError("roles need a chef and a waiter; give num_agents 2 or more")
        within("sticky_actions", self.sticky_actions, 0, 1)
        within("slip_chance", self.slip_chance, 0, 1)

    @property
    def cooking(self) -> Cooking:
        """How pots cook and what soups pay."""
        return COOKING[self.recipes]

    @property
    def events(self) -> tuple[str, ...]:
        """The kinds of `info["events"]` [seats, kinds]."""
        return event_names(self.cooking)

    @property
    def partial_view(self) -> str:
        """The window of a partial view."""
        if self.view == "full":
            return ""
        forward, sides, behind = self.view
        return f"{forward} forward, {sides} to each side, {behind} behind"

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """[height, width, channels], for one seat."""
        return (self.height, self.width, num_channels(self.num_agents))

    def reset(self, key: Key, task: Task) -> tuple[State, TimeStep]:
        """Start an episode: cooks on their start tiles in an empty kitchen."""
        shape, kitchen = (self.num_agents,), None
        if self.kitchens > 1:
            kitchen = jax.random.randint(jax.random.fold_in(key, 2), (), 0, self.kitchens)
            task = one_kitchen(task, kitchen)
        self._check_fit(task)
        if self.start_facing == "random":
            facing = jax.random.bits(key, shape, jnp.uint8).astype(jnp.int32) % 4
        else:
            facing = jnp.full(shape, UP, jnp.int32)
        state = rules.start(task, facing, self.cooking)
        if self.random_starts:
            state = state.replace(cell=chance.start_cells(jax.random.fold_in(key, 1), task))
        if self.sticky_actions:
            state = state.replace(last_action=jnp.full(shape, -1, jnp.int32))
        state = state.replace(kitchen=kitchen)
        nothing = jnp.zeros((*shape, len(self.events)), bool)
        outcome = rules.Outcome(jnp.zeros(shape), jnp.zeros(shape), nothing)
        return state, self._time_step(state, task, outcome, jnp.full(shape, -1, jnp.int32))

    def step(self, key: Key, state: State, action: Array, task: Task) -> tuple[State, TimeStep]:
        """Play one joint action [seats]; only sticky actions and slipping use `key`."""
        chosen = played = action.astype(jnp.int32)
        if self.kitchens > 1:
            task = one_kitchen(task, state.kitchen)
        if self.sticky_actions:
            stick_key = jax.random.fold_in(key, 0)
            played = chance.stick(stick_key, chosen, state.last_action, self.sticky_actions)
            state = state.replace(last_action=played)
        if self.slip_chance:
            slip_key = jax.random.fold_in(key, 1)
            played = chance.slip(slip_key, played, state.cell, task, self.slip_chance)
        state, outcome = rules.step(state, played, task, self.roles, self.cooking)
        return state, self._time_step(state, task, outcome, chosen)

    def changing_inputs(self, tasks: Task) -> int | None:
        """Upper bound on the entries of an observation that change within an episode of `tasks`."""
        return changing_entries(tasks, self.view) if self.kitchens == 1 else None

    def _check_fit(self, task: Task) -> None:
        wanted = (self.height, self.width, self.num_agents)
        if (*task.tile.shape, *task.start.shape) != wanted:
            raise ValueError(
                f"the task has {task.tile.shape} tiles and {task.start.shape[0]} cooks; the "
                f"environment expects {wanted[:2]} tiles and {wanted[2]} cooks"
            )

    def max_soups(self, task: Task) -> Array:
        """Soups that one good cook could serve in an episode; at least 1, for finite scores."""
        return jnp.maximum(self.horizon // task.cycle_time, 1)

    def score(self, state: State, task: Task) -> Array:
        """Soups served as a share of `max_soups`; with a list of recipes, points divided by 20."""
        soups = state.soups if state.earned is None else state.earned / DELIVERY_REWARD
        return soups / self.max_soups(task)

    def _time_step(
        self, state: State, task: Task, outcome: rules.Outcome, action: Array
    ) -> TimeStep:
        seats = (self.num_agents,)
        pay = outcome.pay if self.reward == "individual" else outcome.pay.sum()
        reward = jnp.broadcast_to(pay, seats)
        shaped = outcome.shaped_reward
        avail = jnp.ones((*seats, self.num_actions), bool)
        if self.action_masks:
            avail = available_actions(state, task, self.cooking)
        view = View(
            obs=observe(state, task, self.horizon, self.view, self.cooking),
            avail=avail,
            prev_action=action,
            prev_reward=reward,
            first=jnp.broadcast_to(state.time == 0, seats),
            active=jnp.ones(seats, bool),
            task_id=jnp.broadcast_to(task.id, seats),
            state=state,
        )
        info = {
            "shaped_reward": jnp.zeros_like(shaped) if self.reward == "sparse" else shaped,
            "events": outcome.events,
            "score": self.score(state, task),
        }
        return TimeStep(view, reward, jnp.bool_(False), state.time >= self.horizon, info)

    @property
    def action_names(self) -> tuple[str, ...]:
        return ACTIONS

    def describe(self, state: State, task: Task, seat: int | None = None) -> dict[str, Any]:
        """The kitchen; with a partial view, a seat does not see what is outside its window."""
        state, task = jax.device_get((state, task))
        if self.kitchens > 1:
            task = one_kitchen(task, state.kitchen)
        scene = describe(state, task) | {
            "tiles": ["".join(SYMBOLS[kind] for kind in row) for row in task.tile.tolist()],
            "time": int(state.time),
            "horizon": self.horizon,
            "score": float(self.score(state, task)),
        }
        if seat is None or self.view == "full":
            return scene
        seen = np.asarray(in_sight(state, task, self.view)[seat]).astype(bool)
        return within_sight(scene, seen.reshape(task.tile.shape))

    def picture(self, task: Task) -> np.ndarray:
        """RGB picture of a kitchen at its start."""
        from brigade.envs.overcooked.render import render

        facing = jnp.full(self.num_agents, UP, jnp.int32)
        if self.kitchens > 1:
            task = one_kitchen(task, 0)
        return render(rules.start(task, facing), task)

    def frames(self, states: State, task: Task) -> list[np.ndarray]:
        """RGB pictures of an episode; `states` has leaves [timesteps, ...]."""
        from brigade.envs.overcooked.render import render_states

        if self.kitchens > 1:
            task = one_kitchen(task, states.kitchen[0])
        return render_states(states, task)

    @classmethod
    def example(cls) -> tuple[Overcooked, TaskSequence]:
        """A small instance for contract tests and documents."""
        layouts = ("cramped_room", "coordination_ring", "forced_coordination")
        env = cls(height=5, width=5, horizon=20)
        grids = [LAYOUTS[name] for name in layouts]
        return env, sequence_from_grids(grids, layouts, steps=2000, height=5, width=5)


def one_kitchen(task: Task, index: Array | int) -> Task:
    """One of the kitchens of a task that has several."""
    return jax.tree.map(lambda x: x[index], task.replace(id=None)).replace(id=task.id)


def is_sight(view: object) -> bool:
    """Whether this is a valid view: 'full', or three numbers of tiles."""
    if isinstance(view, tuple):
        return len(view) == 3 and all(isinstance(n, int) and n >= 0 for n in view)
    return view == "full"


def describe(state: State, task: Task) -> dict[str, Any]:
    """Players, pots and counters of one kitchen, in the trace format of the original game."""
    width = task.tile.shape[1]
    tile = np.asarray(task.tile).reshape(-1)
    counter = np.asarray(state.counter)
    multi = state.earned is not None
    name = partial(thing_name, ingredients=multi)

    def place(cell: np.integer) -> tuple[int, int]:
        return int(cell) % width, int(cell) // width

    players = [
        [*place(cell), FACINGS[int(facing)], name(int(held))]
        for cell, facing, held in zip(
            np.asarray(state.cell), np.asarray(state.facing), np.asarray(state.held), strict=True
        )
    ]
    pots = {
        "{},{}".format(*place(cell)): pot_state(state, task, int(cell))
        for cell in np.flatnonzero(tile == Tile.POT)
    }
    counters = [[*place(cell), name(int(counter[cell]))] for cell in np.flatnonzero(counter)]
    return {"players": players, "pots": pots, "counters": sorted(counters)}


def within_sight(scene: dict[str, Any], seen: np.ndarray) -> dict[str, Any]:
    """The scene without what is on tiles that are not `seen` [height, width]; players elsewhere are
    None, tiles "?"."""

    def visible(x: int, y: int) -> bool:
        return bool(seen[y, x])

    return scene | {
        "tiles": [
            "".join(letter if visible(x, y) else "?" for x, letter in enumerate(row))
            for y, row in enumerate(scene["tiles"])
        ],
        "players": [player if visible(*player[:2]) else None for player in scene["players"]],
        "pots": {
            place: pot
            for place, pot in scene["pots"].items()
            if visible(*map(int, place.split(",")))
        },
        "counters": [each for each in scene["counters"] if visible(*each[:2])],
    }


def pot_state(state: State, task: Task, cell: int) -> list[Any]:
    """What is in a pot, and its cooking tick, -1 while it is not cooking.

    In a kitchen with one recipe that is a number; with a list of recipes it is the ingredients, and
    the pot's status follows.
    """
    contents, tick = int(state.pot[cell]), int(state.tick[cell])
    if state.earned is None:
        return [size(contents), tick or -1]
    if tick:
        status = "ready" if tick == int(task.recipes.cook_time[contents]) else "cooking"
    else:
        status = "idle" if contents else "empty"
    return [ingredients_name(contents), tick or -1, status]

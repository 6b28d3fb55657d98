"""Overcooked as an environment: the rules behind the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Key, TaskSequence, TimeStep, View
from brigade.envs.overcooked import rules
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.envs.overcooked.observe import changing_entries, num_channels, observe
from brigade.envs.overcooked.rules import State
from brigade.envs.overcooked.tasks import Task, sequence_from_grids
from brigade.envs.overcooked.things import ACTIONS, POT, UP, onions, thing_name, tomatoes

FACINGS = "UDRL"  # the letters of the traces, in the order of the actions


@dataclass(frozen=True)
class Overcooked:
    """Cooks in a kitchen of `height` x `width` tiles; which kitchen it is, the task says."""

    num_agents: int = 2
    height: int = 7
    width: int = 7
    horizon: int = 400
    start_facing: Literal["random", "up"] = "random"

    num_actions = len(ACTIONS)
    fixed_length = True  # no game ends before its horizon

    def __post_init__(self) -> None:
        if not 1 <= self.num_agents <= 4:
            raise ValueError(f"num_agents is {self.num_agents}; a kitchen seats 1 to 4 cooks")
        if self.start_facing not in ("random", "up"):
            raise ValueError(f"start_facing is {self.start_facing!r}; use 'random' or 'up'")
        if min(self.height, self.width) < 3 or self.horizon < 1:
            raise ValueError("a kitchen has at least 3 x 3 tiles and a horizon of at least 1 step")

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """[height, width, channels] of one seat."""
        return (self.height, self.width, num_channels(self.num_agents))

    def reset(self, key: Key, task: Task) -> tuple[State, TimeStep]:
        """Cooks at their starts, an empty kitchen."""
        shape = (self.num_agents,)
        self._check_fit(task)
        if self.start_facing == "random":
            facing = jax.random.bits(key, shape, jnp.uint8).astype(jnp.int32) % 4
        else:
            facing = jnp.full(shape, UP, jnp.int32)
        state = rules.start(task, facing)
        nobody = jnp.zeros(shape, bool)
        outcome = rules.Outcome(
            nobody, jnp.zeros(shape), jnp.zeros((*shape, len(rules.EVENTS)), bool)
        )
        return state, self._time_step(state, task, outcome, jnp.full(shape, -1, jnp.int32))

    def step(self, key: Key, state: State, action: Array, task: Task) -> tuple[State, TimeStep]:
        """Play one joint action [seats]. Overcooked itself has no chance in it: `key` is unused."""
        state, outcome = rules.step(state, action, task)
        return state, self._time_step(state, task, outcome, action.astype(jnp.int32))

    def changing_inputs(self, tasks: Task) -> int:
        """At most so many entries of an observation change within a game of any of `tasks`."""
        return changing_entries(tasks)

    def _check_fit(self, task: Task) -> None:
        wanted = (self.height, self.width, self.num_agents)
        if (*task.tile.shape, *task.start.shape) != wanted:
            raise ValueError(
                f"the task is a kitchen of {task.tile.shape} tiles for {task.start.shape[0]}, the "
                f"environment one of {wanted[:2]} for {wanted[2]}; give both the same"
            )

    def max_soups(self, task: Task) -> Array:
        """What one good cook could serve in time; at least 1, so that scores are finite."""
        return jnp.maximum(self.horizon // task.cycle_time, 1)

    def _time_step(
        self, state: State, task: Task, outcome: rules.Outcome, action: Array
    ) -> TimeStep:
        seats = (self.num_agents,)
        reward = jnp.full(seats, rules.DELIVERY_REWARD * outcome.deliveries.sum(), jnp.float32)
        view = View(
            obs=observe(state, task, self.horizon),
            avail=jnp.ones((*seats, self.num_actions), bool),
            prev_action=action,
            prev_reward=reward,
            first=jnp.broadcast_to(state.time == 0, seats),
            active=jnp.ones(seats, bool),
            task_id=jnp.broadcast_to(task.id, seats),
            state=state,
        )
        info = {
            "shaped_reward": outcome.shaped_reward,
            "events": outcome.events,
            "score": state.soups / self.max_soups(task),
        }
        return TimeStep(view, reward, jnp.bool_(False), state.time >= self.horizon, info)

    def picture(self, task: Task) -> np.ndarray:
        """RGB of a kitchen at its start."""
        from brigade.envs.overcooked.render import render

        facing = jnp.full(self.num_agents, UP, jnp.int32)
        return render(rules.start(task, facing), task)

    def frames(self, states: State, task: Task) -> list[np.ndarray]:
        """RGB pictures of a game, `states` with leaves [moments, ...]."""
        from brigade.envs.overcooked.render import render_states

        return render_states(states, task)

    @classmethod
    def example(cls) -> tuple[Overcooked, TaskSequence]:
        """A small instance for contract tests and documents."""
        layouts = ("cramped_room", "coordination_ring", "forced_coordination")
        env = cls(height=5, width=5, horizon=20)
        grids = [LAYOUTS[name] for name in layouts]
        return env, sequence_from_grids(grids, layouts, steps=2000, height=5, width=5)


def describe(state: State, task: Task) -> dict[str, Any]:
    """Players, pots and counters of a single kitchen, in the format of the original's traces."""
    width = task.tile.shape[1]
    tile = np.asarray(task.tile).reshape(-1)
    counter, pot, tick = (np.asarray(x) for x in (state.counter, state.pot, state.tick))

    def place(cell: np.integer) -> tuple[int, int]:
        return int(cell) % width, int(cell) // width

    players = [
        [*place(cell), FACINGS[int(facing)], thing_name(int(held))]
        for cell, facing, held in zip(
            np.asarray(state.cell), np.asarray(state.facing), np.asarray(state.held), strict=True
        )
    ]
    pots = {
        "{},{}".format(*place(cell)): [
            int(onions(pot[cell]) + tomatoes(pot[cell])),
            int(tick[cell]) or -1,
        ]
        for cell in np.flatnonzero(tile == POT)
    }
    counters = [[*place(cell), thing_name(int(counter[cell]))] for cell in np.flatnonzero(counter)]
    return {"players": players, "pots": pots, "counters": sorted(counters)}

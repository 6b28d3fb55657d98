"""A stream of different games: observations of one shape, and the union of all actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Environment, HostGames, Key, Simulator, TaskSequence, TimeStep
from brigade.core.types import State


class GameTask(struct.PyTreeNode):
    """A task of one of several games."""

    id: Any
    of_game: tuple[Any, ...]  # a task of every game; only that of its own game is played


def joined(
    games: Sequence[Environment], names: Sequence[str], numbers: Sequence[int] | None = None
) -> tuple[Environment, ...]:
    """The games, each with the observations and actions of all: what it lacks is 0 or masked.

    Games that differ in kind are refused. Tasks are those of `sequence_of_games`; `numbers` say
    which of its games each is, such as for variants in evaluations. By default they count from 0.
    """
    for game, name in zip(games, names, strict=True):
        for what, describe in DIFFERENCES.items():
            one, other = describe(games[0]), describe(game)
            if one != other:
                raise ValueError(
                    f"{names[0]} and {name} cannot be tasks of one stream: {what} are {one} and "
                    f"{other}"
                )
    shape = tuple(max(sizes) for sizes in zip(*(game.obs_shape for game in games), strict=True))
    events = tuple(dict.fromkeys(event for game in games for event in game.events))
    actions = max(game.num_actions for game in games)
    kind = OneOfSeveral if games[0].traced else SimulatorOfSeveral
    return tuple(
        kind.of(game, number, shape, actions, events)
        for number, game in zip(numbers or range(len(games)), games, strict=True)
    )


DIFFERENCES = {
    "actions": lambda game: "continuous" if game.continuous else "discrete",
    "observations": lambda game: {1: "vectors", 2: "matrices", 3: "pictures"}.get(
        len(game.obs_shape), f"arrays with {len(game.obs_shape)} axes"
    ),
    "seats": lambda game: str(game.num_agents),
    "simulators": lambda game: "on the device" if game.traced else "on the host",
}


def sequence_of_games(
    tasks: Sequence[Any], games: Sequence[int], names: Sequence[str], steps: int
) -> TaskSequence:
    """A stream of tasks of different games; `games` has the index of each task's game."""
    first = {game: task for task, game in reversed(list(zip(tasks, games, strict=True)))}
    by_game = [first.get(game, tasks[0]) for game in range(max(games) + 1)]
    both = [
        GameTask(0, (*by_game[:game], task, *by_game[game + 1 :]))
        for task, game in zip(tasks, games, strict=True)
    ]
    return TaskSequence.from_tasks(both, names, steps, games=games)


@dataclass(frozen=True)
class OneOfSeveral(Environment):
    """A game with larger observations and more actions than it has by itself."""

    game: Any
    number: int
    obs_shape: tuple[int, ...]
    num_actions: int
    events: tuple[str, ...] = ()

    # As the game has them.
    num_agents: int = 1
    horizon: int = 1
    continuous: bool = False
    stay_action: Any = None
    meanings: Any = field(default=None, compare=False)
    fixed_length: bool = False
    frames_per_second: int = 8

    @classmethod
    def of(cls, game: Environment, *shared: Any) -> OneOfSeveral:
        """A game with what all have in common: its number, sizes and events."""
        same = {each.name: getattr(game, each.name) for each in fields(cls)[1 + len(shared) :]}
        return cls(game, *shared, **same)

    def reset(self, key: Key, task: GameTask) -> tuple[State, TimeStep]:
        state, now = self.game.reset(key, self.own(task))
        return state, self.widened(now, jnp)

    def step(self, key: Key, state: State, action: Array, task: GameTask) -> tuple[State, TimeStep]:
        state, then = self.game.step(key, state, self.own_action(action), self.own(task))
        return state, self.widened(then, jnp)

    @property
    def action_names(self) -> tuple[str, ...]:
        more = self.num_actions - self.game.num_actions
        return (*self.game.action_names, *(f"of another game {n}" for n in range(1, more + 1)))

    def describe(self, state: State, task: GameTask, seat: int | None = None) -> dict[str, Any]:
        described: dict[str, Any] = self.game.describe(state, self.own(task), seat)
        return described

    def picture(self, task: GameTask) -> Any:
        return self.game.picture(self.own(task))

    def frames(self, states: Any, task: GameTask) -> Any:
        return self.game.frames(states, self.own(task))

    def own(self, task: GameTask) -> Any:
        """The task of this game."""
        return task.of_game[self.number].replace(id=task.id)

    def own_action(self, action: Any) -> Any:
        """The action without components that the game does not have."""
        return action[..., : self.game.num_actions] if self.continuous else action

    def widened(self, now: TimeStep, xp: Any) -> TimeStep:
        """The timestep padded with zeros, and with masks; `xp` is jax.numpy or NumPy."""
        view = now.view
        front = [(0, 0)] * (view.obs.ndim - len(self.obs_shape))
        sizes = zip(self.obs_shape, self.game.obs_shape, strict=True)
        more = [(0, 0)] * (view.avail.ndim - 1) + [(0, self.num_actions - self.game.num_actions)]
        view = view.replace(
            obs=xp.pad(view.obs, front + [(0, size - own) for size, own in sizes]),
            avail=xp.pad(view.avail, more, constant_values=self.continuous),
            prev_action=xp.pad(view.prev_action, more) if self.continuous else view.prev_action,
        )
        info = now.info
        if self.events != self.game.events:
            columns = [self.events.index(event) for event in self.game.events]
            counts = xp.zeros((*now.reward.shape, len(self.events)), xp.float32)
            if columns:
                spread = np.eye(len(self.events), dtype=np.float32)[columns]
                counts = counts + info["events"] @ spread
            info = info | {"events": counts}
        return now.replace(view=view, info=info)


@dataclass(frozen=True)
class SimulatorOfSeveral(OneOfSeveral, Simulator):
    """The same for a game that runs on the host."""

    @property
    def obs_dtype(self) -> Any:
        return self.game.obs_dtype

    def open(self, num_envs: int, pictures: bool = False) -> HostGames:
        return WidenedGames(self, self.game.open(num_envs, pictures))


@dataclass
class WidenedGames(HostGames):
    """Running games with the observations and actions of all."""

    like: SimulatorOfSeveral
    games: HostGames

    def reset(self, seed: int) -> TimeStep:
        return self.like.widened(self.games.reset(seed), np)

    def step(self, action: np.ndarray) -> TimeStep:
        return self.like.widened(self.games.step(self.like.own_action(action)), np)

    def frame(self, game: int) -> np.ndarray:
        return self.games.frame(game)

    def close(self) -> None:
        self.games.close()

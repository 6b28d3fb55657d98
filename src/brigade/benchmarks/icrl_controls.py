"""Positive controls of in-context learning: games in which a policy that adapts is told apart from
one that does not, within minutes on two CPU cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from brigade.core import Benchmark, Histories, TaskSequence
from brigade.core.checks import at_least, within
from brigade.core.histories import EXPERT_ACTIONS
from brigade.envs.dark_room import MOVES, DarkRoom, rooms
from brigade.envs.levers import Levers, conventions, meetings
from brigade.histories.controls import explorers, lever_pullers, walks_and_experts

SPLIT = 20  # the seed of which goals and conventions are held out, the same for all runs
MEASURES = ("first_episode", "last_episodes", "adaptation")
SMALL: dict[str, dict[str, Any]] = {
    "network": {"size": "small", "hidden": [64], "precision": "float32"},
    "training": {"learning_rate": 3e-3},
}


@dataclass(frozen=True)
class RoomSettings:
    """The rooms, and the histories to learn from."""

    goals: int = 60
    """Goals of the histories; evaluations have the others."""
    streams: int = 64
    """Histories per goal."""
    episodes: int = 16
    """Episodes of a history of somebody who learns."""
    context_episodes: int = 16
    """Episodes of a history with labels of an expert."""

    def __post_init__(self) -> None:
        within("goals", self.goals, 1, 79)
        for name in ("streams", "episodes", "context_episodes"):
            at_least(name, getattr(self, name), 1)


def dark_room(settings: RoomSettings | None = None) -> Benchmark:
    """A hidden goal, found and remembered.

    Evaluations have 20 goals that no history has, and 40 episodes in one context.
    """
    settings, env = settings or RoomSettings(), DarkRoom()
    cells = np.argwhere(np.ones((env.side, env.side), bool))
    goals = np.random.default_rng(SPLIT).permutation(
        cells[(cells != env.side // 2).any(1)]  # nobody has to look for the centre
    )
    known, held_out = goals[: settings.goals], goals[settings.goals :]

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        within("tasks", num_tasks, 1, len(held_out))
        return rooms([(int(row), int(col)) for row, col in held_out[:num_tasks]], steps)

    def histories(seed: int, needs: tuple[str, ...]) -> Histories:
        experts = EXPERT_ACTIONS in needs
        play = walks_and_experts if experts else explorers
        episodes = settings.context_episodes if experts else settings.episodes
        generator = np.random.default_rng([seed, SPLIT])
        where = (known, MOVES, env.side, env.horizon)
        return play(*where, settings.streams, episodes, generator)

    return Benchmark(
        id="icrl/dark_room",
        summary="A goal in a dark room, found and kept in mind over 40 episodes",
        env=env,
        sequence=sequence,
        num_tasks=len(held_out),
        steps_per_task=128_000,
        num_seeds=1,
        num_envs=16,
        num_steps=160,
        eval_every=1000,
        eval_episodes=1,
        learner="ad",
        presets={"paper": {"eval_consecutive": 40, **with_context(160)}},
        measures=MEASURES,
        histories=histories,
        settings=settings,
        configure=dark_room,
    )


@dataclass(frozen=True)
class LeverSettings:
    """The conventions, and the histories to learn from."""

    known: int = 300
    """Conventions of the histories."""
    held_out: int = 100
    """Conventions of the partners in evaluations."""
    streams: int = 4
    """Histories per convention."""
    episodes: int = 10
    """Episodes of a history."""

    def __post_init__(self) -> None:
        for name in ("known", "held_out", "streams", "episodes"):
            within(name, getattr(self, name), 1, 10_000)


def levers(settings: LeverSettings | None = None) -> Benchmark:
    """A partner's convention, found out in play.

    Evaluations have 100 partners that no history has, and 10 episodes in one context.
    """
    settings, env = settings or LeverSettings(), Levers()
    number = settings.known + settings.held_out
    # Sampled as numbers, so that no two are the same.
    sampled = np.random.default_rng(SPLIT).choice(env.levers**env.horizon, number, replace=False)
    sequences = sampled[:, None] // env.levers ** np.arange(env.horizon) % env.levers
    known, held_out = sequences[: settings.known], sequences[settings.known :]

    def histories(seed: int, needs: tuple[str, ...]) -> Histories:
        generator = np.random.default_rng([seed, SPLIT])
        return lever_pullers(known, env.levers, settings.streams, settings.episodes, generator)

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        return meetings(num_tasks, steps)

    return Benchmark(
        id="icrl/levers",
        summary="A partner's convention, to be found out within ten episodes",
        env=env,
        sequence=sequence,
        num_tasks=1,
        steps_per_task=400 * 32 * 80,
        num_seeds=1,
        num_envs=32,
        num_steps=80,
        eval_every=200,
        eval_episodes=1,
        learner="ad",
        cast=conventions(held_out),
        seats=("0",),
        presets={"paper": {"eval_consecutive": 10, **with_context(80)}},
        measures=MEASURES,
        histories=histories,
        settings=settings,
        configure=levers,
    )


def with_context(length: int) -> dict[str, Any]:
    """The settings of a small policy with a context of so many timesteps."""
    return {**SMALL, "network": {**SMALL["network"], "context": length}}

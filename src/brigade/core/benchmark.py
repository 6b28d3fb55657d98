"""The description of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brigade.core.environment import Environment
from brigade.core.seating import Cast
from brigade.core.types import TaskSequence

# The measures of a stream of tasks (MEAL).
CONTINUAL_MEASURES = (
    "average_score",
    "forgetting",
    "after_training",
    "forward_transfer",
    "area_gained",
)


@dataclass(frozen=True)
class Benchmark:
    """The description of an experiment: the paper's numbers and choices, no loops."""

    id: str
    summary: str
    env: Environment
    sequence: Callable[[int, int, int], TaskSequence]  # (seed, num_tasks, steps per task)
    num_tasks: int
    steps_per_task: int
    num_seeds: int
    num_envs: int
    num_steps: int  # of a rollout
    eval_every: int  # updates between evaluations
    eval_episodes: int
    learner: str
    # Of a stream of different games, all of them with one shape of observations and actions (see
    # `brigade.envs.joined`); `env` is the first. `TaskSequence.games` says which task is which.
    games: tuple[Environment, ...] = ()
    # The same games as evaluations play them, if those differ.
    test_games: tuple[Environment, ...] = ()
    # Partners for the seats that are not the learner's; without any, the learner has every seat.
    # `seats` are the learner's: numbers from 0, or `random` once per sampled seat.
    cast: Cast = field(default_factory=Cast)
    seats: tuple[str, ...] = ("random",)
    # Partners that are only met in evaluations, and the policy file (FILE:NAME) with the parameters
    # that the learner starts from.
    held_out: Cast = field(default_factory=Cast)
    # Some of them by name, in sets that measures compare.
    held_out_sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    start_from: str = ""
    # The measures its reports and tables show (`brigade list measures`).
    measures: tuple[str, ...] = CONTINUAL_MEASURES
    # Named settings that differ from the paper's, in the form of a config file.
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The same for populations, by the name of their generator.
    generators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The same for continual methods, by their names.
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Settings of the environment, a frozen dataclass (`--env.*` on the command line), and the
    # function that builds the benchmark from other settings.
    settings: Any = None
    configure: Callable[[Any], Benchmark] | None = None

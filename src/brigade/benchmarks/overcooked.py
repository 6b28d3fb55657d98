"""One published kitchen, by name.

Reference: M. Carroll and others, *On the utility of learning about humans for human-AI
coordination*, NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

from brigade.benchmarks.meal import RUNS, presets
from brigade.core import Benchmark, TaskSequence
from brigade.core.checks import at_least
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.envs.overcooked.env import Reward
from brigade.registry import unknown_name

KITCHEN = "cramped_room"


@dataclass(frozen=True)
class LayoutSettings:
    """The kitchen and its rules."""

    layout: str = KITCHEN
    """The kitchen, a published layout for two cooks."""
    reward: Reward = "shared"
    """Who gets the reward for a soup: both cooks, its server, or both without shaped rewards."""
    horizon: int = 400
    """Maximum length of an episode in steps."""

    def __post_init__(self) -> None:
        at_least("horizon", self.horizon, 1)
        if self.layout not in LAYOUTS:
            raise ValueError(unknown_name("layout", self.layout, LAYOUTS))

    def env(self) -> Overcooked:
        """The environment, as large as the kitchen."""
        grid = LAYOUTS[self.layout]
        return Overcooked(2, len(grid), len(grid[0]), self.horizon, reward=self.reward)


def layout(settings: LayoutSettings | None = None) -> Benchmark:
    """One kitchen: cramped_room, or --env.layout."""
    settings = settings or LayoutSettings()

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        task = task_from_grid(LAYOUTS[settings.layout], num_agents=2)
        names = [settings.layout, *(f"{settings.layout} again {n}" for n in range(1, num_tasks))]
        return TaskSequence.from_tasks([task] * num_tasks, names, steps)

    return Benchmark(
        id="overcooked/layout",
        summary="one published kitchen, chosen with --env.layout",
        env=settings.env(),
        sequence=sequence,
        num_tasks=1,
        steps_per_task=10_000_000,
        **RUNS,
        presets=presets(settings.reward),
        settings=settings,
        configure=layout,
    )

"""MEAL: continual multi-agent learning over generated kitchens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Literal

import numpy as np

from brigade.core import Benchmark, TaskSequence
from brigade.core.checks import within
from brigade.envs.overcooked import Overcooked, Task, task_from_grid
from brigade.envs.overcooked.conditions import (
    draw_cook_time,
    draw_pot_size,
    draw_roles,
    draw_slippery,
)
from brigade.envs.overcooked.env import Reward
from brigade.envs.overcooked.generate import (
    KitchenSpec,
    generate_sequence,
    level_spec,
    random_stream,
)
from brigade.envs.overcooked.grid import Grid
from brigade.envs.overcooked.observe import Sight, Window

# A batch small enough for two CPU cores, and settings that learn a level-1 kitchen from half a
# million steps.
LAPTOP = {
    "seeds": 1,
    "steps_per_task": 5e5,
    "num_envs": 16,
    "eval_every": 8,
    "ppo": {
        "learning_rate": 2e-3,
        "final_learning_rate": 5e-4,
        "epochs": 4,
        "minibatches": 8,
        "shaping_steps": 5e5,
    },
    "network": {"hidden": [64, 64]},
}

# What the paper does not say and its release decides.
PAPER = {"greedy": True}

CURRICULUM = ("1", "2", "3")

# What a cook sees when it does not see everything: tiles forward, to each side, behind.
WINDOWS: Mapping[str, Window] = {
    "1": (1, 1, 0),
    "2": (2, 1, 0),
    "3": (3, 2, 1),
    "extreme": (4, 2, 1),
    "release-1": (1, 1, 0),
    "release-2": (2, 1, 0),
    "release-3": (3, 1, 1),
    "release-extreme": (4, 2, 1),
}

# What is drawn for a task beside its kitchen. Each has a stream of its own, so that switching one
# on changes nothing else.
STREAMS = ("level", "roles", "slippery", "pot size", "cook time")


@dataclass(frozen=True)
class KitchenSettings:
    """How the kitchens of a sequence are played; the defaults are the paper's main setting."""

    num_agents: int = 2
    """Cooks, 1 to 4."""
    view: Literal["level"] | Sight = "full"
    """What a cook sees: full, level (the window of the level), or tiles forward, sides, behind."""
    reward: Reward = "shared"
    """Who is paid for a soup: everybody, the cook who serves it, or everybody without shaping."""
    roles: bool = False
    """Make every cook of a task a chef, who takes no plates, or a waiter, who takes no food."""
    random_starts: bool = False
    """Start games anywhere in the room of the seat."""
    sticky_actions: float = 0.0
    """How likely a cook repeats its last action."""
    slippery: float = 0.0
    """Share of the floor that is slippery."""
    slip_chance: float = 0.25
    """How likely a cook who walks off a slippery tile goes a random way."""
    random_pot_sizes: bool = False
    """Draw how many ingredients a task's soups take, 1 to 5."""
    random_cook_times: bool = False
    """Draw how many steps a task's soups take, 10 to 30."""
    require_handoff: bool = False
    """Only kitchens where no soup is served without passing things over counters."""

    def __post_init__(self) -> None:
        within("slippery", self.slippery, 0, 1)
        within("slip_chance", self.slip_chance, 0, 1)
        if self.require_handoff and self.num_agents < 2:
            raise ValueError("require_handoff needs somebody to hand to; give num_agents 2 or more")
        self.env(side=3, window="full" if self.view == "level" else self.view)

    def env(self, side: int, window: Sight) -> Overcooked:
        """The environment of kitchens with sides of up to `side` tiles."""
        return Overcooked(
            num_agents=self.num_agents,
            height=side,
            width=side,
            random_starts=self.random_starts,
            view=window,
            reward=self.reward,
            roles=self.roles,
            sticky_actions=self.sticky_actions,
            slip_chance=self.slip_chance if self.slippery else 0.0,
        )

    def spec(self, level: str) -> KitchenSpec:
        """What to draw for a level."""
        spec = replace(
            level_spec(level), require_handoff=self.require_handoff, require_roles=self.roles
        )
        # Rooms that need a hand-off leave little for roles: a few hundred attempts are usual.
        return replace(spec, max_attempts=20_000) if self.roles and self.require_handoff else spec

    def window(self, levels: Sequence[str]) -> Sight:
        """What a cook sees in kitchens of these levels."""
        if self.view != "level":
            return self.view
        windows = {WINDOWS[level] for level in levels}
        if len(windows) > 1:
            raise ValueError(
                "view is 'level', but the levels of this sequence have different windows; give one "
                f"for all, such as {max(windows)}"
            )
        return windows.pop()

    def task(self, grid: Grid, seed: int, place: int, side: int) -> Task:
        """A kitchen with what is drawn for its place in the sequence of a seed."""
        seats, stream = self.num_agents, partial(task_stream, seed, place)
        drawn: dict[str, Any] = {}
        if self.roles:
            drawn["roles"] = draw_roles(grid, seats, stream("roles"))
        if self.slippery:
            drawn["slippery"] = draw_slippery(grid, seats, self.slippery, stream("slippery"))
        if self.random_pot_sizes:
            drawn["pot_size"] = draw_pot_size(stream("pot size"))
        if self.random_cook_times:
            drawn["cook_time"] = draw_cook_time(stream("cook time"))
        return task_from_grid(grid, num_agents=seats, height=side, width=side, **drawn)


@dataclass(frozen=True)
class MixedSettings(KitchenSettings):
    """The same for sequences of several levels."""

    levels: tuple[str, ...] = CURRICULUM
    """The levels, in the order of a curriculum; in a mix, one named twice comes twice as often."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for level in self.levels:
            level_spec(level)
        if len(set(self.levels)) < 2:
            raise ValueError(
                f"levels {' '.join(self.levels) or 'are none'}; it takes two or more different "
                "ones, or meal/level-1 for a single one"
            )


def task_stream(seed: int, place: int, what: str) -> Random:
    """The random numbers for one thing that is drawn for a task beside its kitchen."""
    return random_stream(np.random.SeedSequence(seed, spawn_key=(place, STREAMS.index(what))))


# --- which level each task of a sequence has ---

Levels = Callable[[int, int], Sequence[str]]  # (seed, num_tasks)


def one_level(level: str) -> Levels:
    """The same for all."""
    return lambda seed, num_tasks: [level] * num_tasks


def rising_levels(levels: Sequence[str]) -> Levels:
    """Equal shares in the given order; what is left over goes to the first ones."""

    def rise(seed: int, num_tasks: int) -> list[str]:
        if num_tasks < len(levels):
            raise ValueError(
                f"a curriculum with --tasks {num_tasks}; it takes at least {len(levels)}, one of "
                "each level"
            )
        share, rest = divmod(num_tasks, len(levels))
        return [level for place, level in enumerate(levels) for _ in range(share + (place < rest))]

    return rise


def mixed_levels(levels: Sequence[str]) -> Levels:
    """One at random for every task; a longer sequence of the same seed begins the same."""

    def mix(seed: int, num_tasks: int) -> list[str]:
        draws = [task_stream(seed, place, "level").random() for place in range(num_tasks)]
        return [levels[int(draw * len(levels))] for draw in draws]

    return mix


# --- sequences ---


def kitchen_sequence(
    levels: Sequence[str], seed: int, steps: int, settings: KitchenSettings, side: int
) -> TaskSequence:
    """A kitchen of each level in turn: the n-th of a level is the n-th that its seed draws."""
    drawn = {
        level: iter(generate_sequence(settings.spec(level), num, seed, settings.num_agents))
        for level, num in Counter(levels).items()
    }
    tasks = [
        settings.task(next(drawn[level]), seed, place, side) for place, level in enumerate(levels)
    ]
    names = [f"kitchen {number}" for number in range(1, len(levels) + 1)]
    if len(drawn) > 1:
        names = [f"{name}, level {level}" for name, level in zip(names, levels, strict=True)]
    return TaskSequence.from_tasks(tasks, names, steps)


# --- benchmarks ---


def kitchens(
    level: str, num_agents: int | None = None, settings: KitchenSettings | None = None
) -> Benchmark:
    """A stream of kitchens of one level; `num_agents` wins over the one of the settings."""
    settings = settings or KitchenSettings()
    if num_agents is not None:
        settings = replace(settings, num_agents=num_agents)
    summary = f"20 generated kitchens of level {level}, learned one after another"
    return _benchmark(
        f"level-{level}",
        summary,
        20,
        one_level(level),
        [level],
        settings,
        lambda other: kitchens(level, settings=other),
    )


def curriculum(settings: MixedSettings | None = None) -> Benchmark:
    """Levels in turn, in kitchens padded to one size."""
    settings = settings or MixedSettings()
    summary = f"15 generated kitchens: equal shares of levels {in_words(settings.levels)}, in turn"
    levels = settings.levels
    return _benchmark(
        "curriculum", summary, 15, rising_levels(levels), levels, settings, curriculum
    )


def mix(settings: MixedSettings | None = None) -> Benchmark:
    """Levels at random, in kitchens padded to one size."""
    settings = settings or MixedSettings()
    summary = f"20 generated kitchens, each of a random one of levels {in_words(settings.levels)}"
    mixed = mixed_levels(settings.levels)
    return _benchmark("mix", summary, 20, mixed, settings.levels, settings, mix)


def in_words(levels: Sequence[str]) -> str:
    """1, 2 and 3."""
    return f"{', '.join(levels[:-1])} and {levels[-1]}"


def _benchmark(
    name: str,
    summary: str,
    num_tasks: int,
    levels_of: Levels,
    levels: Sequence[str],
    settings: KitchenSettings,
    configure: Callable[[Any], Benchmark],
) -> Benchmark:
    """The paper's numbers."""
    side = max(settings.spec(level).max_side for level in levels)

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        return kitchen_sequence(levels_of(seed, num_tasks), seed, steps, settings, side)

    return Benchmark(
        id=f"meal/{name}",
        summary=summary,
        env=settings.env(side, settings.window(levels)),
        sequence=sequence,
        num_tasks=num_tasks,
        steps_per_task=100_000_000,
        num_seeds=5,
        num_envs=2048,
        num_steps=400,
        eval_every=5,
        eval_episodes=10,
        learner="ippo",
        presets=presets(settings.reward),
        settings=settings,
        configure=configure,
    )


def presets(reward: Reward) -> dict[str, Mapping[str, Any]]:
    """Where each cook has a reward of its own, the learner must not share the shaping out."""
    own: dict[str, Any] = {"share_shaping": False} if reward == "individual" else {}
    ppo: Any = LAPTOP["ppo"]
    return {"paper": PAPER | {"ppo": own}, "laptop": LAPTOP | {"ppo": ppo | own}}


def level_1() -> Benchmark:
    """Compact kitchens, sides 6 to 7."""
    return kitchens("1")


def level_2() -> Benchmark:
    """Sides 8 to 9, with choke points."""
    return kitchens("2")


def level_3() -> Benchmark:
    """Sides 10 to 11, often split into rooms."""
    return kitchens("3")

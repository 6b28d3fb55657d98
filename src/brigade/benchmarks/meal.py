"""MEAL: continual multi-agent RL over generated Overcooked kitchens.

Reference: T. Tomilin and others, *MEAL: a benchmark for continual multi-agent reinforcement
learning*, 2025.
"""

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
from brigade.envs.overcooked import Overcooked, Task, conditions, task_from_grid
from brigade.envs.overcooked.env import RecipeKind, Reward
from brigade.envs.overcooked.generate import (
    KitchenSpec,
    generate_sequence,
    level_spec,
    random_stream,
)
from brigade.envs.overcooked.grid import Grid
from brigade.envs.overcooked.observe import Sight, Window

# A batch for two CPU cores, with settings that learn a level-1 kitchen in half a million steps.
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

# From the release, where the paper does not say.
PAPER = {"greedy": True}

# The paper's runs.
RUNS: Mapping[str, Any] = {
    "num_seeds": 5,
    "num_envs": 2048,
    "num_steps": 400,
    "eval_every": 5,
    "eval_episodes": 10,
    "learner": "ippo",
}

CURRICULUM = ("1", "2", "3")

# Partial views by level: tiles forward, to each side, behind.
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

# What is sampled for a task besides its kitchen. Each has its own random stream, so that turning
# one on does not change the others.
STREAMS = ("level", "roles", "slippery", "pot size", "cook time")


@dataclass(frozen=True)
class KitchenSettings:
    """The kitchens and their rules; defaults are the MEAL paper's main setting."""

    num_agents: int = 2
    """Number of cooks, 1 to 4."""
    view: Literal["level"] | Sight = "full"
    """What a cook observes: full, level (the level's window), or tiles forward, sides, behind."""
    reward: Reward = "shared"
    """Who gets the reward for a soup: all cooks, its server, or all without shaped rewards."""
    roles: bool = False
    """Make every cook of a task a chef (takes no plates) or a waiter (takes no ingredients)."""
    random_starts: bool = False
    """Start every episode on random tiles, each cook in the room of its seat."""
    sticky_actions: float = 0.0
    """Probability that a cook repeats its last action."""
    slippery: float = 0.0
    """Share of floor tiles that are slippery."""
    slip_chance: float = 0.25
    """Probability that a move off a slippery tile goes in a random direction."""
    random_pot_sizes: bool = False
    """Sample the number of ingredients per soup for every task, 1 to 5."""
    random_cook_times: bool = False
    """Sample the cooking time in steps for every task, 10 to 30."""
    require_handoff: bool = False
    """Only kitchens in which no soup can be served without passing items over counters."""
    recipes: RecipeKind = "single"
    """single: onion soups, from pots that start when they are full. multi: soups of onions and
    tomatoes by ZSC-Eval's list of recipes, from pots that a cook starts."""
    levels_apart: bool = True
    """Sample the kitchens of different levels independently; the recorded results were not."""

    def __post_init__(self) -> None:
        within("slippery", self.slippery, 0, 1)
        within("slip_chance", self.slip_chance, 0, 1)
        if self.require_handoff and self.num_agents < 2:
            raise ValueError("require_handoff needs at least two cooks; give num_agents 2 or more")
        if self.recipes == "multi" and (self.random_pot_sizes or self.random_cook_times):
            raise ValueError(
                "recipes is multi, where the list says how soups are cooked; leave out "
                "random_pot_sizes and random_cook_times, or use recipes single"
            )
        self.env(side=3, window="full" if self.view == "level" else self.view)

    def env(self, side: int, window: Sight) -> Overcooked:
        """The environment for kitchens with sides of up to `side` tiles."""
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
            recipes=self.recipes,
        )

    def spec(self, level: str) -> KitchenSpec:
        """The spec of generated kitchens of a level."""
        spec = replace(
            level_spec(level),
            require_handoff=self.require_handoff,
            require_roles=self.roles,
            tomatoes=self.recipes == "multi",
        )
        # Few kitchens satisfy both; a few hundred attempts are usual.
        return replace(spec, max_attempts=20_000) if self.roles and self.require_handoff else spec

    def window(self, levels: Sequence[str]) -> Sight:
        """The view of a cook in kitchens of these levels."""
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
        """A kitchen as a task, with what is sampled for this position in a seed's sequence."""
        seats, stream = self.num_agents, partial(task_stream, seed, place)
        sampled: dict[str, Any] = {}
        if self.roles:
            sampled["roles"] = conditions.sample_roles(grid, seats, stream("roles"))
        if self.slippery:
            wet = conditions.sample_slippery(grid, seats, self.slippery, stream("slippery"))
            sampled["slippery"] = wet
        if self.random_pot_sizes:
            sampled["pot_size"] = conditions.one_of(conditions.POT_SIZES, stream("pot size"))
        if self.random_cook_times:
            sampled["cook_time"] = conditions.one_of(conditions.COOK_TIMES, stream("cook time"))
        return task_from_grid(grid, num_agents=seats, height=side, width=side, **sampled)


@dataclass(frozen=True)
class MixedSettings(KitchenSettings):
    """The kitchens and their rules, for sequences of several levels."""

    levels: tuple[str, ...] = CURRICULUM
    """The levels, in the order of the curriculum; in a mix, repeat a level to weight it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for level in self.levels:
            level_spec(level)
        if len(set(self.levels)) < 2:
            raise ValueError(
                f"levels is {' '.join(self.levels) or 'empty'}; give two or more different levels, "
                "or use meal/level-1 for a single one"
            )


def task_stream(seed: int, place: int, what: str) -> Random:
    """The random stream for one thing that is sampled for a task besides its kitchen."""
    return random_stream(np.random.SeedSequence(seed, spawn_key=(place, STREAMS.index(what))))


# --- the level of each task of a sequence ---

Levels = Callable[[int, int], Sequence[str]]  # (seed, num_tasks)


def rising_levels(levels: Sequence[str], seed: int, num_tasks: int) -> list[str]:
    """Equal shares in the given order; the remainder goes to the first levels."""
    if num_tasks < len(levels):
        raise ValueError(
            f"--tasks is {num_tasks}; a curriculum needs at least {len(levels)}, one per level"
        )
    share, rest = divmod(num_tasks, len(levels))
    return [level for place, level in enumerate(levels) for _ in range(share + (place < rest))]


def mixed_levels(levels: Sequence[str], seed: int, num_tasks: int) -> list[str]:
    """A random level for every task; a longer sequence of a seed starts with the shorter one."""
    samples = [task_stream(seed, place, "level").random() for place in range(num_tasks)]
    return [levels[int(sample * len(levels))] for sample in samples]


# --- sequences ---


def kitchen_sequence(
    levels: Sequence[str], seed: int, steps: int, settings: KitchenSettings, side: int
) -> TaskSequence:
    """One kitchen per entry of `levels`: the n-th of a level is the n-th its seed generates."""
    kitchens_of = {
        level: iter(
            generate_sequence(
                settings.spec(level), num, seed, settings.num_agents, settings.levels_apart
            )
        )
        for level, num in Counter(levels).items()
    }
    tasks = [
        settings.task(next(kitchens_of[level]), seed, place, side)
        for place, level in enumerate(levels)
    ]
    names = [f"kitchen {number}" for number in range(1, len(levels) + 1)]
    if len(kitchens_of) > 1:
        names = [f"{name}, level {level}" for name, level in zip(names, levels, strict=True)]
    return TaskSequence.from_tasks(tasks, names, steps)


# --- benchmarks ---


def kitchens(
    level: str, num_agents: int | None = None, settings: KitchenSettings | None = None
) -> Benchmark:
    """A stream of kitchens of one level; `num_agents` overrides that of the settings."""
    settings = settings or KitchenSettings()
    if num_agents is not None:
        settings = replace(settings, num_agents=num_agents)
    return _benchmark(
        f"level-{level}",
        f"20 generated kitchens of level {level}, trained one after another",
        20,
        lambda seed, num_tasks: [level] * num_tasks,
        [level],
        settings,
        lambda other: kitchens(level, settings=other),
    )


def curriculum(settings: MixedSettings | None = None) -> Benchmark:
    """Generated kitchens that become larger."""
    settings = settings or MixedSettings()
    levels = settings.levels
    summary = f"15 generated kitchens: equal shares of levels {in_words(levels)}, in turn"
    rising = partial(rising_levels, levels)
    return _benchmark("curriculum", summary, 15, rising, levels, settings, curriculum)


def mix(settings: MixedSettings | None = None) -> Benchmark:
    """Generated kitchens of random levels."""
    settings = settings or MixedSettings()
    levels = settings.levels
    summary = f"20 generated kitchens, each of a random one of levels {in_words(levels)}"
    return _benchmark("mix", summary, 20, partial(mixed_levels, levels), levels, settings, mix)


def in_words(levels: Sequence[str]) -> str:
    """A list in words: 1, 2 and 3."""
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
    """A benchmark with the paper's numbers."""
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
        **RUNS,
        presets=presets(settings.reward),
        settings=settings,
        configure=configure,
    )


def presets(reward: Reward) -> dict[str, Mapping[str, Any]]:
    """The presets; with individual rewards, shaped rewards are individual, too."""
    own: dict[str, Any] = {"share_shaping": False} if reward == "individual" else {}
    ppo: Any = LAPTOP["ppo"]
    return {"paper": PAPER | {"ppo": own}, "laptop": LAPTOP | {"ppo": ppo | own}}


level_1 = partial(kitchens, "1")
"""Generated kitchens, sides 6 to 7."""
level_2 = partial(kitchens, "2")
"""Generated kitchens, sides 8 to 9."""
level_3 = partial(kitchens, "3")
"""Generated kitchens, sides 10 to 11."""

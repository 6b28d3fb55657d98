"""OvercookedV2: one kitchen, or a stream of kitchens of different sizes and ingredients.

Reference: T. Gessler and others, *OvercookedV2: rethinking Overcooked for zero-shot coordination*,
ICLR 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import numpy as np

from brigade.benchmarks.meal import LAPTOP as KITCHENS
from brigade.core import Benchmark, TaskSequence
from brigade.core.checks import at_least
from brigade.envs.overcooked_v2 import (
    LAYOUTS,
    Kitchen,
    OvercookedV2,
    kitchen_of,
    sequence_from_kitchens,
    task_from_kitchen,
    without_file,
)
from brigade.envs.overcooked_v2.tasks import num_ingredients

# Those of the ICRL4AHT paper.
STREAM = (
    "cramped_room_up",
    "cramped_room_down",
    "asymm_advantages_recipes_both",
    "asymm_advantages_recipes_right",
    "grounded_coord_simple",
    "grounded_coord_ring",
    "test_time_simple",
    "test_time_wide",
    "demo_cook_simple",
    "demo_cook_wide",
)
OWN = "own"  # the name of a kitchen that has none

# A batch for two CPU cores. Shaped rewards stay: without them wrong soups, which cost points, are
# all that is found at first, and cooks learn to serve nothing.
PPO: Any = KITCHENS["ppo"]
LAPTOP: dict[str, Any] = KITCHENS | {"steps_per_task": 2e6, "ppo": PPO | {"shaping_steps": 4e6}}


@dataclass(frozen=True)
class RuleSettings:
    """The rules of all kitchens."""

    view: Literal["full"] | int = 2
    """How many tiles cooks see each way: 2 is a window of 5 x 5. full: the whole kitchen."""
    horizon: int = 400
    """Maximum length of an episode in steps."""
    num_agents: int | None = None
    """Number of cooks, 1 to 4: the first of the kitchen's. None: all that it has."""
    random_starts: bool = True
    """Start on random tiles, each cook in the room of its seat, facing anywhere."""
    random_things: bool = False
    """Start with things in hands, in pots and on counters."""
    negative_rewards: bool = True
    """A wrong soup costs as much as a right one pays."""
    new_recipe_on_delivery: bool = True
    """Sample the recipe again after every right soup; otherwise it lasts for the episode."""
    shows_delivery: bool = False
    """Show at the serving tiles, for one step, that the right soup was served."""
    start_cooking_interaction: bool = False
    """A full pot waits until a cook starts it; otherwise it starts by itself."""

    def __post_init__(self) -> None:
        at_least("horizon", self.horizon, 1)

    def env(self, kitchens: Sequence[Kitchen]) -> OvercookedV2:
        """The environment, as large as the largest of these kitchens."""
        tasks = [task_from_kitchen(kitchen, num_agents=self.num_agents) for kitchen in kitchens]
        cooks = {len(task.start) for task in tasks}
        if len(cooks) > 1:
            raise ValueError(
                f"the kitchens have {' and '.join(map(str, sorted(cooks)))} cooks; give "
                f"num_agents {min(cooks)}"
            )
        return OvercookedV2(
            num_agents=cooks.pop(),
            height=max(task.tile.shape[0] for task in tasks),
            width=max(task.tile.shape[1] for task in tasks),
            ingredients=max(num_ingredients(np.asarray(task.tile)) for task in tasks),
            horizon=self.horizon,
            view=None if self.view == "full" else self.view,
            random_starts=self.random_starts,
            random_things=self.random_things,
            negative_rewards=self.negative_rewards,
            new_recipe_on_delivery=self.new_recipe_on_delivery,
            shows_delivery=self.shows_delivery,
            start_cooking_interaction=self.start_cooking_interaction,
        )


@dataclass(frozen=True)
class LayoutSettings(RuleSettings):
    """The kitchen and its rules."""

    layout: str = "cramped_room_v2"
    """The kitchen: a published layout, a text file, or rows of symbols with / between them."""
    recipes: tuple[str, ...] = ()
    """Recipes of three digits, such as 000 012. None: those of the layout, or all possible."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # The settings of a run hold what is in a file, not where it was.
        object.__setattr__(self, "layout", without_file(self.layout))
        self.env([self.kitchen()])

    def kitchen(self) -> Kitchen:
        """The kitchen with its recipes."""
        return kitchen_of(self.layout, self.recipes)


@dataclass(frozen=True)
class StreamSettings(RuleSettings):
    """The kitchens of the stream and their rules."""

    layouts: tuple[str, ...] = ()
    """Published layouts, text files, or rows with / between them. None: ICRL4AHT's ten kitchens."""
    order: Literal["random", "given"] = "random"
    """Every seed has an order of its own, or all seeds have the order in which they are given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "layouts", tuple(map(without_file, self.layouts)))
        self.env(self.kitchens())

    def kitchens(self) -> list[Kitchen]:
        """The kitchens in the order in which they are given."""
        return [kitchen_of(layout) for layout in self.names()]

    def names(self) -> tuple[str, ...]:
        """The layouts of the stream."""
        return self.layouts or STREAM


def layout(settings: LayoutSettings | None = None) -> Benchmark:
    """One kitchen, with --env.layout."""
    settings = settings or LayoutSettings()
    kitchen, name = settings.kitchen(), name_of(settings.layout)

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        names = [name, *(f"{name} again {n}" for n in range(1, num_tasks))]
        task = task_from_kitchen(kitchen, num_agents=settings.num_agents)
        return TaskSequence.from_tasks([task] * num_tasks, names, steps)

    return _benchmark(
        "layout", "one kitchen, chosen with --env.layout", sequence, 1, settings, [kitchen], layout
    )


def stream(settings: StreamSettings | None = None) -> Benchmark:
    """Kitchens of different sizes."""
    settings = settings or StreamSettings()
    kitchens, names = settings.kitchens(), [name_of(layout) for layout in settings.names()]

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        if num_tasks > len(kitchens):
            raise ValueError(
                f"--tasks is {num_tasks}; there are {len(kitchens)} kitchens, give fewer, more of "
                "them with --env.layouts, or --repetitions"
            )
        places = list(range(len(kitchens)))
        if settings.order == "random":
            Random(seed).shuffle(places)
        chosen = places[:num_tasks]
        every = sequence_from_kitchens(kitchens, names, steps, num_agents=settings.num_agents)
        return TaskSequence.from_tasks(
            [every[place] for place in chosen], [names[place] for place in chosen], steps
        )

    return _benchmark(
        "stream",
        "kitchens of different sizes and numbers of ingredients, trained one after another",
        sequence,
        len(kitchens),
        settings,
        kitchens,
        stream,
    )


def name_of(layout: str) -> str:
    """A kitchen's name."""
    return layout if layout in LAYOUTS else OWN


def _benchmark(
    name: str,
    summary: str,
    sequence: Callable[[int, int, int], TaskSequence],
    num_tasks: int,
    settings: RuleSettings,
    kitchens: Sequence[Kitchen],
    configure: Callable[[Any], Benchmark],
) -> Benchmark:
    """A benchmark with numbers for one accelerator."""
    return Benchmark(
        id=f"overcooked_v2/{name}",
        summary=summary,
        env=settings.env(kitchens),
        sequence=sequence,
        num_tasks=num_tasks,
        steps_per_task=30_000_000,
        num_seeds=5,
        num_envs=256,
        num_steps=400,
        eval_every=10,
        eval_episodes=10,
        learner="ippo",
        presets={"laptop": LAPTOP},
        settings=settings,
        configure=configure,
    )

"""ICRL4AHT: do policies adapt, within their context, to teammates and kitchens they never saw?

Reference: *ICRL4AHT: in-context reinforcement learning for ad-hoc teamwork*, 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from brigade.benchmarks.overcooked_v2 import LAPTOP, LayoutSettings, RuleSettings, layout
from brigade.core import Benchmark, Histories, TaskSequence
from brigade.core.checks import at_least, within
from brigade.envs.overcooked_v2 import LAYOUTS, Kitchen, OvercookedV2, sequence_from_kitchens
from brigade.envs.overcooked_v2.teammates.instances import PUBLISHED, table
from brigade.histories.files import FileHistories
from brigade.partners.cast import cast_of
from brigade.registry import unknown_name

FAMILIES = ("h1", "h2", "h3", "h4")
# New teammates in kitchens that histories have, and new teammates in new kitchens, each with the
# kitchen whose histories are learned from.
TRACK_1 = (
    "grounded_coord_simple",
    "grounded_coord_ring",
    "test_time_simple",
    "test_time_wide",
    "demo_cook_simple",
    "demo_cook_wide",
)
TRACK_2 = {
    "asymm_advantages_recipes_right": "asymm_advantages_recipes_both",
    "cramped_room_down": "cramped_room_up",
}
INGREDIENTS = 4  # planes of all kitchens, so that one model reads them all
MEASURES = ("first_episode", "last_episodes", "adaptation")

# The paper's appendix E.
PAPER: dict[str, Any] = {
    "eval_consecutive": 100,
    "network": {
        "size": "large",
        "context": 500,
        "encoder": "pointwise",
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "reward_scale": 0.05,
    },
}
# What two CPU cores train in a quarter of an hour: 1,000 gradient steps of 8,000 timesteps.
SMALL: dict[str, Any] = {
    "eval_consecutive": 100,
    "num_envs": 16,
    "network": {"size": "medium", "context": 500, "reward_scale": 0.05, "precision": "float32"},
    "training": {"learning_rate": 1e-3},
}


@dataclass(frozen=True)
class EgoSettings(LayoutSettings):
    """The kitchen in which an ego learns, and its rules."""

    def env(self, kitchens: Sequence[Kitchen]) -> OvercookedV2:
        """The environment, with the planes that all kitchens of the benchmark need."""
        return with_planes(super().env(kitchens))


def with_planes(env: OvercookedV2) -> OvercookedV2:
    """The environment with observations that are alike in all kitchens."""
    return replace(env, ingredients=INGREDIENTS, shows_delivery=True)


def ego(settings: EgoSettings | None = None) -> Benchmark:
    """A kitchen for the histories of egos."""
    settings = settings or EgoSettings(layout="cramped_room_up")
    return replace(
        layout(settings),
        id="icrl4aht/ego",
        summary="one kitchen in which egos learn beside teammates, for histories",
        presets={"laptop": LAPTOP},
        configure=ego,
    )


@dataclass(frozen=True)
class TrackSettings:
    """Kitchens and teammates of the evaluations, and the histories to learn from."""

    histories: str = ""
    """A folder with learning histories (`brigade histories make`); those of the split train are
    learned from."""
    layouts: tuple[str, ...] = ()
    """Kitchens of the evaluations. None: those of the track."""
    horizon: int = 100
    """Length of an episode in steps: 100 as published; histories of 400 are cut by
    --history-steps."""
    families: tuple[str, ...] = FAMILIES
    """Families of the heuristic teammates."""
    instances: int = PUBLISHED
    """How many teammates of each family, of the five that are published."""
    teammates: Literal["by_sight", "as_released"] = "by_sight"
    """What teammates go by: what they see or have seen; or, as released, the whole kitchen, with
    the same noise in every episode."""

    def __post_init__(self) -> None:
        if self.histories:  # a run is resumed from anywhere
            object.__setattr__(self, "histories", str(Path(self.histories).resolve()))
        at_least("horizon", self.horizon, 1)
        within("instances", self.instances, 1, PUBLISHED)
        for name in self.layouts:
            if name not in LAYOUTS:
                raise ValueError(unknown_name("layout", name, LAYOUTS))
        for family in self.families:
            if family not in FAMILIES:
                raise ValueError(unknown_name("family", family, FAMILIES))
        if not self.families:
            raise ValueError("families is empty; give at least one of " + ", ".join(FAMILIES))

    def names(self, layout: str) -> tuple[str, ...]:
        """The teammates of a kitchen; some kitchens have their own."""
        how = ":as_released" if self.teammates == "as_released" else ""
        return tuple(
            f"{family}:{own_start(family, layout)}{number}{how}"
            for family in self.families
            for number in range(self.instances)
        )


def own_start(family: str, layout: str) -> str:
    """How the names of a kitchen's own instances begin."""
    return f"{layout}-" if layout in table(family)["published"] else ""


def track(
    number: int, tested: Sequence[str], trained: Callable[[str], str], settings: TrackSettings
) -> Benchmark:
    """Evaluations in the `tested` kitchens, of what learned from histories of others."""
    layouts = settings.layouts or tuple(tested)
    kitchens = [LAYOUTS[name] for name in layouts]
    env = with_planes(RuleSettings(horizon=settings.horizon).env(kitchens))
    by_task = [settings.names(name) for name in layouts]

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        if num_tasks > len(layouts):
            raise ValueError(f"tasks is {num_tasks}; there are {len(layouts)} kitchens")
        every = sequence_from_kitchens(kitchens, layouts, steps)
        tasks = [every[place] for place in range(num_tasks)]
        return TaskSequence.from_tasks(
            tasks, layouts[:num_tasks], steps, partners=by_task[:num_tasks]
        )

    def histories(seed: int, needs: tuple[str, ...]) -> Histories:
        if not settings.histories:
            raise ValueError(
                f"icrl4aht/track-{number} learns from histories; make them with `brigade histories "
                "make` and name their folder with --env.histories"
            )
        sources = {trained(name) for name in layouts}
        found = FileHistories(
            Path(settings.histories), lambda each: each.split == "train" and each.layout in sources
        )
        if found.obs_shape != env.obs_shape:
            raise ValueError(
                f"{settings.histories} has observations of {found.obs_shape} and the track has "
                f"{env.obs_shape}; make histories with the benchmark icrl4aht/ego"
            )
        return found

    return Benchmark(
        id=f"icrl4aht/track-{number}",
        summary=("new teammates" if number == 1 else "new kitchens and new teammates")
        + ", met within a context of many games",
        env=env,
        sequence=sequence,
        num_tasks=len(layouts),
        steps_per_task=20_000 * 1024 * 500 // len(layouts),
        num_seeds=3,
        num_envs=1024,
        num_steps=500,
        eval_every=1_000_000,
        eval_episodes=1,
        learner="ad",
        cast=cast_of(tuple(dict.fromkeys(name for names in by_task for name in names)), env),
        seats=("0",),
        presets={
            "paper": PAPER,
            "laptop": SMALL | {"steps_per_task": 1000 * 16 * 500 // len(layouts)},
        },
        measures=MEASURES,
        histories=histories,
        settings=settings,
        configure=track_1 if number == 1 else track_2,
    )


def track_1(settings: TrackSettings | None = None) -> Benchmark:
    """New teammates, known kitchens."""
    return track(1, TRACK_1, lambda name: name, settings or TrackSettings())


def track_2(settings: TrackSettings | None = None) -> Benchmark:
    """Teammates and kitchens that no history has."""
    return track(2, tuple(TRACK_2), lambda n: TRACK_2.get(n, n), settings or TrackSettings())

"""ZSC-Eval: ten kitchens for two cooks, in which an ego must work with partners it never met.

Reference: X. Wang and others, *ZSC-Eval: an evaluation toolkit and benchmark for multi-agent
zero-shot coordination*, NeurIPS 2024.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from brigade.core import Benchmark, TaskSequence
from brigade.core.checks import at_least
from brigade.envs.overcooked import RECIPES, Overcooked, task_from_grid
from brigade.envs.overcooked.generate import KitchenSpec, generate_sequence
from brigade.envs.overcooked.grid import FLOOR, SEATS, Grid
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.envs.overcooked.preferences import TABLES, candidates
from brigade.envs.overcooked.recipes import choose_recipes
from brigade.envs.overcooked.tasks import task_of_many
from brigade.registry import unknown_name

SINGLE = (
    "coordination_ring",
    "counter_circuit",
    "asymmetric_advantages",
    "asymmetric_coordination",
    "forced_coordination",
    "bothway_coordination",
    "blocked_corridor",
)
MULTI = ("coordination_ring_multi", "counter_circuit_multi", "forced_coordination_multi")
KITCHENS = SINGLE + MULTI

# The paper's, from its release: every cook gets its own shaped rewards. The central critic there
# sees what every cook here sees, the whole kitchen. Observations, values and advantages have other
# scales.
PAPER: Mapping[str, Any] = {
    "ppo": {
        "learning_rate": 5e-4,
        "final_learning_rate": 5e-4,
        "max_grad_norm": 10.0,
        "epochs": 15,
        "minibatches": 1,
        "entropy_schedule": [0.2, 0.05, 0.01],
        "shaping_steps": 1e8,
        "share_shaping": False,
    },
    "network": {"hidden": [64, 64], "multi_head": False, "task_one_hot": "none"},
}
# Two CPU cores: fewer steps, so larger ones.
LAPTOP: Mapping[str, Any] = {
    "seeds": 1,
    "steps_per_task": 2e6,
    "num_envs": 32,
    "eval_every": 10,
    "ppo": {
        "learning_rate": 2e-3,
        "final_learning_rate": 5e-4,
        "epochs": 4,
        "minibatches": 8,
        "entropy_schedule": [0.1, 0.03, 0.01],
        "shaping_steps": None,
        "share_shaping": False,
    },
    "network": {"hidden": [64, 64], "multi_head": False, "task_one_hot": "none"},
}


@dataclass(frozen=True)
class ZscSettings:
    """The kitchen's rules."""

    action_masks: bool = True
    """Mask actions that certainly have no effect, as ZSC-Eval does."""
    horizon: int = 400
    """Length of an episode in steps."""
    kitchens: int = 0
    """Play in so many generated kitchens of the same size instead, a random one per episode
    (cross-environment cooperation)."""

    def __post_init__(self) -> None:
        at_least("horizon", self.horizon, 1)
        at_least("kitchens", self.kitchens, 0)


@dataclass(frozen=True)
class MultiSettings(ZscSettings):
    """The rules of a kitchen with a list of recipes."""

    recipes: tuple[str, ...] = tuple(RECIPES)
    """The recipes on the list: OOO, OOT, OTT (20 points), OO and OT (10 points)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "recipes", tuple(self.recipes))
        choose_recipes(self.recipes)


def table_of(layout: str) -> str:
    """The table of behaviour-preferring rewards for a layout."""
    if layout in MULTI:
        return "multi"
    return layout if layout in TABLES else "default"


def num_partners(layout: str) -> int:
    """How many candidates are selected: 15 in asymmetric kitchens (paper) and with a list of
    recipes (release), 10 in the others."""
    return 15 if layout in MULTI or layout.startswith("asymmetric") else 10


def kitchen(layout: str, settings: ZscSettings | None = None) -> Benchmark:
    """One kitchen of ZSC-Eval as a stream of one task."""
    if layout not in KITCHENS:
        raise ValueError(unknown_name("layout", layout, KITCHENS))
    multi = layout in MULTI
    settings = settings or (MultiSettings() if multi else ZscSettings())
    grid = LAYOUTS[layout]
    names = settings.recipes if isinstance(settings, MultiSettings) else tuple(RECIPES)
    recipes = choose_recipes(names)
    task = task_from_grid(grid, num_agents=2, recipes=recipes)

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        if settings.kitchens:
            grids = kitchens_like(grid, multi, settings.kitchens, seed)
            tasks = [task_from_grid(each, num_agents=2, recipes=recipes) for each in grids]
            many = task_of_many(tasks) if len(tasks) > 1 else tasks[0]
            names = [f"{len(grids)} kitchens", *(f"again {n}" for n in range(1, num_tasks))]
            return TaskSequence.from_tasks([many] * num_tasks, names, steps)
        names = [layout, *(f"{layout} again {n}" for n in range(1, num_tasks))]
        return TaskSequence.from_tasks([task] * num_tasks, names, steps)

    return Benchmark(
        id=f"zsc_eval/{layout}",
        summary=f"zero-shot coordination in {layout}",
        env=Overcooked(
            num_agents=2,
            height=len(grid),
            width=len(grid[0]),
            horizon=settings.horizon,
            start_facing="up",
            recipes="multi" if multi else "single",
            action_masks=settings.action_masks,
            kitchens=max(settings.kitchens, 1),
        ),
        sequence=sequence,
        num_tasks=1,
        steps_per_task=10_000_000,
        num_seeds=5,
        num_envs=100,
        num_steps=400,
        eval_every=10,
        eval_episodes=20,
        learner="ippo",
        measures=("average_score", "average_return"),
        presets={"paper": PAPER, "laptop": LAPTOP},
        generators=generator_settings(layout),
        settings=settings,
        configure=partial(kitchen, layout),
    )


def spec_like(grid: Grid, tomatoes: bool) -> KitchenSpec:
    """Generated kitchens of the size of a layout, with as many counters among the inner tiles.

    As in the layouts, stations stand in the wall or in counters inside, with equal chances.
    """
    inside = "".join(row[1:-1] for row in grid[1:-1])
    blocked = sum(tile not in FLOOR + SEATS for tile in inside)
    return KitchenSpec(
        len(grid),
        len(grid),
        blocked / len(inside),
        tomatoes=tomatoes,
        width=len(grid[0]),
        stations_in_counters=True,
    )


def kitchens_like(grid: Grid, tomatoes: bool, num: int, seed: int) -> list[Grid]:
    """Generated kitchens without the layout itself, in which the ego is measured."""
    generated = generate_sequence(spec_like(grid, tomatoes), num + 1, seed)
    return [each for each in generated if each != grid][:num]


def generator_settings(layout: str) -> dict[str, Mapping[str, Any]]:
    """What the paper sets for each way of making partners."""
    table = table_of(layout)
    biased = {"table": table, "members": len(candidates(table))}
    schedule = {"entropy_milestones": [0.0, 0.6, 1.0]}
    return {
        "hsp": {
            "generator_settings": biased,
            "ppo": {"entropy_schedule": [0.2, 0.05, 0.001], **schedule},
        },
        "e3t": {"ppo": schedule, "generator_settings": {"masked": False}},
        "fcp": {"generator_settings": {"members": 5}},
        "mep": {"generator_settings": {"members": 5}},
        "trajedi": {"generator_settings": {"members": 5}},
    }


coordination_ring = partial(kitchen, "coordination_ring")
"""Two cooks on a ring of floor."""
counter_circuit = partial(kitchen, "counter_circuit")
"""A ring around a long counter."""
asymmetric_advantages = partial(kitchen, "asymmetric_advantages")
"""Two rooms with unequal distances."""
asymmetric_coordination = partial(kitchen, "asymmetric_coordination")
"""The same idea, another kitchen."""
forced_coordination = partial(kitchen, "forced_coordination")
"""Two rooms that need each other."""
bothway_coordination = partial(kitchen, "bothway_coordination")
"""Two rooms, hand-offs both ways."""
blocked_corridor = partial(kitchen, "blocked_corridor")
"""A corridor too narrow for two."""
coordination_ring_multi = partial(kitchen, "coordination_ring_multi")
"""The ring, several recipes."""
counter_circuit_multi = partial(kitchen, "counter_circuit_multi")
"""The circuit, several recipes."""
forced_coordination_multi = partial(kitchen, "forced_coordination_multi")
"""Two rooms, several recipes."""

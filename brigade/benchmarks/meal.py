"""MEAL: continual multi-agent learning over generated kitchens."""

from __future__ import annotations

from brigade.core import Benchmark, TaskSequence
from brigade.envs.overcooked import Overcooked, sequence_from_grids
from brigade.envs.overcooked.generate import LEVELS, generate_sequence

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


def kitchens(level: str, num_agents: int = 2) -> Benchmark:
    """A stream of kitchens of one level; the paper's numbers."""
    side = LEVELS[level].max_side

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        grids = generate_sequence(level, num_tasks, seed, num_agents)
        names = [f"kitchen {number}" for number in range(1, num_tasks + 1)]
        return sequence_from_grids(
            grids, names, steps=steps, num_agents=num_agents, height=side, width=side
        )

    return Benchmark(
        id=f"meal/level-{level}",
        summary=f"20 generated kitchens of level {level}, learned one after another",
        env=Overcooked(num_agents=num_agents, height=side, width=side),
        sequence=sequence,
        num_tasks=20,
        steps_per_task=100_000_000,
        num_seeds=5,
        num_envs=2048,
        num_steps=400,
        eval_every=5,
        eval_episodes=10,
        learner="ippo",
        presets={"laptop": LAPTOP},
    )


def level_1() -> Benchmark:
    """Compact kitchens, sides 6 to 7."""
    return kitchens("1")


def level_2() -> Benchmark:
    """Sides 8 to 9, with choke points."""
    return kitchens("2")


def level_3() -> Benchmark:
    """Sides 10 to 11, often split into rooms."""
    return kitchens("3")

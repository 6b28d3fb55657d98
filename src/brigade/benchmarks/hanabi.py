"""One game of Hanabi, learned in self-play or beside partners.

Reference: N. Bard and others, *The Hanabi challenge: a new frontier for AI research*, Artificial
Intelligence 2020.
"""

from __future__ import annotations

from brigade.core import Benchmark, TaskSequence
from brigade.envs.hanabi import Hanabi

# PPO as JaxMARL trains it on this game.
PAPER = {
    "ppo": {
        "learning_rate": 5e-4,
        "final_learning_rate": 0.0,
        "epochs": 4,
        "minibatches": 4,
        "max_grad_norm": 0.5,
    },
    "network": {"hidden": [512, 512]},
}

# Two colours and three ranks, for two CPU cores: learned in a minute or two.
LAPTOP = {
    "seeds": 1,
    "steps_per_task": 1e6,
    "num_envs": 64,
    "num_steps": 32,
    "eval_every": 100,
    "eval_episodes": 200,
    "env": {"colors": 2, "ranks": 3, "hand_size": 3, "hint_tokens": 4, "life_tokens": 2},
    "ppo": {"epochs": 4, "minibatches": 4, "final_learning_rate": 1e-4},
    "network": {"hidden": [64, 64], "memory_size": 64},
    "q": {
        "learning_rate": 2e-3,
        "batch_size": 64,
        "gradient_steps": 8,
        "buffer_size": 8192,
        "warm_up": 500,
        "target_every": 100,
    },
}


def game(env: Hanabi | None = None) -> Benchmark:
    """Hanabi for two, the standard game."""
    env = env or Hanabi()

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        names = ["hanabi", *(f"hanabi again {n}" for n in range(1, num_tasks))]
        return TaskSequence.from_tasks([env.task()] * num_tasks, names, steps)

    return Benchmark(
        id="hanabi/standard",
        summary="Hanabi in self-play; players, colours and tokens are settings",
        env=env,
        sequence=sequence,
        num_tasks=1,
        steps_per_task=1_000_000_000,
        num_seeds=3,
        num_envs=1024,
        num_steps=128,
        eval_every=100,
        eval_episodes=1000,
        learner="ippo",
        presets={"paper": PAPER, "laptop": LAPTOP},
        settings=env,
        configure=game,
    )

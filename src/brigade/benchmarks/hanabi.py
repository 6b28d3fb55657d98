"""One game of Hanabi, learned in self-play or beside partners.

Reference: N. Bard and others, *The Hanabi challenge: a new frontier for AI research*, Artificial
Intelligence 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True)
class HanabiSettings:
    """The game; defaults are the standard game of two."""

    players: int = 2
    """Number of players, 2 to 5."""
    colors: int = 5
    """Number of colours, 1 to 5."""
    ranks: int = 5
    """Number of ranks, 1 to 5; the lowest has three copies of each card, the highest one."""
    hand_size: int | None = None
    """Cards per hand; by default 5 for up to three players and 4 for more."""
    hint_tokens: int = 8
    """Hint tokens at the start, which is also their maximum."""
    life_tokens: int = 3
    """Life tokens."""
    lost_game: Literal["zero", "fireworks"] = "zero"
    """Score of a game whose lives are lost: zero, or the cards in the fireworks."""
    encoding: Literal["canonical", "beliefs"] = "canonical"
    """Observed of hinted cards: which are possible, or their shares among the cards left."""

    def __post_init__(self) -> None:
        self.env()

    def env(self) -> Hanabi:
        """The environment."""
        return Hanabi(
            players=self.players,
            colors=self.colors,
            ranks=self.ranks,
            hand_size=self.hand_size,
            hint_tokens=self.hint_tokens,
            life_tokens=self.life_tokens,
            lost_game=self.lost_game,
            encoding=self.encoding,
        )


def game(settings: HanabiSettings | None = None) -> Benchmark:
    """Hanabi for two, the standard game."""
    settings = settings or HanabiSettings()
    env = settings.env()

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
        settings=settings,
        configure=game,
    )

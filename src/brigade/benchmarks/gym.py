"""Gymnasium environments, trained one after another."""

from __future__ import annotations

from dataclasses import dataclass

from brigade.core import Benchmark, Environment, PlainTask, TaskSequence
from brigade.core.checks import at_least, positive
from brigade.envs.joined import joined, sequence_of_games

SETTINGS = {
    "seeds": 1,
    "ppo": {
        "learning_rate": 1e-3,
        "final_learning_rate": 1e-4,
        "epochs": 4,
        "minibatches": 4,
        "gamma": 0.99,
        "max_grad_norm": 0.5,
        "value_clip": None,
    },
    "network": {"hidden": [64, 64], "activation": "tanh"},
}


@dataclass(frozen=True)
class GymSettings:
    """The environments. Their scores are returns as they are: nothing is normalised."""

    ids: tuple[str, ...] = ("CartPole-v1", "Acrobot-v1")
    """Environments in training order: registered ids, or classes as path/to/file.py:Name."""
    test_ids: tuple[str, ...] = ()
    """Environments that evaluations play instead, one for each of ids; by default the same."""
    horizon: int | None = None
    """Maximum length of an episode in steps; by default what the environment says."""
    processes: bool = False
    """Run every environment in a process of its own, for slow ones and those that may crash."""
    time_limit: float = 60.0
    """Seconds after which processes that do not answer are started again."""

    def __post_init__(self) -> None:
        if not self.ids:
            raise ValueError("ids is empty; give at least one environment, such as CartPole-v1")
        if self.test_ids and len(self.test_ids) != len(self.ids):
            raise ValueError(
                f"test_ids has {len(self.test_ids)} environments and ids {len(self.ids)}; give one "
                "for each"
            )
        if self.horizon is not None:
            at_least("horizon", self.horizon, 1)
        positive("time_limit", self.time_limit)


def games_of(settings: GymSettings) -> tuple[tuple[Environment, ...], tuple[Environment, ...]]:
    """The games of training and of evaluations, all with the same shapes."""
    from brigade.envs.gym import gym_game

    names = (*settings.ids, *settings.test_ids)
    made = {
        name: gym_game(name, settings.horizon, settings.processes, settings.time_limit)
        for name in names
    }
    games: tuple[Environment, ...] = tuple(made[name] for name in names)
    number = len(settings.ids)
    if len(games) > 1:
        games = joined(games, names, [*range(number), *range(len(settings.test_ids))])
    return games[:number], games[number:]


def environments(settings: GymSettings | None = None) -> Benchmark:
    """Any Gymnasium environments."""
    settings = settings or GymSettings()
    games, tests = games_of(settings)

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        number = len(settings.ids)
        if num_tasks > number:
            raise ValueError(
                f"tasks is {num_tasks}, and there are {number} environments; name more with "
                "--env.ids, or train them again with --repetitions"
            )
        tasks, names = [PlainTask()] * num_tasks, settings.ids[:num_tasks]
        if len(games + tests) == 1:
            return TaskSequence.from_tasks(tasks, names, steps)
        return sequence_of_games(tasks, range(num_tasks), names, steps)

    return Benchmark(
        id="gym",
        summary="Gymnasium environments of your choice, trained one after another",
        env=games[0],
        games=games,
        test_games=tests,
        sequence=sequence,
        num_tasks=len(settings.ids),
        steps_per_task=500_000,
        num_seeds=1,
        num_envs=16,
        num_steps=128,
        eval_every=25,
        eval_episodes=10,
        learner="ppo",
        measures=("average_score", "after_training"),  # forgetting needs scores above 0
        presets={"paper": SETTINGS, "laptop": SETTINGS},
        settings=settings,
        configure=environments,
    )

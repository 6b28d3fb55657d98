"""JaxNav in MEAL: continual learning over random maps, robots with lidar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from brigade.benchmarks.meal import PAPER
from brigade.core import Benchmark, TaskSequence
from brigade.core.checks import at_least, within
from brigade.envs.jaxnav import JaxNav, MapSpec
from brigade.envs.jaxnav import sequence as random_maps

# A batch small enough for two CPU cores; easy maps are learned in a million steps, others in more.
LAPTOP = {
    "seeds": 1,
    "steps_per_task": 2e6,
    "num_envs": 32,
    "num_steps": 125,
    "eval_every": 25,
    "ppo": {"epochs": 4, "minibatches": 8},
    "network": {"hidden": [64, 64]},
}


@dataclass(frozen=True)
class MapSettings:
    """The maps and what drives on them; the defaults are the paper's, appendix K."""

    num_agents: int = 2
    """Robots, 1 to 4."""
    side: int = 7
    """Cells along each side of a map, walls around it included."""
    fill: float = 0.3
    """Share of the inner cells that are walls."""
    actions: Literal["discrete", "continuous"] = "discrete"
    """One of 15 pairs of speeds, or any speeds."""
    situations: int = 32
    """Starts and goals that games on a map are drawn from; 1: always the same."""
    horizon: int = 500
    """Steps of a game."""

    def __post_init__(self) -> None:
        within("fill", self.fill, 0, 1)
        at_least("situations", self.situations, 1)
        self.env()

    def env(self) -> JaxNav:
        """The environment of such maps."""
        return JaxNav(self.num_agents, self.side, self.side, self.horizon, self.actions)


def maps(settings: MapSettings | None = None) -> Benchmark:
    """A stream of random maps; the paper's numbers.

    The paper plays rollouts of 400 steps, which do not divide a game of 500.
    """
    settings = settings or MapSettings()
    side = settings.side
    spec = MapSpec(side, side, settings.fill, settings.num_agents, settings.situations)

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        return random_maps(seed, num_tasks, steps, spec)

    return Benchmark(
        id="jaxnav/20",
        summary="20 random maps for robots with lidar, learned one after another",
        env=settings.env(),
        sequence=sequence,
        num_tasks=20,
        steps_per_task=100_000_000,
        num_seeds=5,
        num_envs=2048,
        num_steps=500,
        eval_every=5,
        eval_episodes=10,
        learner="ippo",
        presets={"paper": PAPER, "laptop": LAPTOP},
        settings=settings,
        configure=maps,
    )


def twenty() -> Benchmark:
    """Two robots on 20 maps of 7 x 7."""
    return maps()

"""JaxNav in MEAL: continual learning over random maps for robots with lidar.

Reference: T. Tomilin and others, *MEAL: a benchmark for continual multi-agent reinforcement
learning*, 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from brigade.benchmarks.meal import PAPER, RUNS
from brigade.core import Benchmark
from brigade.core.checks import within
from brigade.envs.jaxnav import JaxNav, MapSpec
from brigade.envs.jaxnav import sequence as random_maps

# A batch for two CPU cores; easy maps are learned in a million steps, others need more.
LAPTOP = {
    "seeds": 1,
    "steps_per_task": 2e6,
    "num_envs": 32,
    "num_steps": 125,
    "eval_every": 25,
    "ppo": {"epochs": 4, "minibatches": 8},
    "network": {"hidden": [64, 64]},
}
MAX_SITUATIONS = 10_000  # of a map; they are drawn one by one


@dataclass(frozen=True)
class MapSettings:
    """The maps and the robots; defaults are the MEAL paper's, appendix K."""

    num_agents: int = 2
    """Number of robots, 1 to 4."""
    side: int = 7
    """Side length of a map in cells, including the walls around it."""
    fill: float = 0.3
    """Share of the inner cells that are walls."""
    actions: Literal["discrete", "continuous"] = "discrete"
    """15 discrete pairs of speed and turning speed, or continuous speeds."""
    situations: int = 32
    """Sets of start and goal positions per map; every episode samples one."""
    horizon: int = 500
    """Maximum length of an episode in steps."""

    def __post_init__(self) -> None:
        within("fill", self.fill, 0, 1)
        within("situations", self.situations, 1, MAX_SITUATIONS)
        self.env()

    def env(self) -> JaxNav:
        """The environment for these maps."""
        return JaxNav(self.num_agents, self.side, self.side, self.horizon, self.actions)


def maps(settings: MapSettings | None = None) -> Benchmark:
    """Two robots with lidar, 20 random maps.

    The numbers are the paper's, except for the length of rollouts: its 400 steps do not divide
    episodes of 500.
    """
    settings = settings or MapSettings()
    side = settings.side
    spec = MapSpec(side, side, settings.fill, settings.num_agents, settings.situations)
    return Benchmark(
        id="jaxnav/20",
        summary="20 random maps for robots with lidar, trained one after another",
        env=settings.env(),
        sequence=partial(random_maps, spec=spec),
        num_tasks=20,
        steps_per_task=100_000_000,
        **{**RUNS, "num_steps": 500},
        presets={"paper": PAPER, "laptop": LAPTOP},
        settings=settings,
        configure=maps,
    )

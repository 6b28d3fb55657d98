"""MEAL's partners: one kitchen, and a new partner for every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import jax
import jax.numpy as jnp

from brigade.benchmarks.meal import presets
from brigade.core import Benchmark, TaskSequence
from brigade.core.checks import within
from brigade.envs.overcooked import Overcooked, task_from_grid
from brigade.envs.overcooked.env import Reward
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.partners import Random, Stay
from brigade.partners.company import Company, Group, KitchenInCompany, Roster
from brigade.partners.cook import Cook, Habits
from brigade.partners.learned import Population
from brigade.registry import unknown_name

SEATS = (True, False)  # the learner's, the partner's
KITCHEN = "cramped_room"
OURS = "brdiv_cramped_room.npz"  # made with `brigade partners`, see docs/partners.md
SCHEDULE = ("brdiv-1", "brdiv-2", "brdiv-3", "human", "onion", "plate", "random", "static")


def planning(drops: float) -> Mapping[str, Habits]:
    """Cooks that follow a plan, by name."""
    return {
        "human": Habits.of(drops=drops),
        "onion": Habits.of(serves=False, drops=drops),
        "plate": Habits.of(cooks=False, drops=drops),
    }


@dataclass(frozen=True)
class PartnerSettings:
    """The partners and where they are met; the defaults are the paper's, appendix J."""

    layout: str = KITCHEN
    """The kitchen: a published layout."""
    partners: tuple[str, ...] = SCHEDULE
    """Who comes, in this order: brdiv-1 and so on, human, onion, plate, random, static."""
    population: str = ""
    """File with the learned partners (`brigade partners`); those of cramped_room if left out."""
    drops: float = 0.1
    """How likely a scripted cook leaves an onion or a plate on a counter."""
    reward: Reward = "shared"
    """Who is paid for a soup: both, the cook who serves it, or both without shaping."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "partners", tuple(self.partners))
        within("drops", self.drops, 0, 1)
        if self.layout not in LAYOUTS:
            raise ValueError(unknown_name("layout", self.layout, LAYOUTS))
        if not self.partners or len(set(self.partners)) < len(self.partners):
            raise ValueError(
                f"partners are {' '.join(self.partners) or 'none'}; name each once, and use "
                "repetitions to meet them again"
            )

    def env(self) -> KitchenInCompany:
        """The environment."""
        grid = LAYOUTS[self.layout]
        kitchen = Overcooked(len(SEATS), len(grid), len(grid[0]), reward=self.reward)
        return KitchenInCompany(kitchen)

    def learned(self) -> Population | None:
        """The learned partners; none are needed where none is named."""
        if not self.population and not any(name.startswith("brdiv-") for name in self.partners):
            return None
        if not self.population and self.layout != KITCHEN:
            raise ValueError(
                f"there are no learned partners for {self.layout}; make some with 'brigade "
                f"partners --layout {self.layout} --out FILE' and give --env.population FILE"
            )
        population = load(self.population or str(files("brigade.partners").joinpath(OURS)))
        file, home = self.population or OURS, population.story.get("kitchen")
        remedy = f"make some with 'brigade partners --layout {self.layout} --out FILE'"
        if home != self.layout:
            raise ValueError(f"the partners of {file} were made in {home}; {remedy}")
        env, policy = self.env(), population.policy
        if (policy.obs_shape, policy.network.num_actions) != (env.obs_shape, env.num_actions):
            raise ValueError(
                f"the partners of {file} do not see what cooks see in {home}; {remedy}"
            )
        return population


@lru_cache
def load(path: str) -> Population:
    """The same object for the same file, so that what is compiled for it is used again."""
    return Population.load(Path(path))


@lru_cache
def roster(settings: PartnerSettings) -> tuple[Roster, tuple[str, ...]]:
    """Everybody who can be met, and their names."""
    cooks = planning(settings.drops)
    habits = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cooks.values())
    groups = [Group(Cook(len(SEATS)), habits, len(cooks)), Group(Random()), Group(Stay())]
    names = [*cooks, "random", "static"]
    population = settings.learned()
    if population is not None:
        groups.append(Group(population.policy, population.params, population.size))
        names += [f"brdiv-{number}" for number in range(1, population.size + 1)]
    for name in settings.partners:
        if name not in names:
            raise ValueError(unknown_name("partner", name, {*names, *SCHEDULE}))
    return Roster(tuple(groups)), tuple(names)


def partners(settings: PartnerSettings | None = None) -> Benchmark:
    """A stream of partners in one kitchen."""
    settings = settings or PartnerSettings()
    grid = LAYOUTS[settings.layout]
    everybody, names = roster(settings)

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        if num_tasks > len(settings.partners):
            raise ValueError(
                f"--tasks {num_tasks}, but {len(settings.partners)} partners are named; name more "
                "with --env.partners, or meet them again with --repetitions"
            )
        kitchen = task_from_grid(grid, num_agents=len(SEATS))
        met = settings.partners[:num_tasks]
        tasks = [Company(kitchen, jnp.int32(names.index(name)), jnp.int32(0)) for name in met]
        return TaskSequence.from_tasks(tasks, met, steps)

    return Benchmark(
        id="meal/partners",
        summary="8 partners met one after another in cramped_room",
        env=settings.env(),
        sequence=sequence,
        num_tasks=len(settings.partners),
        steps_per_task=100_000_000,
        num_seeds=5,
        num_envs=2048,
        num_steps=400,
        eval_every=5,
        eval_episodes=10,
        learner="ippo",
        learner_seats=SEATS,
        partner=everybody,
        presets=presets(settings.reward),
        settings=settings,
        configure=partners,
    )


def eight_partners() -> Benchmark:
    """The paper's schedule."""
    return partners()

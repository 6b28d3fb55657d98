"""MEAL's partners: one kitchen, and a new partner for every task."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import jax
import jax.numpy as jnp

from brigade.benchmarks.meal import presets
from brigade.core import Benchmark, Cast, Group, TaskSequence
from brigade.core.checks import at_least, within
from brigade.envs.overcooked import Overcooked, task_from_grid
from brigade.envs.overcooked.env import Reward
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.partners import Random, Stay
from brigade.partners.cook import Cook, Habits
from brigade.partners.files import Policies, check_fits, load_policies
from brigade.registry import unknown_name

COOKS = 2
KITCHEN = "cramped_room"
OURS = "brdiv_cramped_room.safetensors"  # how it was made: docs/partners.md
SCHEDULE = ("brdiv-1", "brdiv-2", "brdiv-3", "human", "onion", "plate", "random", "static")


def planning(drops: float) -> dict[str, Habits]:
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
    """Policy file with the learned partners; those of cramped_room if left out."""
    drops: float = 0.1
    """How likely a scripted cook leaves an onion or a plate on a counter."""
    reward: Reward = "shared"
    """Who is paid for a soup: both, the cook who serves it, or both without shaping."""
    horizon: int = 400
    """Steps of a game."""

    def __post_init__(self) -> None:
        at_least("horizon", self.horizon, 1)
        object.__setattr__(self, "partners", tuple(self.partners))
        within("drops", self.drops, 0, 1)
        if self.layout not in LAYOUTS:
            raise ValueError(unknown_name("layout", self.layout, LAYOUTS))
        if not self.partners or len(set(self.partners)) < len(self.partners):
            raise ValueError(
                f"partners are {' '.join(self.partners) or 'none'}; name each once, and use "
                "repetitions to meet them again"
            )

    def env(self) -> Overcooked:
        """The environment."""
        grid = LAYOUTS[self.layout]
        return Overcooked(COOKS, len(grid), len(grid[0]), self.horizon, reward=self.reward)

    def learned(self) -> Policies | None:
        """The learned partners; none are needed where none is named."""
        if not self.population and not any(name.startswith("brdiv-") for name in self.partners):
            return None
        remedy = (
            f"make some with 'brigade population overcooked/layout --env.layout {self.layout} "
            "--generator brdiv' and 'brigade export'"
        )
        if not self.population and self.layout != KITCHEN:
            raise ValueError(
                f"there are no learned partners for {self.layout}; {remedy}, and give "
                "--env.population FILE"
            )
        policies = load_policies(self.population or str(files("brigade.partners").joinpath(OURS)))
        file, home = self.population or OURS, policies.origin.get("env", {}).get("layout")
        if home != self.layout:
            raise ValueError(f"the partners of {file} were made in {home}; {remedy}")
        check_fits(policies, self.env(), file)
        return policies


def everybody(settings: PartnerSettings) -> Cast:
    """All who can be met."""
    cooks = planning(settings.drops)
    habits = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cooks.values())
    groups = (Group(Cook(), len(cooks)), Group(Random()), Group(Stay()))
    cast = Cast(groups, (habits, (), ()), (*cooks, "random", "static"))
    policies = settings.learned()
    if policies is not None:
        cast += policies.cast()
    for name in settings.partners:
        if name not in cast.names:
            known = cast.names if policies else {*cast.names, *SCHEDULE}
            raise ValueError(unknown_name("partner", name, known))
    return cast


def partners(settings: PartnerSettings | None = None) -> Benchmark:
    """A stream of partners in one kitchen."""
    settings = settings or PartnerSettings()
    grid = LAYOUTS[settings.layout]

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        if num_tasks > len(settings.partners):
            raise ValueError(
                f"--tasks {num_tasks}, but {len(settings.partners)} partners are named; name more "
                "with --env.partners, or meet them again with --repetitions"
            )
        kitchen = task_from_grid(grid, num_agents=COOKS)
        met = settings.partners[:num_tasks]
        return TaskSequence.from_tasks(
            [kitchen] * num_tasks, met, steps, partners=[(name,) for name in met]
        )

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
        cast=everybody(settings),
        seats=("0",),
        presets=presets(settings.reward),
        settings=settings,
        configure=partners,
    )


def eight_partners() -> Benchmark:
    """The paper's schedule."""
    return partners()

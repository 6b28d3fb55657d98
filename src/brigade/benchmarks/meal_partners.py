"""MEAL's partners: one kitchen, and a new partner for every task.

Reference: T. Tomilin and others, *MEAL: a benchmark for continual multi-agent reinforcement
learning*, 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import jax
import jax.numpy as jnp

from brigade.benchmarks.meal import RUNS, presets
from brigade.benchmarks.overcooked import KITCHEN, LayoutSettings
from brigade.core import Benchmark, Cast, Group, TaskSequence
from brigade.core.checks import within
from brigade.envs.overcooked import LAYOUTS, task_from_grid
from brigade.envs.overcooked.cooks import Cook, Human, OnionOnly, PlateOnly
from brigade.envs.overcooked.things import STAY
from brigade.partners import Random, Stay
from brigade.partners.files import Policies, check_fits, load_policies
from brigade.registry import unknown_name

OURS = "brdiv_cramped_room.safetensors"  # docs/partners.md says how it was trained
SCHEDULE = ("brdiv-1", "brdiv-2", "brdiv-3", "human", "onion", "plate", "random", "static")
SCRIPTED = {"human": Human, "onion": OnionOnly, "plate": PlateOnly}


@dataclass(frozen=True)
class PartnerSettings(LayoutSettings):
    """The partners and their kitchen; defaults are the MEAL paper's, appendix J."""

    partners: tuple[str, ...] = SCHEDULE
    """The partners in training order: brdiv-1 and so on, human, onion, plate, random, static."""
    population: str = ""
    """Policy file with the trained partners (default: those trained in cramped_room)."""
    drops: float = 0.1
    """Probability that a scripted cook leaves an onion or a plate on a counter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "partners", tuple(self.partners))
        within("drops", self.drops, 0, 1)
        if not self.partners or len(set(self.partners)) < len(self.partners):
            raise ValueError(
                f"partners is {' '.join(self.partners) or 'empty'}; name each partner once, and "
                "repeat them with --repetitions"
            )

    def learned(self) -> Policies | None:
        """The trained partners; None if none of them is named."""
        if not self.population and not any(name.startswith("brdiv-") for name in self.partners):
            return None
        remedy = (
            f"train some with 'brigade population overcooked/layout --env.layout {self.layout} "
            "--generator brdiv' and 'brigade export'"
        )
        if not self.population and self.layout != KITCHEN:
            raise ValueError(
                f"there are no trained partners for {self.layout}; {remedy}, and give "
                "--env.population FILE"
            )
        policies = load_policies(self.population or str(files("brigade.partners").joinpath(OURS)))
        file, home = self.population or OURS, policies.origin.get("env", {}).get("layout")
        if home != self.layout:
            raise ValueError(f"the partners of {file} were trained in {home}; {remedy}")
        check_fits(policies, self.env(), file)
        return policies


def all_partners(settings: PartnerSettings) -> Cast:
    """The cast of all partners that can be named."""
    cooks = [kind(drops=settings.drops).member()[1] for kind in SCRIPTED.values()]
    habits = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cooks)
    groups = (Group(Cook(), len(cooks)), Group(Random()), Group(Stay(STAY)))
    cast = Cast(groups, (habits, (), ()), (*SCRIPTED, "random", "static"))
    policies = settings.learned()
    if policies is not None:
        cast += policies.cast()
    for name in settings.partners:
        if name not in cast.names:
            known = cast.names if policies else {*cast.names, *SCHEDULE}
            raise ValueError(unknown_name("partner", name, known))
    return cast


def partners(settings: PartnerSettings | None = None) -> Benchmark:
    """One kitchen, one partner after another."""
    settings = settings or PartnerSettings()
    grid = LAYOUTS[settings.layout]

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        if num_tasks > len(settings.partners):
            raise ValueError(
                f"--tasks is {num_tasks}, but there are {len(settings.partners)} partners; name "
                "more with --env.partners, or repeat them with --repetitions"
            )
        kitchen = task_from_grid(grid, num_agents=2)
        names = settings.partners[:num_tasks]
        return TaskSequence.from_tasks(
            [kitchen] * num_tasks, names, steps, partners=[(name,) for name in names]
        )

    return Benchmark(
        id="meal/partners",
        summary="8 partners in cramped_room, one after another",
        env=settings.env(),
        sequence=sequence,
        num_tasks=len(settings.partners),
        steps_per_task=100_000_000,
        **RUNS,
        cast=all_partners(settings),
        seats=("0",),
        presets=presets(settings.reward),
        settings=settings,
        configure=partners,
    )

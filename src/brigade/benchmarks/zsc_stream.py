"""A stream over kitchens and partners: what does a new partner in a new kitchen cost the old ones?

Every task is a kitchen of ZSC-Eval with one of its evaluation partners.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from brigade.benchmarks.zsc_eval import LAPTOP, PAPER, SINGLE
from brigade.core import Array, Benchmark, Cast, Group, Key, TaskSequence, View
from brigade.core.checks import at_least
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.partners.files import SUFFIX, Policies, check_fits, load_policies
from brigade.partners.wrappers import Wrapper
from brigade.registry import unknown_name

READY_MADE = Path(str(files("brigade.partners.zsc_eval")))


def ready_made() -> tuple[str, ...]:
    """The layouts with one recipe whose evaluation partners come with Brigade."""
    return tuple(layout for layout in SINGLE if (READY_MADE / f"{layout}{SUFFIX}").exists())


@dataclass(frozen=True)
class StreamSettings:
    """The kitchens and partners of the stream."""

    kitchens: tuple[str, ...] = ()
    """Layouts in training order (default: all that have ready-made partners)."""
    partners: tuple[str, ...] = ()
    """Policy files with the partners, one per kitchen (default: the ready-made ones)."""
    per_kitchen: int = 3
    """Partners per kitchen: the first of its file."""
    horizon: int = 400
    """Length of an episode in steps."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kitchens", tuple(self.kitchens))
        object.__setattr__(self, "partners", tuple(self.partners))
        at_least("per_kitchen", self.per_kitchen, 1)
        at_least("horizon", self.horizon, 1)
        for layout in self.kitchens:
            if layout not in SINGLE:
                raise ValueError(unknown_name("layout", layout, SINGLE))
        if len(set(self.kitchens)) < len(self.kitchens):
            raise ValueError("a kitchen is named twice; repeat the stream with --repetitions")
        if self.partners and len(self.partners) != len(self.kitchens):
            raise ValueError(
                f"{len(self.kitchens)} kitchens with {len(self.partners)} files of partners; give "
                "one file per kitchen"
            )

    def layouts(self) -> tuple[str, ...]:
        """The kitchens of the stream."""
        return self.kitchens or ready_made()

    def file(self, layout: str) -> Path:
        """The policy file with a kitchen's partners."""
        if self.partners:
            return Path(self.partners[self.kitchens.index(layout)])
        return READY_MADE / f"{layout}{SUFFIX}"

    def env(self) -> Overcooked:
        """The environment, as large as the largest kitchen."""
        if not self.layouts():
            raise ValueError("there is no kitchen; name some with --env.kitchens")
        grids = [LAYOUTS[layout] for layout in self.layouts()]
        height, width = max(len(g) for g in grids), max(len(g[0]) for g in grids)
        return Overcooked(2, height, width, self.horizon, start_facing="up", action_masks=True)


def stream(settings: StreamSettings | None = None) -> Benchmark:
    """A stream over kitchens and partners."""
    settings = settings or StreamSettings()
    layouts, env = settings.layouts(), settings.env()
    chosen = {layout: partners_of(settings, layout) for layout in layouts}
    cast = Cast()
    for layout, policies in chosen.items():
        cast += as_partners(layout, policies, env)

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        pairs = [(layout, name) for layout in layouts for name in chosen[layout].names]
        if num_tasks > len(pairs):
            raise ValueError(
                f"--tasks is {num_tasks}; there are {len(pairs)} pairs of a kitchen and a partner, "
                "give fewer, or more with --env.per-kitchen"
            )
        tasks = [
            task_from_grid(LAYOUTS[layout], num_agents=2, height=env.height, width=env.width)
            for layout, _ in pairs[:num_tasks]
        ]
        names = [full_name(layout, name) for layout, name in pairs[:num_tasks]]
        return TaskSequence.from_tasks(tasks, names, steps, partners=[(name,) for name in names])

    return Benchmark(
        id="zsc_eval/stream",
        summary="kitchens of ZSC-Eval one after another, with one partner after another",
        env=env,
        sequence=sequence,
        num_tasks=sum(len(policies.members) for policies in chosen.values()),
        steps_per_task=10_000_000,
        num_seeds=5,
        num_envs=100,
        num_steps=400,
        eval_every=10,
        eval_episodes=10,
        learner="ippo",
        cast=cast,
        presets={"paper": heads(PAPER), "laptop": heads(LAPTOP)},
        settings=settings,
        configure=stream,
    )


def heads(preset: Mapping[str, Any]) -> dict[str, Any]:
    """A preset with a head for every task, as in other streams."""
    network = {"hidden": preset["network"]["hidden"]}
    return {**preset, "network": network}


def partners_of(settings: StreamSettings, layout: str) -> Policies:
    """The partners of one kitchen."""
    grid, file = LAYOUTS[layout], settings.file(layout)
    policies = load_policies(file)
    check_fits(policies, Overcooked(2, len(grid), len(grid[0])), str(file))
    if settings.per_kitchen > len(policies.members):
        raise ValueError(
            f"per_kitchen is {settings.per_kitchen}, but {file.name} has "
            f"{len(policies.members)} partners; give at most that"
        )
    # Fully trained ones first: a half-skilled partner is an earlier self of one of them.
    members = sorted(policies.members, key=lambda member: member.get("stage") == "mid")
    return policies.only([str(member["name"]) for member in members[: settings.per_kitchen]])


@dataclass(frozen=True)
class Cropped(Wrapper):
    """Sees only the upper left part of an observation, the size the policy was trained with.

    Kitchens are padded with counters on the right and below, so this is the kitchen itself.
    """

    height: int
    width: int

    def act(
        self, params: Any, carry: Any, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Any, dict[str, Array]]:
        """One action per seat."""
        obs = view.obs[..., : self.height, : self.width, :]
        return self.policy.act(params, carry, view.replace(obs=obs), key, greedy)


def as_partners(layout: str, policies: Policies, env: Overcooked) -> Cast:
    """A kitchen's partners, in an environment that may be larger than their kitchen."""
    grid = LAYOUTS[layout]
    policy: Any = policies.policy
    if (len(grid), len(grid[0])) != (env.height, env.width):
        policy = Cropped(policy, len(grid), len(grid[0]))
    names = tuple(full_name(layout, name) for name in policies.names)
    return Cast((Group(policy, len(names)),), (policies.params,), names)


def full_name(layout: str, partner: str) -> str:
    """A partner's name in the stream."""
    return f"{layout} with {partner}"

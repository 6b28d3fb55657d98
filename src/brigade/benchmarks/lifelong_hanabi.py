"""Lifelong Hanabi: a pre-trained agent meets one partner after another.

The partners are agents of a pool, trained in self-play by several methods. Every task is the same
game with another partner; held-out agents of the pool are only met in evaluations.

Reference: H. Nekoei and others, *Continuous coordination as a realistic scenario for lifelong
learning*, ICML 2021.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from brigade.benchmarks.lifelong_hanabi_pool import Pool, held_out, read_pool
from brigade.core import Benchmark, Cast, TaskSequence
from brigade.envs.hanabi import Hanabi
from brigade.errors import UserError
from brigade.nets.plain import plain_settings
from brigade.partners.cast import merged
from brigade.partners.files import Policies, check_fits, load_policies

READY_MADE = Path(str(files("brigade.partners.lifelong_hanabi")))
MEASURES = (
    "lifelong_average",
    "lifelong_forgetting",
    "future_score",
    "current_score",
    "few_shot_average",
    "few_shot_forgetting",
    "generalisation",
    "intra_play",
    "inter_play",
)

# The paper's numbers (Table 4) that are not in the benchmark itself.
PAPER: dict[str, Any] = {
    "few_shot_updates": 6,  # of 8 gradient steps each; the paper has 50 in all
    "q": {"reset_optimizer": True},
}
# Small games of the ready-made pool, for two CPU cores.
LAPTOP: dict[str, Any] = {
    "seeds": 2,
    "steps_per_task": 2e5,
    "num_envs": 64,
    "num_steps": 32,
    "eval_every": 49,
    "eval_episodes": 200,
    "few_shot_updates": 6,
    "q": {
        "reset_optimizer": True,
        "learning_rate": 5e-4,
        "buffer_size": 8192,
        "warm_up": 500,
        "target_every": 200,
        "few_shot_buffer": 2048,
    },
}

# Heads are shared by all partners, and the paper's penalty is a plain sum over all parameters
# without decay. The coefficient was searched on the ready-made pool: the paper's 5e4 weighs another
# estimate of the Fisher information, squared gradients of the loss instead of greedy values.
_EWC: dict[str, Any] = {"coefficient": 100.0, "per_parameter": False, "heads": True}
METHODS: dict[str, dict[str, Any]] = {
    "ewc": {"method_settings": _EWC},
    "online_ewc": {"method_settings": {**_EWC, "decay": 1.0}},
    "mas": {"method_settings": {"decay": 1.0}},
}


@dataclass(frozen=True)
class LifelongSettings:
    """The stream of partners."""

    stream: Literal["easy", "hard", "10"] = "hard"
    """Which stream of the pool."""
    pool: str = ""
    """Folder of a pool (`brigade reproduce lifelong_hanabi/pool`); without one, the ready-made."""
    learner: str = ""
    """Policy file that the learner starts from; without one, the stream's."""
    partners: tuple[str, ...] = ()
    """Policy files of the partners in training order; without any, the stream's."""
    intra: tuple[str, ...] = ()
    """Policy files of held-out agents trained by the learner's method. Without any, those of the
    pool, unless learner and partners are both given; the same for inter."""
    inter: tuple[str, ...] = ()
    """Policy files of held-out agents trained by all methods."""

    def __post_init__(self) -> None:
        for name in ("partners", "intra", "inter"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def held_out(self) -> tuple[str, ...]:
        """Policy files of all agents that are only met in evaluations."""
        return tuple(dict.fromkeys((*self.intra, *self.inter)))

    def with_files(self) -> LifelongSettings:
        """The settings with all agents named by their files, so that a run keeps copies of them."""
        if self.learner and self.partners:
            return replace(self, pool="")
        pool = read_pool(self.pool or READY_MADE)
        chosen = pool.stream(self.stream)

        def paths(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(str(pool.path(name)) for name in names)

        learner = self.learner or str(pool.path(chosen.learner))
        partners = self.partners or paths(chosen.partners)
        intra, inter = chosen.intra, chosen.inter
        if self.learner or self.partners:  # those of the stream may have been met, or fit no more
            intra, inter = held_out_of(pool, learner, partners)
        return LifelongSettings(
            stream=self.stream,
            learner=learner,
            partners=partners,
            intra=self.intra or paths(intra),
            inter=self.inter or paths(inter),
        )


def held_out_of(
    pool: Pool, learner: str, partners: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The agents of a pool that a learner has not met: of its method, and of all methods.

    An agent was met if its file is the learner's or a partner's, or if the learner's file says so.
    """
    own = load_policies(learner)
    names = {str(each.get("name")) for each in own.origin.get("trained_with", ())}
    method = str(own.members[0].get("method") or own.origin.get("learner") or "")
    for agent in pool.agents:
        if agent.name == own.origin.get("started_as"):  # a life changes no agent's method
            method = agent.method
    files, met = {Path(file).read_bytes() for file in partners}, set[int]()
    for number, agent in enumerate(pool.agents):
        content = pool.path(agent.name).read_bytes()
        if content == Path(learner).read_bytes():
            method = agent.method
            met.add(number)
        elif agent.name in names or content in files:
            met.add(number)
    return held_out(pool.agents, met, method)


def game_of(policies: Policies, file: str) -> Hanabi:
    """The game that a policy was trained in."""
    try:
        return Hanabi(**policies.game["variant"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file} was not trained in a game of Hanabi") from error


def loaded(file: str, env: Hanabi) -> Policies:
    """The one agent of a policy file, which must play the same game."""
    policies = load_policies(file)
    if game_of(policies, file) != env:
        raise UserError(
            f"{file} was trained in another variant of the game; use agents of one pool"
        )
    check_fits(policies, env, file)
    if len(policies.members) != 1:
        raise UserError(f"{file} has {len(policies.members)} policies; a pool has one per file")
    return policies


def cast_of(agents: Iterable[Policies]) -> Cast:
    """Agents as partners; those of a pool take greedy actions."""
    return merged(sum((agent.cast(greedy=True) for agent in agents), Cast()))


def stream(settings: LifelongSettings | None = None) -> Benchmark:
    """A stream of partners."""
    settings = (settings or LifelongSettings()).with_files()
    learner = load_policies(settings.learner)
    env = game_of(learner, settings.learner)
    loaded(settings.learner, env)
    met = {Path(file).read_bytes() for file in (settings.learner, *settings.partners)}
    for file in settings.held_out:
        if Path(file).read_bytes() in met:
            raise UserError(f"{file} is in training and held out for tests; remove it there")
    partners = [loaded(file, env) for file in settings.partners]
    tests = {file: loaded(file, env) for file in settings.held_out}
    kept = cast_of(tests.values())
    if len(set(kept.names)) < kept.size:
        raise UserError("two held-out agents have one name; use agents of one pool")
    sets = {
        name: tuple(tests[file].names[0] for file in files)
        for name, files in (("intra", settings.intra), ("inter", settings.inter))
    }
    names = [agent.names[0] for agent in partners]

    def sequence(seed: int, num_tasks: int, steps: int) -> TaskSequence:
        if num_tasks > len(names):
            raise ValueError(
                f"--tasks is {num_tasks}, but the stream has {len(names)} partners; give fewer, or "
                "repeat them with --repetitions"
            )
        return TaskSequence.from_tasks(
            [env.task()] * num_tasks,
            names[:num_tasks],
            steps,
            partners=[(name,) for name in names[:num_tasks]],
        )

    return Benchmark(
        id=f"lifelong_hanabi/{settings.stream}",
        summary=f"Hanabi with {len(names)} partners of a pool, one after another",
        env=env,
        sequence=sequence,
        num_tasks=len(names),
        steps_per_task=200_000_000,
        num_seeds=5,
        num_envs=800,
        num_steps=80,
        eval_every=625,
        eval_episodes=1000,
        learner="iql",
        cast=cast_of(partners),
        held_out=kept,
        held_out_sets=sets,
        start_from=settings.learner,
        measures=MEASURES,
        presets={name: with_network(preset, learner) for name, preset in PRESETS.items()},
        methods=METHODS,
        settings=settings,
        configure=stream,
    )


PRESETS: dict[str, dict[str, Any]] = {"paper": PAPER, "laptop": LAPTOP}


def with_network(preset: dict[str, Any], policies: Policies) -> dict[str, Any]:
    """The preset with the network of the agent that the learner starts from."""
    network = plain_settings(policies.policy.network)  # type: ignore[attr-defined]
    left_out = ("num_actions", "dtype", "predictions")
    return {**preset, "network": {k: v for k, v in network.items() if k not in left_out}}


def ready_made(name: Literal["easy", "hard", "10"]) -> Benchmark:
    """A stream of the ready-made pool; its settings name no files, so that another pool can."""
    settings = LifelongSettings(stream=name)

    def configure(chosen: LifelongSettings) -> Benchmark:
        if chosen.stream != name:
            raise ValueError(
                f"stream is {chosen.stream}; run lifelong_hanabi/{chosen.stream} for that"
            )
        return stream(chosen)

    return replace(stream(settings), settings=settings, configure=configure)


easy = partial(ready_made, "easy")
"""Hanabi, five partners it plays well with."""
hard = partial(ready_made, "hard")
"""Hanabi, five partners it plays badly with."""
ten = partial(ready_made, "10")
"""Hanabi, ten partners one after another."""

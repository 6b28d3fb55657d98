"""A pool of Hanabi agents: train them in self-play, play all pairs, choose streams of partners.

A stopped one continues where it was; what is done is not done again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from brigade.benchmarks.lifelong_hanabi_pool import (
    INDEX,
    Agent,
    Pool,
    Stream,
    check_size,
    choose_streams,
)
from brigade.core import Cast
from brigade.envs.hanabi import Hanabi
from brigade.errors import UserError
from brigade.launch.audit import SAME_ACTIONS, greedy_actions, probe_views
from brigade.launch.cost import steps_of_run
from brigade.launch.stage import Computation, Run, Runs, Stage
from brigade.partners.cast import merged
from brigade.partners.files import Policies, load_policies
from brigade.registry import unknown_name
from brigade.runs.config import Experiment, from_dict
from brigade.runs.config import merged as merged_settings
from brigade.runs.export import policies_of
from brigade.runs.folder import npz_bytes, write_atomically
from brigade.runs.run import load
from brigade.train.crossplay import CrossPlay, cross_play

AUX_WEIGHT = 0.25
CROSS_PLAY = "crossplay.npz"
# Every method of the paper: a learner and what is added to it.
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "iql": ("iql", {}),
    "iql_aux": ("iql", {"aux": AUX_WEIGHT}),
    "iql_op": ("iql", {"op": True}),
    "vdn": ("vdn", {}),
    "vdn_aux": ("vdn", {"aux": AUX_WEIGHT}),
    "vdn_op": ("vdn", {"op": True}),
    "sad": ("vdn", {"sad": True}),
    "sad_aux": ("vdn", {"sad": True, "aux": AUX_WEIGHT}),
    "sad_op": ("vdn", {"sad": True, "op": True}),
    "sad_aux_op": ("vdn", {"sad": True, "aux": AUX_WEIGHT, "op": True}),
}


@dataclass(frozen=True)
class Architecture:
    """A network of the paper's Table 3."""

    memory: str
    feed_forward: int  # layers
    recurrent: int  # layers
    size: int  # of all layers

    def settings(self, divisor: int) -> dict[str, Any]:
        """Settings of the network, with layers smaller by a divisor."""
        size = self.size // divisor
        return {
            "hidden": [size] * self.feed_forward,
            "memory": self.memory,
            "memory_size": size,
            "memory_layers": self.recurrent,
        }


ARCHITECTURES: Mapping[int, Architecture] = {
    1: Architecture("lstm", 1, 1, 256),
    2: Architecture("lstm", 2, 2, 256),
    3: Architecture("lstm", 1, 2, 512),
    4: Architecture("gru", 1, 2, 256),
    5: Architecture("gru", 2, 1, 512),
}


@dataclass(frozen=True)
class PoolScale:
    """How much work a pool is."""

    preset: str
    methods: tuple[str, ...]
    architectures: tuple[int, ...]
    seeds: int
    divisor: int  # of layer sizes
    settings: Mapping[str, Any] = field(default_factory=dict)  # of all runs
    episodes: int = 100  # per pair
    streams: Mapping[str, int] = field(default_factory=lambda: {"easy": 5, "hard": 5, "10": 10})


SMALL = PoolScale(
    preset="laptop",
    methods=("iql", "vdn", "iql_op", "vdn_op", "iql_aux", "vdn_aux", "sad"),
    architectures=(1, 4),
    seeds=2,
    divisor=4,
    episodes=200,
)
PAPER = PoolScale(
    preset="paper",
    methods=tuple(METHODS),
    architectures=tuple(ARCHITECTURES),
    seeds=2,
    divisor=1,
    episodes=5000,
)
SCALES = {"small": SMALL, "paper": PAPER}


@dataclass(frozen=True)
class NewPool:
    """The pool in `folder`. `words` are flags of `brigade run` that apply to all runs."""

    folder: Path
    scale: PoolScale = SMALL
    words: Sequence[str] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known, chosen in (
            ("method", METHODS, self.scale.methods),
            ("architecture", ARCHITECTURES, self.scale.architectures),
        ):
            for each in chosen:
                if each not in known:
                    raise UserError(unknown_name(name, str(each), map(str, known)))
        try:
            check_size(self.agents(), self.scale.streams)
        except ValueError as error:
            raise UserError(f"{error}; use more methods, architectures or seeds") from error

    @property
    def pool(self) -> Path:
        """The folder of the pool itself, which streams are made from."""
        return self.folder / "pool"

    def experiment(self, method: str, architecture: int) -> Experiment:
        """The agents of one method and architecture: seeds of one program."""
        learner, additions = METHODS[method]
        number = list(METHODS).index(method) * len(ARCHITECTURES) + architecture
        settings = {
            "benchmark": "hanabi/standard",
            "preset": self.scale.preset,
            "learner": learner,
            "seeds": self.scale.seeds,
            "seed": self.seed + 1000 * number,  # equal seeds would mean equal initial networks
            "env": {"encoding": "beliefs"},  # as in the release
            "network": ARCHITECTURES[architecture].settings(self.scale.divisor),
            "add": dict(additions),
        }
        return from_dict(merged_settings(settings, self.scale.settings), self.words)

    def run(self, method: str, architecture: int) -> Run:
        """The run of a method and architecture, whose agents are exported."""
        return Run(
            f"{method}, architecture {architecture}",
            self.folder / "runs" / f"{method}-{architecture}",
            partial(self.experiment, method, architecture),
            finish=lambda result, _: self.export(method, architecture, result.path),
        )

    def members(self) -> list[tuple[str, int]]:
        """All methods with all architectures."""
        return list(itertools.product(self.scale.methods, self.scale.architectures))

    def stages(self) -> tuple[Stage, ...]:
        """The runs, then cross-play."""
        return Runs("runs", [self.run(*each) for each in self.members()]), self.cross_play()

    def steps(self) -> float:
        """The environment steps of all runs."""
        one = {"benchmark": "hanabi/standard", "preset": self.scale.preset, "seeds": 1}
        return len(self.members()) * self.scale.seeds * steps_of_run(one)

    def agents(self) -> list[Agent]:
        """All agents of the pool."""
        return [
            Agent(f"{method}-{number}-{seed + 1}", method, number, seed)
            for method, number in self.members()
            for seed in range(self.scale.seeds)
        ]

    def export(self, method: str, number: int, run: Path) -> None:
        """Write the policy files of a run's agents, unless they are there."""
        agents = [a for a in self.agents() if (a.method, a.architecture) == (method, number)]
        if all((self.pool / agent.file).exists() for agent in agents):
            return
        self.pool.mkdir(parents=True, exist_ok=True)
        policies = policies_of(load(run))
        for agent, (index, member) in zip(agents, enumerate(policies.members), strict=True):
            params = jax.tree.map(lambda x, n=index: x[n : n + 1], policies.params)
            about = {**member, "name": agent.name, "method": method, "architecture": number}
            one = Policies(policies.policy, params, policies.game, [about], policies.origin)
            write_atomically(self.pool / agent.file, one.as_bytes(half=True))

    def game(self) -> Hanabi:
        """The game that all agents play."""
        env = self.experiment(*self.members()[0]).benchmark().env
        assert isinstance(env, Hanabi)
        return env

    def cross_play(self) -> Computation:
        """Cross-play of all agents, and the streams chosen by it."""
        return Computation(
            name="cross-play",
            folder=self.pool,
            settings={
                "episodes": self.scale.episodes,
                "streams": dict(self.scale.streams),
                "seed": self.seed,
            },
            files=[self.pool / agent.file for agent in self.agents()],
            work=self.play,
        )

    def play(self, folder: Path) -> None:
        """Play all pairs, choose streams, and write both."""
        agents = self.agents()
        policies = {agent.name: load_policies(folder / agent.file) for agent in agents}
        env = self.game()
        played = play_pool(policies, env, self.scale.episodes, self.seed)
        arrays = {"score": played.score, "returns": played.returns}
        names = {"names": np.array([agent.name for agent in agents])}
        write_atomically(folder / CROSS_PLAY, npz_bytes(arrays | names))
        streams = choose_streams(agents, played.returns.mean(-1), self.scale.streams)
        actions = probe_actions(policies, env)
        for stream in streams.values():
            refuse_twins(stream, actions)
        pool = Pool(folder, tuple(agents), played.returns.mean(-1), streams, self.scale.episodes)
        write_atomically(folder / INDEX, pool.as_json().encode())


def pool_cast(agents: Mapping[str, Policies]) -> Cast:
    """Agents that take greedy actions, one group per architecture."""
    return merged(sum((policies.cast(greedy=True) for policies in agents.values()), Cast()))


def play_pool(agents: Mapping[str, Policies], env: Hanabi, episodes: int, seed: int) -> CrossPlay:
    """Cross-play of agents in the order of the mapping."""
    cast = pool_cast(agents)
    played = cross_play(env, env.task(), cast, episodes, jax.random.key(seed))
    order = np.array([cast.names.index(policies.names[0]) for policies in agents.values()])
    return CrossPlay(*(array[order][:, order] for array in played))


def probe_actions(agents: Mapping[str, Policies], env: Hanabi) -> dict[str, np.ndarray]:
    """The greedy actions of every agent on the same states."""
    cast, probes = pool_cast(agents), probe_views(env, env.task())
    rows = [
        greedy_actions(Policies(group.policy, params, {}, ()), probes)
        for group, params in zip(cast.groups, cast.params, strict=True)
    ]
    moves = np.asarray(probes.active)  # everybody who waits acts alike
    return dict(zip(cast.names, np.concatenate(rows)[:, moves], strict=True))


def refuse_twins(stream: Stream, actions: Mapping[str, np.ndarray]) -> None:
    """Refuse a stream in which a held-out agent acts like one that is met in training."""
    for name in dict.fromkeys((*stream.intra, *stream.inter)):
        for other in (stream.learner, *stream.partners):
            if (actions[name] == actions[other]).mean() >= SAME_ACTIONS:
                raise UserError(
                    f"the held-out agent {name} acts like {other}, which is met in training; train "
                    "the pool with other seeds"
                )

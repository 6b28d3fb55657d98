"""Self-play, play within and across methods: of a pool's agents, and of agents that kept learning.

This is behind Tables 2, 6 and 7 and Figure 2 of the Lifelong Hanabi paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from brigade.benchmarks.lifelong_hanabi import game_of
from brigade.benchmarks.lifelong_hanabi_pool import Agent, Pool, held_out
from brigade.envs.hanabi import Hanabi
from brigade.errors import UserError
from brigade.launch.hanabi_pool import play_pool
from brigade.partners.files import Policies, load_policies
from brigade.runs.export import policies_of
from brigade.runs.run import load


class Play(NamedTuple):
    """Mean points, one value per agent or seed that is averaged over."""

    self_play: np.ndarray
    intra: np.ndarray  # with agents of the same method
    inter: np.ndarray  # with agents of all methods


@dataclass(frozen=True, eq=False)
class PoolPlay:
    """Mean points of agents with each other [seat 0, seat 1]."""

    names: Sequence[str]
    returns: np.ndarray

    def play(self, agent: str, intra: Sequence[str], inter: Sequence[str]) -> tuple[float, ...]:
        """An agent with itself and with two groups; nobody counts as their own partner."""
        me = self.names.index(agent)
        groups = ([self.names.index(name) for name in group] for group in (intra, inter))
        both = (self.returns + self.returns.T)[me] / 2
        met = ([other for other in group if other != me] for group in groups)
        means = (float(both[group].mean()) if group else float("nan") for group in met)
        return (float(self.returns[me, me]), *means)


def play_of(agents: Sequence[tuple[float, ...]]) -> Play:
    """The play of several agents."""
    return Play(*map(np.array, zip(*agents, strict=True)))


def points_of(pool: Pool) -> PoolPlay:
    """The play of a pool's agents."""
    return PoolPlay([agent.name for agent in pool.agents], pool.returns)


def agents_of(pool: Pool, method: str) -> list[str]:
    """The agents of a method."""
    found = [agent.name for agent in pool.agents if agent.method == method]
    if not found:
        raise UserError(f"the pool {pool.folder} has no agents of method {method}")
    return found


def of_method(pool: Pool, method: str, inter: Sequence[str], best: bool) -> Play:
    """All agents of a method, or the one that plays best across methods."""
    own, points = agents_of(pool, method), points_of(pool)
    play = [points.play(agent, own, inter) for agent in own]
    return play_of([max(play, key=lambda each: each[2])] if best else play)


@dataclass(frozen=True)
class Start:
    """An agent of the pool that goes on learning, with whom, and who is kept for tests."""

    agent: Agent
    partners: tuple[str, ...]
    intra: tuple[str, ...]
    inter: tuple[str, ...]

    def settings(self, pool: Pool) -> dict[str, Any]:
        """Settings of the stream, as in a config file."""
        met = {"partners": self.partners, "intra": self.intra, "inter": self.inter}
        paths = {who: [str(pool.path(name)) for name in names] for who, names in met.items()}
        return {"learner": str(pool.path(self.agent.name)), **paths}


def start_of(pool: Pool, method: str) -> Start:
    """The agent of a method with the least cross-play, and the hard partners."""
    names = [agent.name for agent in pool.agents]
    both = pool.returns + pool.returns.T
    agents = [names.index(name) for name in agents_of(pool, method)]
    least = min(agents, key=lambda n: (both[n].sum() - both[n, n], names[n]))
    partners = pool.stream("hard").partners
    if pool.agents[least].name in partners:
        raise UserError(f"{pool.agents[least].name} is a partner of the stream hard")
    met = {least, *(names.index(name) for name in partners)}
    intra, inter = held_out(pool.agents, met, method)
    return Start(pool.agents[least], partners, intra, inter)


def game(pool: Pool) -> Hanabi:
    """The game that the agents of a pool play."""
    path = pool.path(pool.agents[0].name)
    return game_of(load_policies(path), str(path))


def learned(run: Path) -> dict[str, Policies]:
    """The policies of a finished run by name, one per seed."""
    policies = policies_of(load(run))
    return {name: policies.only([name]) for name in policies.names}


def after_learning(pool: Pool, start: Start, run: Path, episodes: int) -> Play:
    """Agents that kept learning, one per seed of a run, with the agents that they never met."""
    egos = learned(run)
    met = dict.fromkeys((*start.intra, *start.inter))
    others = {name: load_policies(pool.path(name)) for name in met}
    returns = play_pool({**egos, **others}, game(pool), episodes, 0).returns.mean(-1)
    points = PoolPlay([*egos, *others], returns)
    return play_of([points.play(ego, start.intra, start.inter) for ego in egos])


def before_learning(pool: Pool, start: Start) -> Play:
    """The same for the agent as it was in the pool."""
    return play_of([points_of(pool).play(start.agent.name, start.intra, start.inter)])


def before_and_after(
    pool: Pool, start: Start, run: Path, episodes: int
) -> Mapping[str, tuple[list[str], np.ndarray, np.ndarray]]:
    """Cross-play of the learner, its partners and two unseen agents, before and after learning.

    Names, and scores and returns [agents, agents, episodes].
    """
    unseen = [name for name in start.inter if "aux" in name][:2] or list(start.inter[:2])
    others = {name: load_policies(pool.path(name)) for name in (*start.partners, *unseen)}
    first, ego = start.agent.name, next(iter(learned(run).values()))
    learners = {"before": load_policies(pool.path(first)), "after": ego}
    found = {}
    for when, policies in learners.items():
        agents = {policies.names[0]: policies, **others}
        played = play_pool(agents, game(pool), episodes, 0)
        found[when] = (["learner", *others], played.score, played.returns)
    return found

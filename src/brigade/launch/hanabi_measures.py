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


def of_method(pool: Pool, method: str, inter: Sequence[str], best: bool) -> Play:
    """The agents of one method of a pool: all of them, or the one that plays best across methods.

    Nobody counts as their own partner.
    """
    names = [agent.name for agent in pool.agents]
    own = [n for n, agent in enumerate(pool.agents) if agent.method == method]
    if not own:
        raise UserError(f"the pool {pool.folder} has no agents of method {method}")
    both = (pool.returns + pool.returns.T) / 2
    others = [names.index(name) for name in inter]

    def with_others(agent: int, group: Sequence[int]) -> float:
        met = [n for n in group if n != agent]
        return float(both[agent, met].mean()) if met else float("nan")

    across = {agent: with_others(agent, others) for agent in own}
    chosen = [max(own, key=lambda agent: across[agent])] if best else own
    return Play(
        np.array([pool.returns[agent, agent] for agent in chosen]),
        np.array([with_others(agent, own) for agent in chosen]),
        np.array([across[agent] for agent in chosen]),
    )


@dataclass(frozen=True)
class Start:
    """An agent of the pool that goes on learning, with whom, and who is kept for tests."""

    agent: Agent
    partners: tuple[str, ...]
    intra: tuple[str, ...]
    inter: tuple[str, ...]

    def settings(self, pool: Pool) -> dict[str, Any]:
        """Settings of the stream, as in a config file."""

        def paths(names: Sequence[str]) -> list[str]:
            return [str(pool.path(name)) for name in names]

        return {
            "learner": str(pool.path(self.agent.name)),
            "partners": paths(self.partners),
            "intra": paths(self.intra),
            "inter": paths(self.inter),
        }


def start_of(pool: Pool, method: str, stream: str = "hard") -> Start:
    """The agent of a method with the least cross-play, and the partners of a stream."""
    agents = [n for n, agent in enumerate(pool.agents) if agent.method == method]
    if not agents:
        raise UserError(f"the pool {pool.folder} has no agents of method {method}")
    both = (pool.returns + pool.returns.T) / 2
    least = min(agents, key=lambda n: (both[n].sum() - both[n, n], pool.agents[n].name))
    partners = pool.stream(stream).partners
    if pool.agents[least].name in partners:
        raise UserError(f"{pool.agents[least].name} is a partner of the stream {stream}")
    names = [agent.name for agent in pool.agents]
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


def after_learning(pool: Pool, start: Start, run: Path, episodes: int, seed: int = 0) -> Play:
    """Agents that kept learning, one per seed of a run, with the agents that they never met."""
    egos = learned(run)
    met = dict.fromkeys((*start.intra, *start.inter))
    others = {name: load_policies(pool.path(name)) for name in met}
    names = [*egos, *others]
    returns = play_pool({**egos, **others}, game(pool), episodes, seed).returns.mean(-1)
    both = (returns + returns.T) / 2

    def mean_with(ego: str, group: Sequence[str]) -> float:
        columns = [names.index(name) for name in group]
        return float(both[names.index(ego), columns].mean()) if columns else float("nan")

    return Play(
        np.array([returns[names.index(ego), names.index(ego)] for ego in egos]),
        np.array([mean_with(ego, start.intra) for ego in egos]),
        np.array([mean_with(ego, start.inter) for ego in egos]),
    )


def before_learning(pool: Pool, start: Start) -> Play:
    """The same for the agent as it was in the pool."""
    names = [agent.name for agent in pool.agents]
    both, me = (pool.returns + pool.returns.T) / 2, names.index(start.agent.name)

    def mean_with(group: Sequence[str]) -> np.ndarray:
        columns = [names.index(name) for name in group]
        return np.array([both[me, columns].mean() if columns else np.nan])

    return Play(np.array([pool.returns[me, me]]), mean_with(start.intra), mean_with(start.inter))


def before_and_after(
    pool: Pool, start: Start, run: Path, episodes: int, seed: int = 0
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
        played = play_pool(agents, game(pool), episodes, seed)
        found[when] = (["learner", *others], played.score, played.returns)
    return found

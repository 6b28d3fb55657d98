"""Self-play, play within and across methods: of a pool's agents, and of agents that kept learning.

This is behind Tables 2, 6 and 7 and Figure 2 of the Lifelong Hanabi paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from brigade.benchmarks.lifelong_hanabi import game_of
from brigade.benchmarks.lifelong_hanabi_pool import Pool, Stream, held_out
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


def play_of(
    agents: Sequence[str],
    intra: Sequence[str],
    inter: Sequence[str],
    names: Sequence[str],
    returns: np.ndarray,
) -> Play:
    """Agents with themselves and with two groups, by the returns [seat 0, seat 1] of all that are
    named; nobody counts as their own partner."""
    both, place = (returns + returns.T) / 2, {name: row for row, name in enumerate(names)}

    def mean_with(group: Sequence[str], agent: str) -> float:
        met = [place[other] for other in group if other != agent]
        return float(both[place[agent]][met].mean()) if met else float("nan")

    alone = np.array([float(returns[place[agent], place[agent]]) for agent in agents])
    met = (np.array([mean_with(group, agent) for agent in agents]) for group in (intra, inter))
    return Play(alone, *met)


def in_pool(pool: Pool, agents: Sequence[str], intra: Sequence[str], inter: Sequence[str]) -> Play:
    """The play of a pool's agents."""
    return play_of(agents, intra, inter, [agent.name for agent in pool.agents], pool.returns)


def agents_of(pool: Pool, method: str) -> list[str]:
    """The agents of a method."""
    found = [agent.name for agent in pool.agents if agent.method == method]
    if not found:
        raise UserError(f"the pool {pool.folder} has no agents of method {method}")
    return found


def of_method(pool: Pool, method: str, inter: Sequence[str], best: bool) -> Play:
    """All agents of a method, or the one that plays best across methods."""
    own = agents_of(pool, method)
    play = in_pool(pool, own, own, inter)
    chosen = [int(np.argmax(play.inter))] if best else slice(None)
    return Play(*(values[chosen] for values in play))


def settings_of(pool: Pool, start: Stream) -> dict[str, Any]:
    """Settings of a stream, as in a config file."""
    met = {"partners": start.partners, "intra": start.intra, "inter": start.inter}
    paths = {who: [str(pool.path(name)) for name in names] for who, names in met.items()}
    return {"learner": str(pool.path(start.learner)), **paths}


def start_of(pool: Pool, method: str) -> Stream:
    """The agent of a method with the least cross-play goes on learning with the hard partners."""
    names = [agent.name for agent in pool.agents]
    both = pool.returns + pool.returns.T
    agents = [names.index(name) for name in agents_of(pool, method)]
    least = min(agents, key=lambda n: (both[n].sum() - both[n, n], names[n]))
    partners = pool.stream("hard").partners
    if names[least] in partners:
        raise UserError(f"{names[least]} is a partner of the stream hard")
    met = {least, *(names.index(name) for name in partners)}
    intra, inter = held_out(pool.agents, met, method)
    return Stream(names[least], partners, intra, inter)


def game(pool: Pool) -> Hanabi:
    """The game that the agents of a pool play."""
    path = pool.path(pool.agents[0].name)
    return game_of(load_policies(path), str(path))


def learned(run: Path) -> dict[str, Policies]:
    """The policies of a finished run by name, one per seed."""
    policies = policies_of(load(run))
    return {name: policies.only([name]) for name in policies.names}


def after_learning(pool: Pool, start: Stream, run: Path, episodes: int) -> Play:
    """Agents that kept learning, one per seed of a run, with the agents that they never met."""
    egos = learned(run)
    met = dict.fromkeys((*start.intra, *start.inter))
    others = {name: load_policies(pool.path(name)) for name in met}
    returns = play_pool({**egos, **others}, game(pool), episodes, 0).returns.mean(-1)
    return play_of(list(egos), start.intra, start.inter, [*egos, *others], returns)


def before_learning(pool: Pool, start: Stream) -> Play:
    """The same for the agent as it was in the pool."""
    return in_pool(pool, [start.learner], start.intra, start.inter)


def before_and_after(
    pool: Pool, start: Stream, run: Path, episodes: int
) -> Mapping[str, tuple[list[str], np.ndarray, np.ndarray]]:
    """Cross-play of the learner, its partners and two unseen agents, before and after learning.

    Names, and scores and returns [agents, agents, episodes].
    """
    unseen = [name for name in start.inter if "aux" in name][:2] or list(start.inter[:2])
    others = {name: load_policies(pool.path(name)) for name in (*start.partners, *unseen)}
    first, ego = start.learner, next(iter(learned(run).values()))
    learners = {"before": load_policies(pool.path(first)), "after": ego}
    found = {}
    for when, policies in learners.items():
        agents = {policies.names[0]: policies, **others}
        played = play_pool(agents, game(pool), episodes, 0)
        found[when] = (["learner", *others], played.score, played.returns)
    return found

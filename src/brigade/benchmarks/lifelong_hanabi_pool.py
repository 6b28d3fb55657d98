"""Pools of pre-trained agents: a policy file for each, and who plays how well with whom.

A pool is a folder with one policy file per agent and `pool.json`: the agents' methods and
architectures, the matrix of cross-play, and the streams of partners that were chosen from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from brigade.errors import UserError
from brigade.partners.files import SUFFIX
from brigade.reading import DamagedError, counted, entry, expect, read_json, shown, texts
from brigade.registry import unknown_name

INDEX = "pool.json"
FORMAT = 1


@dataclass(frozen=True)
class Agent:
    """A pre-trained agent."""

    name: str
    method: str  # such as vdn_op
    architecture: int  # its number in the paper's list
    seed: int

    @property
    def file(self) -> str:
        """The name of its policy file."""
        return f"{self.name}{SUFFIX}"


@dataclass(frozen=True)
class Stream:
    """Who learns, with whom in which order, and who is kept for tests; names of agents."""

    learner: str
    partners: tuple[str, ...]
    intra: tuple[str, ...]  # of the learner's method
    inter: tuple[str, ...]  # of all methods

    def __post_init__(self) -> None:
        met = {self.learner, *self.partners}
        leaked = sorted(met & {*self.intra, *self.inter})
        if leaked:
            raise ValueError(f"{leaked[0]} is in training and held out for tests; remove it there")
        if len(met) != 1 + len(self.partners):
            raise ValueError("a partner occurs twice, or is the learner itself")


@dataclass(frozen=True, eq=False)
class Pool:
    """The agents of a folder."""

    folder: Path
    agents: tuple[Agent, ...]
    returns: np.ndarray  # [agents, agents] f32: mean points; rows have seat 0
    streams: Mapping[str, Stream]
    episodes: int  # per pair, of `returns`

    def path(self, name: str) -> Path:
        """The policy file of an agent."""
        names = [agent.name for agent in self.agents]
        if name not in names:
            raise UserError(unknown_name("agent", name, names))
        return self.folder / f"{name}{SUFFIX}"

    def stream(self, name: str) -> Stream:
        """A stream by its name."""
        if name not in self.streams:
            known = ", ".join(self.streams) or "none"
            raise UserError(f"the pool {self.folder} has no stream {name!r}; it has: {known}")
        return self.streams[name]

    def as_json(self) -> str:
        """The content of `pool.json`."""
        tree = {
            "format": FORMAT,
            "agents": [asdict(agent) for agent in self.agents],
            "episodes": self.episodes,
            "returns": np.round(np.asarray(self.returns, np.float64), 4).tolist(),
            "streams": {name: asdict(stream) for name, stream in self.streams.items()},
        }
        return json.dumps(tree, indent=1)


def read_pool(folder: str | Path) -> Pool:
    """Read a pool; anything unexpected is a one-line error."""
    folder = Path(folder)
    where = str(folder / INDEX)
    try:
        tree = read_json(where, follow=True)
    except FileNotFoundError as error:
        raise UserError(
            f"{folder} is no pool: it has no {INDEX}; make one with "
            "'brigade reproduce lifelong_hanabi/pool'"
        ) from error
    if (number := entry(tree, "format", int, where)) != FORMAT:
        raise DamagedError(f"{where} has format {number}; this Brigade reads {FORMAT}")
    agents = tuple(agent_from(each, where) for each in entry(tree, "agents", list, where))
    rows = [expect(row, list, f"{where}: a row") for row in entry(tree, "returns", list, where)]
    if [len(row) for row in rows] != [len(agents)] * len(agents):
        raise DamagedError(
            f"{where} is damaged: its returns have {len(rows)} rows, or rows of "
            f"other lengths, for {len(agents)} agents"
        )
    returns = [[expect(points, float, f"{where}: a return") for points in row] for row in rows]
    names = {agent.name for agent in agents}
    streams = {
        name: stream_from(each, names, where)
        for name, each in entry(tree, "streams", dict, where).items()
    }
    episodes = counted(tree, "episodes", where)
    return Pool(folder, agents, np.asarray(returns, np.float32), streams, episodes)


def agent_from(tree: Any, where: str) -> Agent:
    """An agent from plain values."""
    name = entry(tree, "name", str, where)
    if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
        raise DamagedError(
            f"{where}: {shown(name)} is not the name of an agent; use letters, digits, - and _"
        )
    number, seed = counted(tree, "architecture", where), counted(tree, "seed", where)
    return Agent(name, entry(tree, "method", str, where), number, seed)


def stream_from(tree: Any, known: set[str], where: str) -> Stream:
    """A stream from plain values."""
    sets = [tuple(texts(tree, name, where)) for name in ("partners", "intra", "inter")]
    try:
        stream = Stream(entry(tree, "learner", str, where), *sets)
    except ValueError as error:
        raise DamagedError(f"{where} is damaged: {error}") from error
    for name in (stream.learner, *stream.partners, *stream.intra, *stream.inter):
        if name not in known:
            raise DamagedError(
                f"{where}: a stream names {shown(name)}, which is no agent of the pool"
            )
    return stream


# --- choosing streams ---

LEARNER = "iql"
WITHOUT_EXTRAS = ("iql", "vdn", "iql_op", "vdn_op")  # methods of training partners, as in the paper
PER_METHOD = 2  # held-out agents of every method


def check_size(agents: Sequence[Agent], lengths: Mapping[str, int]) -> None:
    """Refuse pools that are too small for a learner and the partners of every stream."""
    if not any(agent.method == LEARNER for agent in agents):
        raise ValueError(f"the pool has no agent of method {LEARNER} to be the learner")
    number = sum(agent.method in WITHOUT_EXTRAS for agent in agents) - 1
    for name, length in lengths.items():
        if length > number:
            raise ValueError(
                f"the pool has {number} agents of {', '.join(WITHOUT_EXTRAS)} to choose partners "
                f"from; the stream {name} needs {length}"
            )


def choose_streams(
    agents: Sequence[Agent], returns: np.ndarray, lengths: Mapping[str, int]
) -> dict[str, Stream]:
    """Streams `easy`, `hard` and others by cross-play; `lengths` has the partners of each.

    The learner is the IQL agent with the least cross-play. Partners are trained without auxiliary
    loss and greedy moves. In the easy stream they are those who play best with the learner; in all
    others each plays badly with the learner and with those chosen before. Agents of the learner's
    method are left for intra-play, if the pool is large enough.
    """
    check_size(agents, lengths)
    names = [agent.name for agent in agents]
    both = (returns + returns.T) / 2
    cross_play = both.sum(1) - np.diag(both)
    learners = [n for n, agent in enumerate(agents) if agent.method == LEARNER]
    learner = min(learners, key=lambda n: (cross_play[n], names[n]))
    candidates = [n for n, a in enumerate(agents) if a.method in WITHOUT_EXTRAS and n != learner]
    streams = {}
    for name, length in lengths.items():
        own = [n for n in candidates if agents[n].method == LEARNER]
        others = len(candidates) - len(own)
        most = max(len(own) - PER_METHOD, length - others)  # the rest is left for intra-play
        chosen = chosen_partners(both, learner, candidates, length, own, most, name == "easy")
        streams[name] = Stream(
            names[learner],
            tuple(names[n] for n in chosen),
            *held_out(agents, {learner, *chosen}, agents[learner].method),
        )
    return streams


def chosen_partners(
    both: np.ndarray,
    learner: int,
    candidates: Sequence[int],
    number: int,
    limited: Sequence[int] = (),
    most: int = 0,
    easy: bool = False,
) -> list[int]:
    """Partners in the order they are chosen; `both` is the mean of both seat orders.

    There are at most `most` of the `limited` among them.
    """
    chosen: list[int] = []
    while len(chosen) < number:
        full = sum(n in limited for n in chosen) >= most
        left = [n for n in candidates if n not in chosen and not (full and n in limited)]
        if easy:
            chosen.append(min(left, key=lambda n: (-both[learner, n], n)))
        else:
            met = [learner, *chosen]
            chosen.append(min(left, key=lambda n: (both[n, met].mean(), n)))
    return chosen


def held_out(
    agents: Sequence[Agent], met: set[int], method: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Agents that were not met: all of the learner's method, and some of every method."""
    free = [agent for n, agent in enumerate(agents) if n not in met]
    intra = tuple(agent.name for agent in free if agent.method == method)
    by_method: dict[str, list[Agent]] = {}
    for agent in free:
        by_method.setdefault(agent.method, []).append(agent)
    inter: list[str] = []
    for each in by_method.values():
        varied = sorted(each, key=lambda agent: agent.seed)  # different architectures first
        inter += [agent.name for agent in varied[:PER_METHOD]]
    return intra, tuple(inter)

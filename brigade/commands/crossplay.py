"""`brigade crossplay`: play every policy with every other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax

from brigade import registry
from brigade.core import Benchmark
from brigade.core.checks import within
from brigade.errors import UserError
from brigade.partners.cast import cast_of
from brigade.partners.files import SUFFIX, Policies, load_policies
from brigade.report.crossplay import Matrix
from brigade.runs.config import from_dict
from brigade.runs.export import policies_of
from brigade.runs.run import load
from brigade.train.crossplay import cross_play


class Reader:
    """Policies by the name of a file or of a run's folder; each is read once."""

    def __init__(self, task: int | None, trust: bool) -> None:
        self.task, self.trust = task, trust
        self.known: dict[str, Policies] = {}

    def __call__(self, name: str) -> Policies:
        """Of a run with several tasks, as it acts on the one that is played."""
        if name not in self.known:
            if name.endswith(RUN):
                run = load(Path(name.removesuffix(RUN)), trust=self.trust)
                task = None if self.task is None else self.task - 1
                self.known[name] = policies_of(run, task)
            else:
                self.known[name] = load_policies(name)
        return self.known[name]


RUN = f"//{SUFFIX}"  # how the folder of a run is passed on as if it were a file
LARGEST_SEED = 2**32 - 1


def crossplay(
    words: Sequence[str],
    benchmark: str | None,
    flags: Sequence[str],
    task: int | None,
    seed: int | None,
    episodes: int,
    greedy: bool,
    trust: bool = False,
) -> Matrix:
    """All pairs in one game: that of `benchmark`, or the one the first policy was trained in."""
    reader = Reader(task, trust)
    named = [f"{word}{RUN}" if Path(word).is_dir() else word for word in words]
    first = first_of(named, reader)
    described = game_of(first, benchmark, flags)
    at_home = first is not None and described.id == first.origin.get("benchmark")
    task = task or (int(first.origin.get("task_number", 1)) if first and at_home else 1)
    if seed is None:
        seed = int(first.members[0].get("seed", 0)) if first and at_home else 0
    try:
        within("seed", seed, 0, LARGEST_SEED)
        sequence = described.sequence(seed, task, 1)
        cast = cast_of(named, described.env, greedy, reader)
        played = cross_play(described.env, sequence[task - 1], cast, episodes, jax.random.key(seed))
    except ValueError as error:
        raise UserError(str(error)) from error
    game = (
        described.id
        if sequence.names[task - 1] == described.id
        else (f"{described.id}, {sequence.names[task - 1]}")
    )
    return Matrix(cast.names, played.score, played.returns, game)


def first_of(words: Sequence[str], reader: Reader) -> Policies | None:
    """The first policies that come from a file or a run: they say which game they know."""
    files = [word.partition(SUFFIX)[0] + SUFFIX for word in words if SUFFIX in word]
    return reader(files[0]) if files else None


def game_of(first: Policies | None, benchmark: str | None, flags: Sequence[str]) -> Benchmark:
    """The game to play in, with its settings."""
    origin = first.origin if first else {}
    home = origin.get("benchmark")
    if benchmark is None and home not in registry.names("benchmarks"):  # a file may not name code
        said = (
            f"the first policy comes from {home!r}, which has no name here"
            if home
            else ("no policy file says which game to play")
        )
        raise UserError(f"{said}; give --benchmark NAME")
    tree = {"benchmark": benchmark or home}
    if origin.get("env") and tree["benchmark"] == home:
        tree["env"] = origin["env"]
    return from_dict(tree, flags).benchmark()

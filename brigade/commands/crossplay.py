"""`brigade crossplay`: play every policy with every other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax

from brigade.core import Benchmark
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
        """As trained for the task, where a run has several."""
        if name not in self.known:
            path = Path(name.removesuffix(f"/{RUN}"))
            if name.endswith(RUN):
                self.known[name] = policies_of(load(path, trust=self.trust))
            else:
                self.known[name] = load_policies(path)
        return self.known[name]


RUN = f"run{SUFFIX}"  # how the folder of a run is passed on as if it were a file


def crossplay(
    words: Sequence[str],
    benchmark: str | None,
    flags: Sequence[str],
    task: int,
    seed: int,
    episodes: int,
    greedy: bool,
    trust: bool = False,
) -> Matrix:
    """All pairs in one game: that of `benchmark`, or the one the first policy was trained in."""
    reader = Reader(None, trust)
    named = [f"{word}/{RUN}" if Path(word).is_dir() else word for word in words]
    described = game_of(named, benchmark, flags, reader)
    try:
        sequence = described.sequence(seed, task, 1)
    except ValueError as error:
        raise UserError(str(error)) from error
    cast = cast_of(named, described.env, greedy, reader)
    played = cross_play(described.env, sequence[task - 1], cast, episodes, jax.random.key(seed))
    game = (
        described.id
        if sequence.names[task - 1] == described.id
        else (f"{described.id}, {sequence.names[task - 1]}")
    )
    return Matrix(cast.names, played.score, played.returns, game)


def game_of(
    words: Sequence[str], benchmark: str | None, flags: Sequence[str], reader: Reader
) -> Benchmark:
    """The game to play in, with its settings."""
    files = [word.partition(SUFFIX)[0] + SUFFIX for word in words if SUFFIX in word]
    origin = reader(files[0]).origin if files else {}
    if benchmark is None and not origin.get("benchmark"):
        raise UserError("no policy file says which game to play; give --benchmark NAME")
    tree = {"benchmark": benchmark or origin["benchmark"]}
    if origin.get("env") and benchmark in (None, origin["benchmark"]):
        tree["env"] = origin["env"]
    return from_dict(tree, flags).benchmark()

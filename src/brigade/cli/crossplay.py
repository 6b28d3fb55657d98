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
from brigade.runs.limits import SCORE_BYTES, require_memory, tasks_bytes
from brigade.runs.run import load
from brigade.runs.trust import without_files
from brigade.train.crossplay import cross_play


class Reader:
    """Loads policies from a policy file or a run folder, each only once."""

    def __init__(self, task: int | None, trust: bool) -> None:
        self.task, self.trust = task, trust
        self.known: dict[str, Policies] = {}

    def __call__(self, name: str) -> Policies:
        """The policies of a file or, for names that end in RUN, of a run folder.

        A run with several tasks gives the policy for the task being played.
        """
        if name not in self.known:
            if name.endswith(RUN):
                run = load(Path(name.removesuffix(RUN)), trust=self.trust)
                task = None if self.task is None else self.task - 1
                self.known[name] = policies_of(run, task)
            else:
                self.known[name] = load_policies(name)
        return self.known[name]


RUN = f"//{SUFFIX}"  # marks a run folder, so that it can be passed on like a policy file
MAX_SEED = 2**32 - 1


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
    """Play all pairs in the environment of `benchmark` (default: where the first was trained)."""
    reader = Reader(task, trust)
    named = [f"{word}{RUN}" if Path(word).is_dir() else word for word in words]
    first = first_trained(named, reader)
    chosen = find_benchmark(first, benchmark, flags)
    try:
        task, seed = place_of(first, chosen, task, seed)
        sequence = chosen.sequence(seed, task, 1)
        cast = cast_of(named, chosen.env, greedy, reader)
        require_memory(SCORE_BYTES * cast.size**2 * episodes, "the scores", "--episodes")
        played = cross_play(chosen.env, sequence[task - 1], cast, episodes, jax.random.key(seed))
    except ValueError as error:
        raise UserError(str(error)) from error
    name = sequence.names[task - 1]
    game = chosen.id if name == chosen.id else f"{chosen.id}, {name}"
    return Matrix(cast.names, played.score, played.returns, game)


def place_of(
    first: Policies | None, benchmark: Benchmark, task: int | None, seed: int | None
) -> tuple[int, int]:
    """The task (from 1) and the seed to play; by default those of the first trained policy."""
    same = first is not None and benchmark.id == first.origin.get("benchmark")
    task = task or (int(first.origin.get("task_number", 1)) if first and same else 1)
    if seed is None:
        seed = int(first.members[0].get("seed", 0)) if first and same else 0
    within("seed", seed, 0, MAX_SEED)
    require_memory(tasks_bytes(benchmark.env, task), "so many tasks", "--task")
    return task, seed


def first_trained(words: Sequence[str], reader: Reader) -> Policies | None:
    """The first policies from a file or a run; their metadata names their benchmark."""
    files = [word.partition(SUFFIX)[0] + SUFFIX for word in words if SUFFIX in word]
    return reader(files[0]) if files else None


def find_benchmark(
    first: Policies | None, benchmark: str | None, flags: Sequence[str]
) -> Benchmark:
    """The benchmark to play, with its settings."""
    origin = first.origin if first else {}
    home = origin.get("benchmark")
    if benchmark is None and home not in registry.names("benchmarks"):  # a file may not name code
        reason = (
            f"the first policy was trained on {home!r}, which is not a registered benchmark"
            if home
            else "no policy comes from a file or a run, so the benchmark is unknown"
        )
        raise UserError(f"{reason}; give --benchmark NAME")
    tree = {"benchmark": benchmark or home}
    if origin.get("env") and tree["benchmark"] == home:
        tree["env"] = without_files(origin["env"])
    return from_dict(tree, flags).benchmark()

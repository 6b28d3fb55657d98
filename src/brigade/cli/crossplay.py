"""`brigade crossplay`: play every policy with every other."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import jax

from brigade import registry
from brigade.core import Benchmark
from brigade.core.checks import within
from brigade.errors import UserError
from brigade.partners.cast import cast_of
from brigade.partners.files import Policies, named_policies
from brigade.report.crossplay import Matrix
from brigade.runs.config import from_dict
from brigade.runs.export import policies_of
from brigade.runs.limits import SCORE_BYTES, require_memory, tasks_bytes
from brigade.runs.run import load
from brigade.runs.trust import without_files
from brigade.train.crossplay import cross_play

MAX_SEED = 2**32 - 1


def crossplay(options: argparse.Namespace, flags: Sequence[str]) -> Matrix:
    """Play all pairs in the environment of --benchmark (default: where the first was trained)."""
    words, episodes = options.policies, options.episodes
    loaded = trained_policies(words, options.task, options.trust)
    first = next(iter(loaded.values()), None)
    chosen = find_benchmark(first, options.benchmark, flags)
    try:
        task, seed = place_of(first, chosen, options.task, options.seed)
        sequence = chosen.sequence(seed, task, 1)
        cast = cast_of(words, chosen.env, options.greedy, loaded)
        require_memory(SCORE_BYTES * cast.size**2 * episodes, "the scores", "--episodes")
        played = cross_play(chosen.env, sequence[task - 1], cast, episodes, jax.random.key(seed))
    except ValueError as error:
        raise UserError(str(error)) from error
    name = sequence.names[task - 1]
    game = chosen.id if name == chosen.id else f"{chosen.id}, {name}"
    return Matrix(cast.names, played.score, played.returns, game)


def trained_policies(words: Sequence[str], task: int | None, trust: bool) -> dict[str, Policies]:
    """The policies of files and run folders, by their words; other partners have none.

    A run with several tasks gives the policy for the task being played, counted from 1.
    """
    found = {}
    for word in words:
        if Path(word).is_dir():
            run = load(Path(word), trust=trust)
            found[word] = policies_of(run, None if task is None else task - 1)
        elif policies := named_policies(word):
            found[word] = policies
    return found


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

"""Single-task baselines, for forward transfer: every task trained from scratch, on its own.

All tasks of a seed are trained in parallel, as seeds are. Baselines do not depend on the continual
method, so they are stored next to the run folders, named by a hash of everything they depend on,
and runs with other methods reuse them.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from brigade import __version__
from brigade.core import Environment, TaskSequence
from brigade.methods.ft import FineTuning
from brigade.runs.assemble import assemble_with
from brigade.runs.config import Experiment, RunConfig
from brigade.runs.folder import npz_bytes, read_npz, write_atomically
from brigade.runs.interrupt import until_ctrl_c
from brigade.runs.kept_files import settings_hash
from brigade.runs.run import RunResult
from brigade.train import Progress

FOLDER, FILE = "baselines", "baselines.npz"
COPIES = 3  # of a rollout's observations in memory: collected, reduced and being computed with
Watch = Callable[[str, Progress], None]


def add_baselines(result: RunResult, watch: Watch | None = None) -> Path:
    """Train the baselines that are missing and save those of all seeds in the run folder."""
    path = result.path / FILE
    if path.exists():
        return path
    config = result.experiment.config
    store = result.path.parent / FOLDER
    found = [
        baseline_of_seed(result.experiment, seed, store, watch)
        for seed in range(config.seed, config.seed + config.seeds)
    ]
    arrays = {
        "baseline_steps": found[0]["steps"],
        "baseline_score": np.stack([each["score"] for each in found], axis=1),
    }
    write_atomically(path, npz_bytes(arrays))
    return path


def print_progress(what: str, progress: Progress) -> None:
    """Print one line per evaluation."""
    if progress.evaluated:
        print(f"baselines: {what}, {progress.steps:,} steps each", file=sys.stderr, flush=True)


def baseline_of_seed(
    experiment: Experiment, seed: int, store: Path, watch: Watch | None = None
) -> dict[str, np.ndarray]:
    """`steps` [evaluation] and `score` [task, evaluation] of one seed; read from disk if there."""
    path = store / f"{fingerprint(experiment, seed)}.npz"
    if path.exists():
        return read_npz(path)
    arrays = train_single_tasks(experiment, seed, watch)
    store.mkdir(parents=True, exist_ok=True)
    write_atomically(path, npz_bytes(arrays))
    return arrays


def train_single_tasks(
    experiment: Experiment, seed: int, watch: Watch | None = None
) -> dict[str, np.ndarray]:
    """Train every task of a seed from scratch, in parallel in one program."""
    config = dataclasses.replace(experiment.config, tasks=1, repetitions=1)
    single = dataclasses.replace(experiment, config=config, method=FineTuning())
    benchmark = experiment.benchmark()
    whole = benchmark.sequence(seed, experiment.config.tasks, int(config.steps_per_task))
    scores, steps = [], np.zeros(0, np.int64)
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    each = COPIES * rollout_bytes(benchmark.env, whole[0], config.num_envs * config.num_steps)
    for tasks in groups(len(whole), each, limit):
        sequences = [one_task(whole, task) for task in tasks]
        single = dataclasses.replace(single, config=with_seeds(config, seed, len(tasks)))
        seeds = [baseline_seed(seed, task) for task in tasks]
        parts = assemble_with(single, benchmark, sequences, seeds)
        record = None
        updates = parts.trainer.run(
            sequences,
            parts.evaluator,
            seeds=seeds,
            updates_per_task=config.updates_per_task,
            eval_every=config.eval_every,
            lineup=parts.lineup,
        )
        for progress, position in until_ctrl_c(updates):
            record = position.record
            if watch is not None:
                watch(f"seed {seed}, tasks {tasks[0] + 1} to {tasks[-1] + 1}", progress)
        assert record is not None
        steps = np.asarray(record.steps, np.int64)
        # [evaluation, task, partner, seat, seed, ...]: the tasks are on the axis of seeds.
        by_task = np.moveaxis(np.stack(record.score)[:, 0], 3, 0)
        scores.append(by_task.reshape(*by_task.shape[:2], -1).mean(-1))  # [tasks, evaluation]
    return {"steps": steps, "score": np.concatenate(scores)}


def with_seeds(config: RunConfig, seed: int, number: int) -> RunConfig:
    """The config with so many seeds, all of which meet the partners of one seed."""
    met = config.partners_of_seed
    of_seed = (met[seed - config.seed],) * number if met else ()
    return dataclasses.replace(config, seeds=number, partners_of_seed=of_seed)


def rollout_bytes(env: Environment, task: Any, steps: int) -> int:
    """The size of the observations of so many steps."""
    _, now = jax.eval_shape(env.reset, jax.random.key(0), task)
    return steps * math.prod(now.view.obs.shape) * now.view.obs.dtype.itemsize


def groups(number: int, each: int, limit: int | None) -> list[range]:
    """Split the tasks into equal groups, each of which fits into half of the device's memory."""
    if limit is None:
        return [range(number)]
    fits = max(1, limit // 2 // each)
    size = max(n for n in range(1, number + 1) if number % n == 0 and n <= fits)
    return [range(first, first + size) for first in range(0, number, size)]


def one_task(sequence: TaskSequence, index: int) -> TaskSequence:
    """A sequence with one task only, which therefore gets the first head."""
    return TaskSequence.from_tasks(
        [sequence[index]],
        [sequence.names[index]],
        sequence.steps,
        partners=sequence.partners[index : index + 1],
        games=sequence.games[index : index + 1],
    )


def baseline_seed(seed: int, task: int) -> int:
    """The seed of a baseline, so that each starts from different parameters than any other run."""
    return int(np.random.SeedSequence(seed, spawn_key=(task,)).generate_state(1)[0] >> 1)


def fingerprint(experiment: Experiment, seed: int) -> str:
    """A hash of everything a baseline depends on."""
    tree = experiment.as_dict() | {"seed": seed, "brigade": __version__}
    for name in ("method", "method_settings", "seeds", "preset", "repetitions"):
        tree.pop(name, None)
    if "network" in tree:  # `auto` means different types on different devices
        tree["network"]["precision"] = np.dtype(experiment.learner.dtype).name
    return settings_hash(tree, 16)

"""Start a run, resume one, or load a finished one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from brigade import __version__
from brigade.runs.assemble import Parts, assemble
from brigade.runs.checkpoints import (
    has_deleted_arrays,
    last_position,
    read_meta,
    read_policies,
    read_record,
)
from brigade.runs.config import Experiment, from_dict, from_json, settings_of_run
from brigade.runs.export import policies_of
from brigade.runs.folder import RunFolder, RunFolderError
from brigade.runs.interrupt import until_ctrl_c
from brigade.runs.loaded import LoadedRun, as_loaded
from brigade.runs.partner_files import copy_files, name_by_hash
from brigade.runs.snapshots import save_snapshot, snapshot_numbers
from brigade.runs.trust import require_trust
from brigade.runs.writer import RunWriter
from brigade.train import Position, Progress


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder and its evaluations."""

    path: Path
    experiment: Experiment
    returns: dict[str, np.ndarray]


Watch = Callable[[Progress, Position, Experiment], None]


def run(
    config: Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    checkpoint_minutes: float = 5.0,
    on_start: Callable[[], None] | None = None,
    watch: Watch | None = None,
) -> RunResult:
    """Do what `brigade run` does; `config` is an experiment or a dictionary like a config file.

    `on_start` is called once all settings are checked, `watch` after every update.
    """
    experiment = config if isinstance(config, Experiment) else from_dict(config)
    parts = assemble(experiment)
    path = Path(out) if out is not None else default_path(experiment)
    folder = RunFolder.create(path, experiment.as_json(__version__))
    copy_files(name_by_hash(experiment.as_dict())[1], path)
    save_pictures(parts, folder)
    if on_start is not None:
        on_start()
    return _train(experiment, parts, folder, None, 0.0, checkpoint_minutes, watch)


def resume(
    path: str | Path,
    *,
    trust: bool = False,
    checkpoint_minutes: float = 5.0,
    on_start: Callable[[], None] | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None] = print,
) -> RunResult:
    """Continue a run from its last valid checkpoint; it ends as if it had never stopped."""
    folder = RunFolder.open(Path(path))
    experiment = read_experiment(folder, trust)
    folder.lock()
    folder.remove_drafts()
    parts = assemble(experiment)
    found = last_position(folder, parts, warn)
    if on_start is not None and not (found and is_finished(found[0], experiment)):
        on_start()
    if found is None:
        folder.truncate_log(0)
        return _train(experiment, parts, folder, None, 0.0, checkpoint_minutes, watch)
    position, seconds = found
    return _train(experiment, parts, folder, position, seconds, checkpoint_minutes, watch)


def load(
    path: str | Path, *, trust: bool = False, warn: Callable[[str], None] = print
) -> LoadedRun:
    """Load a run's config and evaluations, and the policies of its last checkpoint."""
    folder = RunFolder.open(Path(path))
    experiment = read_experiment(folder, trust)
    parts = assemble(experiment)

    def read(checkpoint: Path) -> LoadedRun:
        params, method_state, aux = read_policies(checkpoint, parts)
        returns = read_record(checkpoint)
        task = read_meta(checkpoint).task % len(parts.sequences[0])
        return LoadedRun(folder.path, experiment, returns, parts, params, method_state, task, aux)

    found = folder.newest(read, warn)
    if found is not None:
        return found
    raise RunFolderError(
        f"{path} has no valid checkpoint to load policies from; continue it with 'brigade resume'"
    )


def is_finished(position: Position, experiment: Experiment) -> bool:
    """Whether all tasks are trained."""
    last = (experiment.config.total_tasks - 1, experiment.config.updates_per_task)
    return (position.task, position.update) == last


def read_experiment(folder: RunFolder, trust: bool) -> Experiment:
    """The experiment of a run folder. Python files its config names need `trust`."""
    text = folder.read_config()
    config = settings_of_run(text, str(folder.path / "config.json"))
    require_trust(config, trust, str(folder.path))
    return from_json(text, folder.path)


def default_path(experiment: Experiment) -> Path:
    """runs/BENCHMARK-METHOD-DATE, or with the generator instead of the method."""
    config = experiment.config
    algorithm = config.method if config.generator == "none" else config.generator
    name = f"{config.benchmark}-{Path(algorithm).name}".replace("/", "-").replace(":", "-")
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def save_pictures(parts: Parts, folder: RunFolder) -> None:
    """Save a picture of every task, if the environment can draw one."""
    env = parts.benchmark.env
    if env.picture(parts.sequences[0][0]) is None:
        return
    from PIL import Image

    (folder.path / "pictures").mkdir()
    for seed, sequence in zip(parts.seeds, parts.sequences, strict=True):
        for task in range(len(sequence)):
            path = folder.path / "pictures" / f"seed{seed}-task{task + 1}.png"
            Image.fromarray(env.picture(sequence[task])).save(path)


def _train(
    experiment: Experiment,
    parts: Parts,
    folder: RunFolder,
    position: Position | None,
    seconds_before: float,
    checkpoint_minutes: float,
    watch: Watch | None,
) -> RunResult:
    """The loop of a run: train, log, save."""
    config = experiment.config
    writer = RunWriter(folder, time.monotonic() - seconds_before, checkpoint_minutes)
    updates = parts.trainer.run(
        parts.sequences,
        parts.evaluator,
        seeds=parts.seeds,
        updates_per_task=config.updates_per_task,
        eval_every=config.eval_every,
        repetitions=config.repetitions,
        position=position,
        table=parts.table,
        also=parts.also,
    )
    kept = snapshot_numbers(config)
    try:
        for progress, now in until_ctrl_c(updates):
            position = now
            if progress.evaluated and len(now.record.steps) - 1 in kept:
                trained = as_loaded(folder.path, experiment, parts, now)
                save_snapshot(policies_of(trained), folder.path, progress.steps)
            writer.add(progress, now, progress.update == config.updates_per_task)
            if watch is not None:
                watch(progress, now, experiment)
    except KeyboardInterrupt:
        if position is not None and not has_deleted_arrays(position.state):
            writer.save(position)
        raise
    if position is None:
        raise RunFolderError(f"{folder.path}: there is nothing to train")
    writer.flush()
    arrays = position.record.arrays()
    folder.write_returns(arrays)
    return RunResult(folder.path, experiment, arrays)


__all__ = ["LoadedRun", "RunResult", "assemble", "load", "resume", "run"]

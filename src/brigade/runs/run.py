"""Start a run, resume one, or load a finished one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from brigade import __version__
from brigade.errors import UserError
from brigade.metrics.record import Record
from brigade.partners.files import SUFFIX
from brigade.registry import folder_and_name
from brigade.runs.assemble import Parts, assemble
from brigade.runs.checkpoints import (
    has_deleted_arrays,
    last_position,
    read_meta,
    read_policies,
    read_record,
)
from brigade.runs.config import Experiment, from_dict
from brigade.runs.config_files import kept_by
from brigade.runs.export import LoadedRun, as_loaded, policies_of
from brigade.runs.extend import (
    LENGTHS,
    changed_lengths,
    check_same_tasks,
    fit_record,
    longer,
    write_longer,
)
from brigade.runs.folder import RunFolder, RunFolderError
from brigade.runs.histories import HistoryWriter
from brigade.runs.interrupt import until_ctrl_c
from brigade.runs.kept_files import copies, name_by_hash, with_paths
from brigade.runs.sessions import add_session
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
    trust: bool = False,
    checkpoint_minutes: float = 5.0,
    on_start: Callable[[], None] | None = None,
    watch: Watch | None = None,
) -> RunResult:
    """Do what `brigade run` does; `config` is an experiment or a dictionary like a config file.

    `on_start` is called once all settings are checked, `watch` after every update. `trust` allows
    to execute the code of a run that it starts from.
    """
    experiment = config if isinstance(config, Experiment) else from_dict(config)
    with tempfile.TemporaryDirectory() as scratch:
        given = experiment.config.start_from
        experiment = from_policy_file(experiment, Path(scratch), trust)
        try:
            parts = assemble(experiment)
        except UserError as error:  # name the run, not the file that was made of it
            made = experiment.config.start_from
            raise UserError(str(error).replace(made, given)) from error
        path = Path(out) if out is not None else default_path(experiment)
        folder = create_folder(experiment, path)
    experiment = replace(
        experiment, config=replace(experiment.config, start_from=kept_start(experiment, path))
    )
    add_session(folder, "started")
    save_pictures(parts, folder)
    if on_start is not None:
        on_start()
    return _train(experiment, parts, folder, None, 0.0, checkpoint_minutes, watch)


def create_folder(experiment: Experiment, path: Path) -> RunFolder:
    """A folder with the config and copies of the user's code and policy files."""
    settings = experiment.as_dict()
    code, files = copies(settings)
    files |= {name: file.read_bytes() for name, file in name_by_hash(settings)[1].items()}
    return RunFolder.create(path, experiment.as_json(__version__, code), files)


def from_policy_file(experiment: Experiment, scratch: Path, trust: bool) -> Experiment:
    """An experiment that starts from a run, with that run's policies in a file in `scratch`."""
    word = experiment.config.start_from
    run_path, name = folder_and_name(word)
    if not run_path:
        return experiment
    file = scratch / f"{Path(run_path).resolve().name}{SUFFIX}"
    policies = policies_of(load(run_path, trust=trust))
    if len(policies.members) > 1 and not name:
        raise UserError(
            f"{word} has {len(policies.members)} policies; name one, {word}:{policies.names[0]}"
        )
    file.write_bytes(policies.as_bytes())
    config = replace(experiment.config, start_from=f"{file}:{name}" if name else str(file))
    return replace(experiment, config=config)


def kept_start(experiment: Experiment, path: Path) -> str:
    """The file to start from, as the run folder keeps it."""
    start = name_by_hash(experiment.config.start_from)[0]
    return str(with_paths(start, path))


def resume(
    path: str | Path,
    *,
    tasks: int | None = None,
    steps_per_task: float | None = None,
    repetitions: int | None = None,
    trust: bool = False,
    checkpoint_minutes: float = 5.0,
    on_start: Callable[[], None] | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None] = print,
) -> RunResult:
    """Continue a run from its last valid checkpoint; it ends as if it had never stopped.

    More `tasks`, `steps_per_task` or `repetitions` than it has make it longer.
    """
    folder = RunFolder.open(Path(path))
    experiment = read_experiment(folder, trust, warn)
    before, lengths = experiment, (tasks, steps_per_task, repetitions)
    experiment = longer(experiment, dict(zip(LENGTHS, lengths, strict=True)))
    changes = changed_lengths(before.config, experiment.config)
    if changes and before.config.histories:
        raise UserError(f"{path} keeps histories of whole tasks, so it cannot be made longer")
    folder.lock()
    folder.remove_drafts()
    parts = assemble(experiment)
    if changes:
        check_same_tasks(before, parts)
    found = last_position(folder, parts, experiment.config, warn)
    if changes:
        write_longer(folder, changes)
        save_pictures(parts, folder)
    if not (found and is_finished(found[0], experiment)):
        did = "extended" if changes else "resumed"
        steps = found[0].record.steps[-1] if found else 0
        add_session(folder, did, steps=steps, **({"changes": changes} if changes else {}))
        if on_start is not None:
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
    experiment = read_experiment(folder, trust, warn)
    parts = assemble(experiment)

    def read(checkpoint: Path) -> LoadedRun:
        record = Record.from_arrays(read_record(checkpoint))  # up to this checkpoint
        more_tasks = fit_record(record, parts)
        params, method_state, matches = read_policies(checkpoint, parts, more_tasks)
        returns = record.arrays()
        task = read_meta(checkpoint).task % len(parts.sequences[0])
        return LoadedRun(
            folder.path, experiment, returns, parts, params, method_state, task, matches
        )

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


def read_experiment(
    folder: RunFolder, trust: bool, say: Callable[[str], None] = print
) -> Experiment:
    """The experiment of a run folder. Python files its config names need `trust`."""
    kept = kept_by(folder)
    require_trust(kept.settings, trust, str(folder.path))
    return from_dict(kept.own(say))


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

    (folder.path / "pictures").mkdir(exist_ok=True)
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
        lineup=parts.lineup,
        also=parts.also,
    )
    kept = snapshot_numbers(config)
    histories = HistoryWriter(folder.path, experiment, parts) if config.histories else None
    if histories is not None:
        histories.start(position)
    try:
        for progress, now in until_ctrl_c(updates):
            position = now
            if progress.evaluated and len(now.record.steps) - 1 in kept:
                trained = as_loaded(folder.path, experiment, parts, now)
                save_snapshot(policies_of(trained), folder.path, progress.steps)
            if histories is not None:
                histories.add(progress, now)
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
    if histories is not None:
        histories.close()
    arrays = position.record.arrays()
    folder.write_returns(arrays)
    return RunResult(folder.path, experiment, arrays)


__all__ = ["LoadedRun", "RunResult", "assemble", "load", "resume", "run"]

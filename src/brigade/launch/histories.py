"""Learning histories of a manifest: every batch of its tasks is a run that keeps histories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from brigade.errors import UserError
from brigade.histories.files import (
    INDEX,
    IndexEntry,
    Shard,
    finished_shard,
    read_index,
    write_file,
    write_index,
)
from brigade.histories.manifest import Batch, ManifestTask, batches, read_manifest
from brigade.launch.job import Workers
from brigade.launch.stage import How, Run, Runs
from brigade.reading import DamagedError
from brigade.runs.config import Experiment, from_dict, merged
from brigade.runs.histories import FOLDER

MANIFEST, RUNS = "manifest.jsonl", "runs"
SHARE = 8  # one in so many environments is kept, unless the settings say otherwise


def make_histories(
    manifest: Path,
    out: Path,
    settings: tuple[Mapping[str, Any], Sequence[str]],
    at_once: int,
    workers: AbstractContextManager[Workers] | None = None,
    quiet: bool = False,
) -> list[IndexEntry]:
    """Train an ego with every teammate of the train split, and index what was kept.

    `settings` of all runs are those of a config file, and flags of `brigade run`.
    What is there is not done again; what is damaged is trained anew.
    """
    tasks = read_manifest(manifest)
    todo = batches(tasks, at_once)
    if not todo:
        raise UserError(f"{manifest} has no tasks of the split train, so there is nothing to make")
    check_same_manifest(out, tasks)
    runs = [
        Run(batch.name, out / RUNS / batch.name, partial(experiment_of, batch, *settings))
        for batch in todo
    ]
    stage = Runs("histories", runs)
    stage.check()
    out.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(asdict(task)) + "\n" for task in tasks)
    write_file(out / MANIFEST, lines.encode())
    for run in runs:
        set_damaged_aside(run.path, quiet)
    stage.do(How(out, workers, quiet))
    entries = [
        each
        for run, batch in zip(runs, todo, strict=True)
        for each in described(out, run.path, batch)
    ]
    return write_index(out, [Shard("", "", tuple(entries))])


def check_same_manifest(out: Path, tasks: Sequence[ManifestTask]) -> None:
    """Refuse a folder that was made from other tasks of the same names."""
    if not (out / MANIFEST).exists():
        if out.exists() and any(out.iterdir()):
            raise UserError(f"{out} has no {MANIFEST}; name a new folder with --out")
        return
    before = {task.task_id: task for task in read_manifest(out / MANIFEST)}
    for task in tasks:
        if before.get(task.task_id, task) != task:
            raise UserError(
                f"{out} was made with another task {task.task_id}; name a new folder with --out"
            )


def experiment_of(batch: Batch, settings: Mapping[str, Any], words: Sequence[str]) -> Experiment:
    """The run of a batch: one seed per teammate, with the ego on seat 0."""
    given = {
        "benchmark": batch.benchmark,
        "env": {"layout": batch.layout},
        "partners": list(dict.fromkeys(task.teammate for task in batch.tasks)),
        "partners_of_seed": [name_of(task) for task in batch.tasks],
        "seats": ["0"],
        "seed": batch.seed,
        "seeds": len(batch.tasks),
        "tasks": 1,
    }
    experiment = from_dict(merged(settings, given), words)
    config = experiment.config
    if config.tasks != 1:
        raise UserError(f"tasks is {config.tasks}; egos learn in one kitchen, remove --tasks")
    kept = config.histories or max(1, config.num_envs // SHARE)
    return replace(experiment, config=replace(config, histories=kept))


def name_of(task: ManifestTask) -> str:
    """What a run calls the teammate."""
    return task.teammate[len(task.file) + 1 :] if task.file else task.teammate


def set_damaged_aside(run: Path, quiet: bool) -> None:
    """Move a finished run away whose histories are damaged, so that it is made again."""
    folder = run / FOLDER
    if not (folder / INDEX).exists():
        return
    try:
        for task_id in {each.task_id for each in read_index(folder)}:
            if finished_shard(folder, task_id) is None:
                raise DamagedError(f"{folder} has no shard of {task_id}")
    except DamagedError as error:
        number = 1
        while (aside := run.with_name(f"{run.name}.damaged-{number}")).exists():
            number += 1
        run.rename(aside)
        if not quiet:
            print(f"{error}; the run is now {aside.name}, and its histories are made again")


def described(out: Path, run: Path, batch: Batch) -> list[IndexEntry]:
    """The histories of a run, as the manifest describes their tasks."""
    entries = read_index(run / FOLDER)
    of_seed = list(dict.fromkeys(each.task_id for each in entries))
    found = []
    for each in entries:
        task = batch.tasks[of_seed.index(each.task_id)]
        found.append(
            replace(
                each,
                task_id=task.task_id,
                track=task.track,
                split=task.split,
                layout=task.layout,
                teammate_family=task.teammate_family,
                teammate_kind=name_of(task),
                file=str((run / FOLDER / each.file).relative_to(out)),
            )
        )
    return found

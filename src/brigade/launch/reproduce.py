"""`brigade reproduce`: do the runs of a published table and compare the results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax

from brigade.launch import Job, Workers, open_folder, run_jobs
from brigade.launch.published_table import compute_cells, print_table, save
from brigade.launch.target import Row, Target
from brigade.launch.targets import find_target
from brigade.runs.assemble import assemble
from brigade.runs.baselines import add_baselines, print_progress
from brigade.runs.config import from_dict, merged
from brigade.runs.ensure import check_settings, finished_run, start_or_resume
from brigade.runs.folder import RunFolderError

SMALL_NOTE = (
    "Small scale: few tasks, seeds and steps. It shows how the table is produced and says nothing "
    "about the paper."
)


def reproduce(
    name: str,
    level: str | None,
    scale: str,
    out: Path | None,
    words: Sequence[str],
    quiet: bool,
    workers: AbstractContextManager[Workers] | None = None,
) -> Path:
    """Start or resume all runs, print the table, save it and return its path.

    With `workers`, runs are done there, otherwise here, one after another.
    """
    target = find_target(name, level)
    small = scale == "small"
    rows = [row for row in target.rows if not (small and row.heavy)]
    experiments = [from_dict(settings_of(target, row, small), words) for row in rows]
    for experiment in experiments:  # check all settings before training
        assemble(experiment)
    folder = out or Path("reproductions") / f"{slug(target.title)}-{scale}"
    paths = [folder / slug(row.name) for row in rows]
    check_settings(paths, experiments)
    if workers is not None:
        work = [
            Job.of(row.name, path, experiment)
            for row, path, experiment in zip(rows, paths, experiments, strict=True)
            if finished_run(path, experiment) is None
        ]
        do_all(work, folder, workers, quiet)
    for number, (row, path, experiment) in enumerate(
        zip(rows, paths, experiments, strict=True), start=1
    ):
        if not quiet:
            print(f"[{number}/{len(rows)}] {row.name}", flush=True)
        result = start_or_resume(path, experiment, quiet)
        if target.needs_baselines:
            add_baselines(result, None if quiet else print_progress)
        jax.clear_caches()  # the programs of many runs would exceed the memory maps of a process
    notes = [note for note in (SMALL_NOTE if small else "", target.note) if note]
    left_out = [row.name for row in target.rows if row not in rows]
    if left_out:
        notes.append(f"Skipped at the small scale: {'; '.join(left_out)}.")
    cells = compute_cells(target, rows, paths)
    print_table(target.title, cells, notes)
    return save(folder, target.title, cells, notes)


def do_all(
    jobs: Sequence[Job], folder: Path, workers: AbstractContextManager[Workers], quiet: bool
) -> None:
    """Run all jobs. Failures are reported when all others have ended."""
    if not jobs:
        return
    with workers as ready:
        open_folder(folder, ready)
        failed = run_jobs(jobs, ready, quiet)
    if failed:
        raise RunFolderError("; ".join(f"{name}: {why}" for name, why in failed.items()))


def settings_of(target: Target, row: Row, small: bool) -> dict[str, Any]:
    """The settings of a row at the small scale or the paper's."""
    if not small:
        return merged(row.settings, {"preset": "paper"})
    return merged(merged(row.settings, target.small), row.small)


def slug(name: str) -> str:
    """A folder name: lower case, with dashes."""
    plain = "".join(letter if letter.isalnum() else " " for letter in name.lower())
    return "-".join(plain.split())

"""`brigade sweep`: do the runs that are left, then make the table and the figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from brigade import __version__
from brigade.errors import UserError
from brigade.launch import Job, Workers, open_folder, run_jobs
from brigade.launch.sweep_plan import Over, Sweep
from brigade.reading import entry, expect, read_json
from brigade.runs.baselines import add_baselines, print_progress
from brigade.runs.ensure import check_settings, finished_run
from brigade.runs.folder import write_atomically

FORMAT = 1  # of sweep.json
RECORD = "sweep.json"


def run_sweep(
    sweep: Sweep, workers: AbstractContextManager[Workers], quiet: bool, baselines: bool = False
) -> dict[str, str]:
    """Do the runs that are not finished, then single-task baselines if asked for.

    Returns what went wrong, by run.
    """
    check_folder(sweep)
    left = [
        Job.of(run.name, sweep.path(run), run.experiment)
        for run in sweep.runs
        if finished_run(sweep.path(run), run.experiment) is None
    ]
    if not quiet:
        done = len(sweep.runs) - len(left)
        print(f"{len(sweep.runs)} runs in {sweep.folder}, {done} of them done", flush=True)
    failed = dict[str, str]()
    if left:
        with workers as ready:
            open_folder(sweep.folder, ready)
            write_record(sweep)
            failed = run_jobs(left, ready, quiet)
    for run in sweep.runs if baselines else ():
        result = finished_run(sweep.path(run), run.experiment)
        if result is not None:
            add_baselines(result, None if quiet else print_progress)
    return failed


def write_record(sweep: Sweep) -> None:
    """Write sweep.json."""
    over = [{"setting": each.setting, "values": list(each.values)} for each in sweep.over]
    record = {
        "format": FORMAT,
        "brigade": __version__,
        "over": over,
        "runs": [run.name for run in sweep.runs],
    }
    write_atomically(sweep.folder / RECORD, json.dumps(record, indent=2).encode())


def check_folder(sweep: Sweep) -> None:
    """Refuse a folder with something else in it; values may be added to a sweep."""
    folder = sweep.folder
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file; --out must be a folder")
    if (folder / RECORD).exists():
        check_same(folder, read_record(folder / RECORD), sweep.over)
    elif any(folder.iterdir()):
        raise UserError(f"{folder} exists already and holds no sweep; choose another --out")
    paths = [sweep.path(run) for run in sweep.runs]
    check_settings(paths, [run.experiment for run in sweep.runs])


def check_same(folder: Path, before: Sequence[Over], now: Sequence[Over]) -> None:
    """The settings must be those of before, with the same values or more."""
    old, new = ({each.setting: each.values for each in over} for over in (before, now))
    if old.keys() != new.keys():
        raise UserError(f"{folder} is a sweep over {', '.join(old)}; choose another --out")
    for setting, values in old.items():
        if missing := [value for value in values if value not in new[setting]]:
            raise UserError(
                f"{folder} is a sweep with {setting} {' '.join(missing)}, too; give all its "
                "values, or choose another --out"
            )


def read_record(path: Path) -> list[Over]:
    """The settings and values of sweep.json."""
    try:
        return [
            Over(
                entry(each, "setting", str, "over"),
                tuple(
                    expect(value, str, "a value") for value in entry(each, "values", list, "over")
                ),
            )
            for each in entry(read_json(path), "over", list, "it")
        ]
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); choose another --out") from error

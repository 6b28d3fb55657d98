"""`brigade reproduce`: run what a table needs, then set it beside the published one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from brigade.errors import UserError
from brigade.reproduce.jobs import Job, do_all
from brigade.reproduce.meal import find_target
from brigade.reproduce.table import measure_all, print_table, save
from brigade.reproduce.target import Row, Target
from brigade.runs.assemble import assemble
from brigade.runs.baselines import add_baselines, tell
from brigade.runs.config import Experiment, from_dict, merged
from brigade.runs.folder import RunFolder
from brigade.runs.kept import by_content, found_again
from brigade.runs.progress import Display
from brigade.runs.run import RunResult, resume, run

SMALL_NOTE = (
    "Small scale: few tasks, seeds and steps. It shows how the table comes about and says nothing "
    "about the paper."
)
WIDE = 120  # columns


def reproduce(
    name: str,
    level: str | None,
    scale: str,
    out: Path | None,
    words: Sequence[str],
    quiet: bool,
    jobs: int = 1,
    flags: Sequence[str] = (),
) -> Path:
    """Do or finish all runs, print the table and save it; the path of the saved one.

    With several `jobs`, runs are processes of their own, so many at a time, that get the `flags`.
    """
    if jobs < 1:
        raise UserError(f"--jobs is {jobs}; it must be at least 1")
    target = find_target(name, level)
    small = scale == "small"
    rows = [row for row in target.rows if not (small and row.heavy)]
    experiments = [from_dict(settings_of(target, row, small), words) for row in rows]
    for experiment in experiments:  # everything is checked before anything is trained
        assemble(experiment)
    folder = out or Path("reproductions") / f"{slug(target.title)}-{scale}"
    paths = [folder / slug(row.name) for row in rows]
    check_same(paths, experiments)
    if jobs > 1:
        work = [
            Job(row.name, path, experiment)
            for row, path, experiment in zip(rows, paths, experiments, strict=True)
            if recorded(path, experiment) is None
        ]
        do_all(work, jobs, flags, quiet)
    for number, (row, path, experiment) in enumerate(
        zip(rows, paths, experiments, strict=True), start=1
    ):
        if not quiet:
            print(f"[{number}/{len(rows)}] {row.name}", flush=True)
        result = do_or_finish(path, experiment, quiet)
        if target.needs_baselines:
            add_baselines(result, None if quiet else tell)
        jax.clear_caches()  # the programs of many runs would use up what a process may map
    notes = [note for note in (SMALL_NOTE if small else "", target.note) if note]
    left_out = [row.name for row in target.rows if row not in rows]
    if left_out:
        notes.append(f"Left out at the small scale: {'; '.join(left_out)}.")
    cells = measure_all(target, rows, paths)
    # A pipe has no width, and a table that is cut to one would lose its numbers.
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    print_table(console, target.title, cells, notes)
    return save(folder, target.title, cells, notes)


def settings_of(target: Target, row: Row, small: bool) -> dict[str, Any]:
    """A row's settings at a scale."""
    return merged(row.settings, target.small if small else {"preset": "paper"})


def check_same(paths: Sequence[Path], experiments: Sequence[Experiment]) -> None:
    """Runs that are there already must be of the same settings."""
    for path, experiment in zip(paths, experiments, strict=True):
        if (path / "config.json").exists() and not is_of(read_run_config(path), experiment):
            raise UserError(
                f"{path} was run with other settings; give the same ones, or another --out"
            )


def is_of(config: Mapping[str, Any], experiment: Experiment) -> bool:
    """Whether these are the experiment's settings, new ones at their defaults in older runs."""
    wanted = experiment.as_dict()
    names = ("benchmark", "learner", "method")  # code of the user's is not run unless it is meant
    same_names = all(config.get(name) == wanted[name] for name in names)
    return same_names and by_content(from_dict(config).as_dict())[0] == by_content(wanted)[0]


def read_run_config(path: Path) -> Any:
    """The settings a run folder was made with."""
    try:
        return found_again(json.loads(RunFolder.open(path).read_config())["config"], path)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path}/config.json is damaged ({error}); choose another --out") from error


def do_or_finish(path: Path, experiment: Experiment, quiet: bool) -> RunResult:
    """A run from its start or from where it stopped; one with all its evaluations is done."""
    done = recorded(path, experiment)
    if done is not None:
        return done
    with Display(quiet) as show:
        if (path / "config.json").exists():
            # Its config is what was asked for now, so whatever it names is trusted.
            return resume(path, trust=True, begin=show.begin, watch=show)
        return run(experiment, path, begin=show.begin, watch=show)


def recorded(path: Path, experiment: Experiment) -> RunResult | None:
    """A finished run, by its evaluations alone: shared folders come without checkpoints."""
    if not (path / "returns.npz").exists():
        return None
    arrays = RunFolder.open(path).read_returns()
    config = experiment.config
    if arrays["steps"][-1] < config.tasks_in_all * config.steps_per_task:
        return None
    return RunResult(path, experiment, arrays)


def slug(name: str) -> str:
    """A name for a folder."""
    plain = "".join(letter if letter.isalnum() else " " for letter in name.lower())
    return "-".join(plain.split())

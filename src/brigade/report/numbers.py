"""The numbers of the report as CSV, at full precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brigade.report.estimate import Estimate
from brigade.report.read import RunData
from brigade.report.summary import Summary, measures_of_all, summary
from brigade.report.table import Table
from brigade.runs.folder import write_atomically

SCORES = ("run", "seed", "task", "task_name", "partner", "seat", "steps", "score", "return")
SUMMARY = ("run", "benchmark", "method", "seeds", "task", "task_name")
# What follows the name of a measure, and what it is of an estimate.
SPREAD = {"": "mean", "_half_width": "half_width", "_min": "min", "_max": "max"}
SEEDS = ("run", "benchmark", "method", "seed", "task", "task_name")


def write_csv(runs: Sequence[RunData], folder: Path) -> list[Path]:
    """Write scores.csv, summary.csv and seeds.csv.

    The first has a row per evaluation, task, partner, seat and seed. The second has a row per task
    with every measure's mean over seeds, the third a row per task and seed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    summaries = [summary(run) for run in runs]
    measures = list(measures_of_all(summaries))
    estimates = [f"{name}{end}" for name in measures for end in SPREAD]
    means, by_seed = _total_rows(runs, summaries, measures)
    contents = {
        "scores.csv": Table(SCORES, list(_score_rows(runs))),
        "summary.csv": Table((*SUMMARY, *estimates), means),
        "seeds.csv": Table((*SEEDS, *measures), by_seed),
    }
    for name, table in contents.items():
        write_atomically(folder / name, table.to_csv())
    return [folder / name for name in contents]


def _score_rows(runs: Sequence[RunData]) -> Iterator[Sequence[Any]]:
    axes = ("eval", "task", "partner", "seat", "seed")
    for label, run in zip(_names(runs), runs, strict=True):
        steps, names, seeds = run.arrays["steps"].tolist(), run.task_names, run.seeds
        score, returns = run.mean("score", *axes), run.mean("returns", *axes)
        for index, value in np.ndenumerate(score):
            evaluation, task, partner, seat, seed = index
            seated = (run.partner_names[partner], run.seat_names[seat])
            row = (label, seeds[seed], task + 1, names[task], *seated, steps[evaluation])
            if not np.isnan(value):  # the task was added to the run later
                yield (*row, float(value), float(returns[index]))


def _total_rows(
    runs: Sequence[RunData], summaries: Sequence[Summary], measures: Sequence[str]
) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
    """A row per task, then one for the whole run, whose task is `all`; and the same by seed."""
    means: list[Sequence[Any]] = []
    by_seed: list[Sequence[Any]] = []
    for label, run, numbers in zip(_names(runs), runs, summaries, strict=True):
        of_run = (label, numbers.benchmark, numbers.method)
        for task, name, estimates in _tasks(numbers, measures):
            known = [each.numbers if each else {} for each in estimates]
            cells = (found.get(of, np.nan) for found in known for of in SPREAD.values())
            means.append((*of_run, numbers.seeds, task, name, *cells))
            for place, seed in enumerate(run.seeds):
                values = (each.values[place] if each else np.nan for each in estimates)
                by_seed.append((*of_run, seed, task, name, *values))
    return means, by_seed


def _tasks(
    numbers: Summary, measures: Sequence[str]
) -> Iterator[tuple[int | str, str, list[Estimate | None]]]:
    """Number, name and estimates of every task, then those of the whole run."""
    by_task = [numbers.by_task.get(name) for name in measures]
    for index, name in enumerate(numbers.task_names):
        yield index + 1, name, [row[index] if row else None for row in by_task]
    yield "all", "", [numbers.values.get(name) for name in measures]


def _names(runs: Sequence[RunData]) -> list[str]:
    """What the reader calls them, or the names of the folders, or their paths."""
    names = [run.title or run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]

"""The numbers of the report as CSV, at full precision."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brigade.report.read import RunData
from brigade.report.summary import Estimate, Summary, summary
from brigade.runs.folder import write_atomically

SCORES = ("run", "seed", "task", "task_name", "partner", "seat", "steps", "score", "return")
SUMMARY = ("run", "benchmark", "method", "seeds", "task", "task_name")


def write_csv(runs: Sequence[RunData], folder: Path) -> list[Path]:
    """Write scores.csv and summary.csv.

    The first has a row per evaluation, task, partner, seat and seed, the second a row per task.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scores, totals = folder / "scores.csv", folder / "summary.csv"
    write_atomically(scores, _csv(SCORES, _score_rows(runs)))
    summaries = [summary(run) for run in runs]
    measures = list(dict.fromkeys(name for numbers in summaries for name in numbers.measures))
    estimates = [f"{name}{end}" for name in measures for end in ("", "_half_width")]
    rows = _summary_rows(runs, summaries, measures)
    write_atomically(totals, _csv((*SUMMARY, *estimates), rows))
    return [scores, totals]


def _csv(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows([safe(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def safe(cell: Any) -> Any:
    """Quote names that a spreadsheet would execute as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@")) else cell


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


def _summary_rows(
    runs: Sequence[RunData], summaries: Sequence[Summary], measures: Sequence[str]
) -> Iterator[Sequence[Any]]:
    """A row per task, then one for the whole run, whose task is `all`."""
    for label, numbers in zip(_names(runs), summaries, strict=True):
        run = (label, numbers.benchmark, numbers.method, numbers.seeds)
        for index, task in enumerate(numbers.task_names):
            by_task = [numbers.by_task.get(name) for name in measures]
            yield (*run, index + 1, task, *_cells(row[index] if row else None for row in by_task))
        yield (*run, "all", "", *_cells(numbers.values.get(name) for name in measures))


def _cells(estimates: Iterable[Estimate | None]) -> Iterator[float | str]:
    """Two cells per estimate; empty if unknown."""
    for estimate in estimates:
        for value in (estimate.mean, estimate.half_width) if estimate else (np.nan, np.nan):
            yield "" if np.isnan(value) else value


def _names(runs: Sequence[RunData]) -> list[str]:
    """The names of the folders, or their paths if two have the same name."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]

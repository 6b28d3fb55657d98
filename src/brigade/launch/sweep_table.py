"""The outcome of a sweep by value, the best marked: on a terminal, as Markdown and as CSV."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from brigade.launch.sweep_plan import Over, Sweep
from brigade.report.estimate import Estimate
from brigade.report.measures import Measure
from brigade.report.read import read_run
from brigade.report.summary import Summary, summary
from brigade.report.table import Cell, Table, as_bytes
from brigade.report.tables import count, explanations, schedule
from brigade.runs.folder import RunFolderError, write_atomically

COLUMNS = ("measure", "mean", "half_width", "seeds", "best", "finished")  # of table.csv


@dataclass(frozen=True)
class Row:
    """A run of a sweep and its numbers; None if it has none yet."""

    name: str
    values: tuple[str, ...]
    numbers: Summary | None

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return self.numbers is not None and self.numbers.finished

    def estimate(self, measure: str) -> Estimate:
        """A measure over seeds; without values if it is not known."""
        found = self.numbers.values.get(measure) if self.numbers else None
        return found or Estimate(())


@dataclass(frozen=True)
class Outcome:
    """All runs of a sweep and the measures that any of them has."""

    over: tuple[Over, ...]
    rows: tuple[Row, ...]

    @property
    def known(self) -> list[Row]:
        """The runs that have numbers."""
        return [row for row in self.rows if row.numbers is not None]

    @property
    def measures(self) -> dict[str, Measure]:
        """By name, in the order of tables."""
        found = dict[str, Measure]()
        for row in self.known:
            assert row.numbers is not None
            found |= {n: m for n, m in row.numbers.measures.items() if row.numbers.values.get(n)}
        return found

    def best(self, name: str, measure: Measure) -> list[bool]:
        """Which runs have the best mean; none if there is nothing to choose."""
        means = np.array([row.estimate(name).mean if row.finished else np.nan for row in self.rows])
        if measure.better == "neither" or len(set(means[np.isfinite(means)])) < 2:
            return [False] * len(means)
        best = np.nanmax(means) if measure.better == "higher" else np.nanmin(means)
        return [bool(each) for each in means == best]

    def title(self) -> str:
        """What all runs share: benchmark, method, seeds and steps, where it is not swept."""
        swept = {each.setting for each in self.over}
        numbers = self.known[0].numbers
        assert numbers is not None
        parts = [] if "benchmark" in swept else [numbers.benchmark]
        parts += [] if {"method", "generator"} & swept else [numbers.method]
        parts += [] if "seeds" in swept else [count(numbers.seeds, "seed")]
        lengths = {row.numbers.planned_steps for row in self.known if row.numbers}
        return ", ".join([*parts, schedule(numbers)] if len(lengths) == 1 else parts)

    def notes(self) -> list[str]:
        """What ± means, why measures are missing, and which runs are not finished."""
        late = [row.name for row in self.rows if not row.finished]
        notes = explanations([row.numbers for row in self.known if row.numbers is not None])
        return [*notes, f"Not finished: {', '.join(late)}."] if late else notes


def read_outcome(sweep: Sweep) -> Outcome:
    """Read the folders of a sweep's runs."""
    rows = []
    for run in sweep.runs:
        try:
            data = read_run(sweep.path(run))
        except RunFolderError:  # not started, or stopped before its first evaluation
            rows.append(Row(run.name, run.values, None))
        else:
            rows.append(Row(run.name, run.values, summary(data)))
    return Outcome(sweep.over, tuple(rows))


def table(outcome: Outcome) -> Table:
    """The values and measures of every run, the best marked."""
    measures = outcome.measures
    best = {name: outcome.best(name, measure) for name, measure in measures.items()}
    rows = [
        [*row.values, *(Cell(str(row.estimate(name)), best=best[name][n]) for name in measures)]
        for n, row in enumerate(outcome.rows)
    ]
    titles = [measure.title for measure in measures.values()]
    headings = [*(each.setting for each in outcome.over), *titles]
    return Table(headings, rows, outcome.title(), outcome.notes(), names=len(outcome.over))


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the table; a star marks the best of a column."""
    shown = table(outcome)
    replace(shown, notes=["* is the best.", *shown.notes]).to_terminal(console)


def write_tables(outcome: Outcome, folder: Path, words: Sequence[str]) -> list[Path]:
    """Write table.md, for people, and table.csv, a row per run and measure."""
    paths = [folder / "table.md", folder / "table.csv"]
    write_atomically(paths[0], as_bytes(markdown(outcome, words)))
    write_atomically(paths[1], as_csv(outcome))
    return paths


def markdown(outcome: Outcome, words: Sequence[str]) -> str:
    """The table with the best in bold, and the command that made it."""
    shown = table(outcome)
    notes = "\n".join(shown.notes)
    command = f"`brigade sweep {shlex.join(words)}`"
    return f"# {shown.title}\n\n{shown.to_markdown()}\n{notes}\n\n{command}\n"


def as_csv(outcome: Outcome) -> bytes:
    """One row per run and measure, at full precision."""
    rows = []
    for name, measure in outcome.measures.items():
        best = outcome.best(name, measure)
        for row, is_best in zip(outcome.rows, best, strict=True):
            found = row.estimate(name)
            numbers = (found.mean, found.half_width) if found.values else (None, None)
            seeds = row.numbers.seeds if row.numbers else None
            words = ["yes" if each else "no" for each in (is_best, row.finished)]
            rows.append([row.name, *row.values, name, *numbers, seeds, *words])
    return Table(["run", *(each.setting for each in outcome.over), *COLUMNS], rows).to_csv()

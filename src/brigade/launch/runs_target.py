"""Targets whose rows are runs, and whose columns are measures of `brigade report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from brigade.benchmarks.published import Figures
from brigade.launch.comparison import Comparison, print_and_save
from brigade.launch.cost import steps_of_run
from brigade.launch.stage import How, Run, Runs
from brigade.launch.target import Plan, Request, Target, slug, small_note
from brigade.report.estimate import Estimate
from brigade.report.read import read_run
from brigade.report.summary import estimate, find
from brigade.runs.baselines import add_baselines, print_progress
from brigade.runs.config import from_dict, merged
from brigade.runs.run import RunResult

SMALL_STEPS = 7.2e6  # over all runs of a small table, so that all tables take about as long


@dataclass(frozen=True)
class Row:
    """One run of a table."""

    name: str
    settings: Mapping[str, Any]  # as in a config file
    heavy: bool = False  # too slow for two CPU cores: skipped at the small scale
    small: Mapping[str, Any] = field(default_factory=dict)  # its own changes at the small scale


@dataclass(frozen=True, kw_only=True)
class RunsTarget(Target):
    """A table or figure made of runs. `small` has settings that take minutes on two CPU cores."""

    title: str
    rows: tuple[Row, ...]
    measures: tuple[str, ...]  # names from `brigade list measures`
    small: Mapping[str, Any]
    share: float = 1.0  # of the steps of other small tables, where a step takes longer
    note: str = ""
    published: Mapping[str, Figures] = field(default_factory=dict)  # by row

    about = "Do the runs of a published table and print the results next to the published numbers."

    def __post_init__(self) -> None:
        """Every published figure stands beside one of ours."""
        cells = {(row.name, measure) for row in self.rows for measure in self.measures}
        for row, figures in self.published.items():
            for measure in figures:
                if (row, measure) not in cells:
                    raise ValueError(f"{self.name} has no row {row!r} with the measure {measure!r}")

    @property
    def folder_name(self) -> str:
        """From the title, which has the level."""
        return slug(self.title)

    @property
    def needs_baselines(self) -> bool:
        """Whether a measure compares with single-task baselines."""
        return any(find(name).needs_baselines for name in self.measures)

    def rows_at(self, scale: str) -> list[Row]:
        """The rows that a scale has."""
        return [row for row in self.rows if not (scale == "small" and row.heavy)]

    def settings(self, row: Row, scale: str) -> dict[str, Any]:
        """The settings of a row at a scale."""
        if scale != "small":
            return merged({"preset": scale}, row.settings)
        steps = {"steps_per_task": self.small_steps}
        return merged(merged(merged(row.settings, self.small), steps), row.small)

    @property
    def small_steps(self) -> float:
        """The steps per task of small runs, which share a budget."""
        repetitions = sum(row.settings.get("repetitions", 1) for row in self.rows_at("small"))
        tasks = repetitions * self.small["tasks"] * self.small["seeds"]
        return float(min(self.small["steps_per_task"], SMALL_STEPS / tasks) * self.share)

    def plan(self, request: Request) -> Plan:
        """One run per row."""
        runs = [
            Run(
                row.name,
                request.folder / slug(row.name),
                partial(from_dict, self.settings(row, request.scale), request.words),
                finish=with_baselines if self.needs_baselines else None,
            )
            for row in self.rows_at(request.scale)
        ]
        return Plan((Runs("runs", runs),), partial(self.conclude, request))

    def conclude(self, request: Request) -> Path:
        """Print and save the table."""
        rows = self.rows_at(request.scale)
        compared = compare(self, rows, [request.folder / slug(row.name) for row in rows])
        return print_and_save(request.folder, self.title, compared, self.notes_at(request.scale))

    def notes_at(self, scale: str) -> list[str]:
        """What is said under the table."""
        notes = [*small_note(scale), self.note] if self.note else small_note(scale)
        rows = self.rows_at(scale)
        if left_out := [row.name for row in self.rows if row not in rows]:
            notes.append(f"Skipped at the small scale: {'; '.join(left_out)}.")
        return notes

    def steps(self, scale: str) -> float:
        """All runs, and the baselines that runs of other methods share."""
        settings = [self.settings(row, scale) for row in self.rows_at(scale)]
        method = ("method", "method_settings")
        alone = {
            repr(sorted((k, v) for k, v in each.items() if k not in method)): each
            for each in (settings if self.needs_baselines else ())
        }
        baselines = [merged(each, {"repetitions": 1}) for each in alone.values()]
        return sum(map(steps_of_run, (*settings, *baselines)))


def with_baselines(result: RunResult, how: How) -> None:
    """Train the single-task baselines that forward transfer is measured with."""
    add_baselines(result, None if how.quiet else print_progress)


def compare(target: RunsTarget, rows: Sequence[Row], folders: Sequence[Path]) -> list[Comparison]:
    """Compute every measure of every run."""
    found = []
    for row, folder in zip(rows, folders, strict=True):
        run, figures = read_run(folder), target.published.get(row.name, {})
        for name in target.measures:
            measure = find(name)
            ours = estimate(measure, measure.compute(run)) or Estimate(())
            found.append(Comparison(row.name, measure.title, ours, figures.get(name)))
    return found

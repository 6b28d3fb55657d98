"""Our results next to the published ones, on a terminal and in files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from brigade.benchmarks.published import Figure, Figures
from brigade.launch.target import Row, Target
from brigade.report.estimate import FEW, Estimate, spread_for
from brigade.report.read import RunData, read_run
from brigade.report.summary import estimate, find
from brigade.runs.folder import write_atomically

UNKNOWN = Estimate(())
HEADINGS = ("run", "measure", "ours", "published", "difference", "within")
WITHIN = {  # by what stands beside our means
    "seeds": "Within: whether the published number lies between our lowest and highest seed, in "
    f"brackets (a 95 % interval needs {FEW} seeds or more).",
    "ci": "Within: whether the published number lies in our 95 % interval (±, Student's t).",
}
COLUMNS = ("run", "measure", "ours", "published", "apart", "within")  # of files: do not change


@dataclass(frozen=True)
class Cell:
    """One measure of one run."""

    row: str
    measure: str
    ours: Estimate
    published: Figure | None

    @property
    def difference(self) -> float | None:
        """Ours minus the published number."""
        return None if self.published is None else self.ours.mean - self.published.value

    @property
    def covered(self) -> bool | None:
        """Whether our seeds or interval cover the published number; None if either is missing."""
        low, high = self.ours.bounds()
        if self.published is None or np.isnan(low):
            return None
        return bool(low <= self.published.value <= high)

    def texts(self) -> tuple[str, ...]:
        """The cells of a table row."""
        covered = {None: "-", True: "yes", False: "no"}[self.covered]
        difference = "-" if self.difference is None else f"{self.difference:+.2f}"
        published = "-" if self.published is None else str(self.published)
        return self.row, self.measure, str(self.ours), published, difference, covered


def compute_cells(target: Target, rows: Sequence[Row], folders: Sequence[Path]) -> list[Cell]:
    """Compute every measure of every run."""
    runs = [read_run(folder) for folder in folders]
    return [
        cell(row.name, name, run, target.published.get(row.name, {}))
        for row, run in zip(rows, runs, strict=True)
        for name in target.measures
    ]


def cell(row: str, measure: str, run: RunData, published: Figures) -> Cell:
    """A measure of a run, and the published number."""
    found = find(measure)
    ours = estimate(found, found.compute(run)) or UNKNOWN
    return Cell(row, found.title, ours, published.get(measure))


def print_table(console: Console, title: str, cells: Sequence[Cell], notes: Sequence[str]) -> None:
    """Print one line per measure, with a rule between runs."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if index < 2 else "right", no_wrap=True)
    for index, each in enumerate(cells):
        first = index == 0 or cells[index - 1].row != each.row
        last = index + 1 == len(cells) or cells[index + 1].row != each.row
        name, *rest = each.texts()
        table.add_row(name if first else "", *rest, end_section=last)
    console.print(table)
    for note in (*explanations(cells), *notes):
        console.print(note)


def explanations(cells: Sequence[Cell]) -> list[str]:
    """What stands beside our means, and what it is compared with."""
    shown = {spread_for(len(each.ours.values)) for each in cells}
    return [text for spread, text in WITHIN.items() if spread in shown]


def save(folder: Path, title: str, cells: Sequence[Cell], notes: Sequence[str]) -> Path:
    """Write table.md, table.csv and table.json."""
    notes = [*explanations(cells), *notes]
    lines = [f"# {title}", "", *notes, ""] if notes else [f"# {title}", ""]
    lines += [_markdown(COLUMNS), _markdown(["---"] * len(COLUMNS))]
    lines += [_markdown(each.texts()) for each in cells]
    path = folder / "table.md"
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(each.texts() for each in cells)
    write_atomically(folder / "table.csv", text.getvalue().encode())
    numbers = [
        {
            "run": each.row,
            "measure": each.measure,
            "mean": _number(each.ours.mean),
            "half_width": _number(each.ours.half_width),
            "seeds": [_number(value) for value in each.ours.values],
            "published": None if each.published is None else each.published.value,
            "published_half_width": None if each.published is None else each.published.half_width,
            "apart": None if each.difference is None else _number(each.difference),
            "within": each.covered,
        }
        for each in cells
    ]
    write_atomically(folder / "table.json", json.dumps(numbers, indent=2).encode())
    return path


def _number(value: float) -> float | None:
    """A number for JSON, which has no nan."""
    return None if np.isnan(value) else value


def _markdown(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"

"""Our results next to the published ones, on a terminal and in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from brigade.benchmarks.published import Figure
from brigade.report.estimate import FEW, Estimate, spread_for
from brigade.report.table import MISSING, Cell, Table, as_bytes, wide_console
from brigade.runs.folder import write_atomically

HEADINGS = ("run", "measure", "ours", "published", "difference", "within")
WITHIN = {  # by what stands beside our means
    "seeds": "Within: whether the published number lies between our lowest and highest seed, in "
    f"brackets (a 95 % interval needs {FEW} seeds or more).",
    "ci": "Within: whether the published number lies in our 95 % interval (±, Student's t).",
}
COLUMNS = ("run", "measure", "ours", "published", "apart", "within")  # of files: do not change


@dataclass(frozen=True)
class Comparison:
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
        """The texts of a table row."""
        covered = {None: MISSING, True: "yes", False: "no"}[self.covered]
        difference = MISSING if self.difference is None else f"{self.difference:+.2f}"
        published = MISSING if self.published is None else str(self.published)
        return self.row, self.measure, str(self.ours), published, difference, covered


def print_and_save(
    folder: Path, title: str, compared: Sequence[Comparison], notes: Sequence[str]
) -> Path:
    """Print one line per measure, with a rule between runs, and write the files."""
    beside = [*explanations(compared), *notes]
    table = Table(HEADINGS, rows_of(compared), title, beside, names=2, grouped=True)
    table.to_terminal(wide_console())
    return save(folder, title, compared, notes)


def rows_of(compared: Sequence[Comparison]) -> list[list[Any]]:
    """The rows of a table: names, then numbers of ours."""
    return [[*each.texts()[:2], *map(Cell, each.texts()[2:])] for each in compared]


def explanations(compared: Sequence[Comparison]) -> list[str]:
    """What stands beside our means, and what it is compared with."""
    shown = {spread_for(len(each.ours.values)) for each in compared}
    return [text for spread, text in WITHIN.items() if spread in shown]


def save(folder: Path, title: str, compared: Sequence[Comparison], notes: Sequence[str]) -> Path:
    """Write table.md, table.csv and table.json."""
    notes = [*explanations(compared), *notes]
    lines = [f"# {title}", "", *notes, ""] if notes else [f"# {title}", ""]
    table = Table(COLUMNS, rows_of(compared), names=len(COLUMNS))
    path = folder / "table.md"
    write_atomically(path, as_bytes("\n".join(lines) + "\n" + table.to_markdown()))
    write_atomically(folder / "table.csv", table.to_csv())
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
        for each in compared
    ]
    write_atomically(folder / "table.json", json.dumps(numbers, indent=2).encode())
    return path


def _number(value: float) -> float | None:
    """A number for JSON, which has no nan."""
    return None if np.isnan(value) else value

"""`brigade reproduce zsc_eval/LAYOUT`: a whole study, from partners to the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from brigade.errors import UserError
from brigade.runs.folder import read_npz, write_atomically
from brigade.studies.results import Result, results_of
from brigade.studies.zsc_eval import ALGORITHMS, SCALES, STEPS, Study

SMALL_NOTE = (
    "Small scale: few candidates, partners and steps. It shows how the table is produced and says "
    "nothing about the paper."
)


def run_study(
    layout: str,
    scale: str,
    out: Path | None,
    algorithms: Sequence[str],
    seeds: int | None,
    words: Sequence[str],
    quiet: bool,
    as_released: bool = False,
    until: str = STEPS[-1],
) -> Path:
    """Do what is left of a study, print its table and write its report.

    Returns the report, or the folder of the study if it ends at an earlier step.
    """
    from brigade.report.zsc_eval import write_study_report

    folder = out or Path("reproductions") / f"zsc-eval-{layout}-{scale}".replace("_", "-")
    chosen = SCALES[scale]
    if seeds is not None:
        if seeds < 1:
            raise UserError(f"--seeds is {seeds}; it must be at least 1")
        chosen = replace(chosen, seeds=seeds)
    try:
        study = Study(layout, folder, chosen, tuple(algorithms) or ALGORITHMS, words=tuple(words))
    except ValueError as error:
        raise UserError(str(error)) from error
    study.run(quiet, until=until)
    if until != STEPS[-1]:
        return folder
    results = results_of(read_npz(study.played), layout, as_released)
    print_results(Console(width=None if Console().is_terminal else 120), layout, results)
    if scale == "small":
        print(SMALL_NOTE)
    write_atomically(folder / "table.json", json.dumps(as_rows(results), indent=2).encode())
    return write_study_report(folder, layout, results)


def print_results(console: Console, layout: str, results: Sequence[Result]) -> None:
    """Print the table of algorithms."""
    table = Table(
        title=f"Best-response proximity in {layout} (published: populations of 24)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    headings = ("algorithm", "BR-Prox", "95 % interval", "rank", "expert", "moderate", "return")
    for number, heading in enumerate((*headings, "published")):
        table.add_column(heading, justify="left" if number == 0 else "right")
    for result in results:
        table.add_row(*texts(result))
    console.print(table)


def texts(result: Result) -> list[str]:
    """The cells of a row."""
    low, high = result.table.interval
    return [
        result.title,
        number(result.table.value),
        "-" if np.isnan(low) else f"{low:.2f} to {high:.2f}",
        f"{result.rank:g}",
        number(result.expert),
        number(result.moderate),
        f"{result.mean_return:.0f}",
        "-" if result.published is None else number(result.published),
    ]


def number(value: float) -> str:
    """Two decimals, or a dash for nan."""
    return "-" if np.isnan(value) else f"{value:.2f}"


def as_rows(results: Sequence[Result]) -> list[dict[str, object]]:
    """The table as plain values."""
    return [
        {
            "algorithm": result.name,
            "br_prox": result.table.value,
            "interval": [None if np.isnan(x) else x for x in result.table.interval],
            "per_seat": result.table.per_seat.tolist(),
            "per_partner": result.table.per_partner.tolist(),
            "expert": result.expert,
            "moderate": result.moderate,
            "mean_return": result.mean_return,
            "rank": result.rank,
            "published": result.published,
        }
        for result in results
    ]

"""The table of a ZSC-Eval study: its cells as text, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from brigade.report.table import Table
from brigade.report.zsc_results import Result

HEADINGS = (
    *("algorithm", "BR-Prox", "95 % interval", "rank", "expert", "moderate", "return"),
    "published",
)


def table(layout: str, results: Sequence[Result]) -> Table:
    """The table of algorithms."""
    title = f"Best-response proximity in {layout} (published: populations of 24)"
    return Table(HEADINGS, [cells(result) for result in results], title)


def cells(result: Result) -> list[str]:
    """The row of an algorithm; unknown figures are dashes."""
    return [
        result.title,
        number(result.table.value),
        interval(result) or "-",
        "-" if np.isnan(result.rank) else f"{result.rank:g}",
        number(result.expert),
        number(result.moderate),
        f"{result.mean_return:.0f}",
        "-" if result.published is None else number(result.published),
    ]


def interval(result: Result) -> str:
    """The interval of BR-Prox; empty for one seed."""
    low, high = result.table.interval
    return "" if np.isnan(low) else f"{low:.2f} to {high:.2f}"


def number(value: float) -> str:
    """Two decimals, or a dash for nan."""
    return "-" if np.isnan(value) else f"{value:.2f}"

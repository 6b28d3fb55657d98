"""The figures of a ZSC-Eval study: best-response proximity of every algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from brigade.benchmarks.published import published
from brigade.metrics.result import Floats
from brigade.metrics.zsc_eval import (
    ProximityTable,
    br_proximity_table,
    expert_and_moderate,
    ranks,
)
from brigade.report.table import Table

TITLES = {
    "sp": "SP",
    "e3t": "E3T",
    "fcp": "FCP",
    "mep": "MEP",
    "trajedi": "TrajeDi",
    "hsp": "HSP",
    "cole": "COLE",
    "cec": "CEC",
    "brdiv": "BRDiv",
    "lbrdiv": "LBRDiv",
    "comedi": "CoMeDi",
}
HEADINGS = (
    *("algorithm", "BR-Prox", "95 % interval", "rank", "expert", "moderate", "return"),
    "published",
)


@dataclass(frozen=True, eq=False)
class Result:
    """How well the egos of one algorithm work with partners they never met."""

    name: str
    table: ProximityTable
    expert: float  # BR-Prox with the better half of the partners
    moderate: float
    mean_return: float
    rank: float
    published: float | None

    @property
    def title(self) -> str:
        """The algorithm's name in the paper."""
        return TITLES.get(self.name, self.name)


def results_of(
    played: Mapping[str, np.ndarray], layout: str, as_released: bool = False
) -> list[Result]:
    """The results of all algorithms in the file of a study's games."""
    best = np.asarray(played["best_responses"], np.float64)  # [partner, seat]
    names = [name for name in played if played[name].ndim == 4]
    returns = {name: played[name].mean(-1) for name in names}  # [seed, partner, seat]
    tables = {
        name: br_proximity_table(returns[name], best, as_released=as_released) for name in names
    }
    figures = published("zsc_eval/br-prox").get(layout, {})
    order = ranks([tables[name].value for name in names])
    expert = expert_and_moderate(best.mean(1))
    return [
        Result(
            name=name,
            table=tables[name],
            expert=part(returns[name], best, expert, as_released),
            moderate=part(returns[name], best, ~expert, as_released),
            mean_return=float(returns[name].mean()),
            rank=float(rank),
            published=figures[name].value if name in figures else None,
        )
        for name, rank in zip(names, order, strict=True)
    ]


def part(returns: Floats, best: Floats, partners: np.ndarray, as_released: bool) -> float:
    """BR-Prox with some of the partners; nan if there are none."""
    if not partners.any():
        return float("nan")
    return br_proximity_table(returns[:, partners], best[partners], as_released=as_released).value


# --- the table of a study: its cells as text, for the terminal and the page ---


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

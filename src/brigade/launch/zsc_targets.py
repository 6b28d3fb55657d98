"""`brigade reproduce zsc_eval/LAYOUT`: a whole study, from partners to the table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from brigade.benchmarks.zsc_scales import SCALES
from brigade.errors import UserError
from brigade.launch.target import Plan, Request, Target, small_note, with_flags
from brigade.launch.zsc_study import ALGORITHMS, Study
from brigade.report.table import wide_console
from brigade.report.zsc_eval import write_study_report
from brigade.report.zsc_results import Result, results_of, table
from brigade.runs.folder import read_npz, write_atomically

LAYOUT = "coordination_ring"  # stands for all layouts where costs are told


@dataclass(frozen=True, kw_only=True)
class ZscTarget(Target):
    """The study of a layout."""

    layout: str = LAYOUT

    about = (
        "Make evaluation partners for a kitchen, choose them, train egos and measure how well they "
        "work with partners they never met."
    )
    result = "report"
    scales = tuple(SCALES)

    @property
    def folder_name(self) -> str:
        """By layout."""
        return f"zsc-eval-{self.layout}".replace("_", "-")

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Which algorithms, how many egos, how they are measured, and how far to go."""
        stages = [stage.name for stage in Study(LAYOUT, Path()).stages()]
        parser.add_argument(
            "--algorithms",
            nargs="+",
            default=[],
            metavar="NAME",
            help=f"some of {', '.join(ALGORITHMS)} (default: all)",
        )
        parser.add_argument("--seeds", type=int, help="egos of each algorithm")
        parser.add_argument(
            "--as-released",
            action="store_true",
            help="cap ratios at 1, as the public release does",
        )
        parser.add_argument(
            "--until",
            choices=stages,
            help=f"the last step to do (default: {stages[-1]}, which is all)",
        )

    def plan(self, request: Request) -> Plan:
        """Candidates, selection, populations, egos and measurement."""
        flags = request.flags
        scale = with_flags(SCALES[request.scale], flags)
        algorithms = tuple(flags.get("algorithms") or ALGORITHMS)
        try:
            study = Study(self.layout, request.folder, scale, algorithms, words=request.words)
        except ValueError as error:
            raise UserError(str(error)) from error
        as_released = bool(flags.get("as_released"))
        return Plan(study.stages(), partial(conclude, study, request.scale, as_released))

    def steps(self, scale: str) -> float:
        """Of candidates, populations and egos."""
        return Study(self.layout, Path(), SCALES[scale]).steps()


def conclude(study: Study, scale: str, as_released: bool) -> Path:
    """Print the table of a study, and write it and the report."""
    results = results_of(read_npz(study.played), study.layout, as_released)
    notes = small_note(scale)
    replace(table(study.layout, results), notes=notes).to_terminal(wide_console())
    content = json.dumps(as_rows(results), indent=2).encode()
    write_atomically(study.folder / "table.json", content)
    return write_study_report(study.folder, study.layout, results)


def as_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
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


STUDY = ZscTarget("zsc_eval/LAYOUT", "zero-shot coordination", 5.4, "zsc_eval.md")


def study_of(name: str) -> ZscTarget | None:
    """The target of a layout such as `zsc_eval/coordination_ring`; None for another name."""
    paper, _, layout = name.partition("/")
    return replace(STUDY, name=name, layout=layout) if paper == "zsc_eval" else None

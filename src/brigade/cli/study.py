"""`brigade reproduce zsc_eval/LAYOUT`: a whole study, from partners to the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from brigade.benchmarks.zsc_scales import SCALES
from brigade.errors import UserError
from brigade.launch.zsc_study import ALGORITHMS, LAST_STEP, Study
from brigade.report.table import wide_console
from brigade.report.zsc_results import Result, results_of
from brigade.runs.folder import read_npz, write_atomically

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
    until: str = LAST_STEP,
) -> Path:
    """Do what is left of a study, print its table and write its report.

    Returns the report, or the folder of the study if it ends at an earlier step.
    """
    from brigade.report.zsc_eval import write_study_report
    from brigade.report.zsc_table import table

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
    if until != LAST_STEP:
        return folder
    results = results_of(read_npz(study.played), layout, as_released)
    table(layout, results).to_terminal(wide_console())
    if scale == "small":
        print(SMALL_NOTE)
    write_atomically(folder / "table.json", json.dumps(as_rows(results), indent=2).encode())
    return write_study_report(folder, layout, results)


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

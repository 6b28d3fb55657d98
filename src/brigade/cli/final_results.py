"""The results of a finished run for TensorBoard and Weights & Biases: tables and a film."""

from __future__ import annotations

from pathlib import Path

from brigade.cli.errors import print_line
from brigade.cli.watch import play
from brigade.errors import UserError
from brigade.report.read import read_run
from brigade.report.summary import summary
from brigade.report.tables import partner_table, show, task_table
from brigade.runs.run import RunResult, load
from brigade.runs.sinks import FinalResults


def final_results(result: RunResult) -> FinalResults:
    """The tables of the report, the measures, and an episode of the last task."""
    run = read_run(result.path)
    numbers = summary(run)
    titles = {name: measure.title for name, measure in numbers.measures.items()}
    known = {name: value for name, value in numbers.values.items() if value is not None}
    rows = [[titles[name], show(value)] for name, value in known.items()]
    tables = {"measures": (["measure", "mean"], rows)}
    tasks, partners = task_table(numbers), partner_table(run)
    if tasks.rows:
        tables["tasks"] = (["number", *tasks.headings[1:]], [list(row) for row in tasks.rows])
    if partners.rows:
        tables["partners"] = (list(partners.headings), [list(row) for row in partners.rows])
    measures = {name: value.mean for name, value in known.items()}
    return FinalResults(numbers.steps, tables, measures, film(result, len(numbers.task_names)))


def film(result: RunResult, task: int) -> Path | None:
    """An episode of a task (from 1) with the final policy; None if it cannot be drawn."""
    # --trust: the same code has just been run
    run = load(result.path, trust=True)
    path = result.path / "report" / f"seed{run.parts.seeds[0]}-task{task}.gif"
    try:
        play(run, 0, task - 1, run.parts.learner.evaluates_greedily).save(path)
    except UserError as error:
        print_line(f"no film: {error}")
        return None
    return path

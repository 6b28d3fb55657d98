"""What the tables of one or more runs have in them."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from rich.console import Console

from brigade.report.estimate import FEW, Estimate, spread_for
from brigade.report.read import RunData
from brigade.report.summary import Summary, mean_over_seeds, summary
from brigade.report.table import MISSING, Frame, Table, print_line

Columns: TypeAlias = dict[str, list[str]]  # cells by heading


def labels(runs: Sequence[RunData]) -> list[str]:
    """The titles that were asked for, or the shortest labels that distinguish the runs."""
    choices = (
        [run.title for run in runs],
        [run.method_name for run in runs],
        [run.algorithm for run in runs],
        [f"{run.setting('benchmark')} {run.method_name}" for run in runs],
        [run.name for run in runs],
    )
    for names in choices:
        if all(names) and max(Counter(names).values()) == 1:
            return names
    return [str(run.path) for run in runs]


def show(estimate: Estimate | None) -> str:
    """An estimate, or a dash if it is not known."""
    return MISSING if estimate is None else str(estimate)


def task_headings(numbers: Summary) -> list[str]:
    """The headings of `task_rows`."""
    heads = [
        numbers.measures[name].task_title or numbers.measures[name].title
        for name in _task_measures(numbers)
    ]
    now = [head if numbers.finished else head.replace("at the end", "now") for head in heads]
    return ["", "task", *now]


def task_titles(summaries: Sequence[Summary]) -> dict[str, str]:
    """The titles of all measures that are defined per task, by name."""
    titles: dict[str, str] = {}
    for numbers in summaries:
        titles |= dict(zip(_task_measures(numbers), task_headings(numbers)[2:], strict=True))
    return titles


def task_rows(numbers: Summary) -> list[list[str]]:
    """A row per task, then the averages."""
    measures = _task_measures(numbers)
    rows = [
        [str(index + 1), task, *(show(numbers.by_task[name][index]) for name in measures)]
        for index, task in enumerate(numbers.task_names)
    ]
    return [*rows, ["", "average", *(show(numbers.values[name]) for name in measures)]]


def _task_measures(numbers: Summary) -> list[str]:
    """The measures that are defined per task, in chronological order."""
    order = {"after_training": 0, "current_score": 0, "average_score": 1}
    return sorted(numbers.by_task, key=lambda name: order.get(name, 2))


def comparison(runs: Sequence[RunData], summaries: Sequence[Summary]) -> Columns:
    """Columns by heading, one cell per run, without empty and redundant columns.

    A benchmark that all runs share is printed above the table instead.
    """
    columns = {
        "run": labels(runs),
        "benchmark": [numbers.benchmark for numbers in summaries],
        "method": [run.method_name for run in runs],
        "seeds": [str(numbers.seeds) for numbers in summaries],
    }
    if one_benchmark(runs):
        del columns["benchmark"]
    if columns["run"] == columns["method"]:
        del columns["run"]
    elif all(run.title for run in runs):  # who names the runs needs no other names
        del columns["method"]
    named = {name: m for numbers in summaries for name, m in numbers.measures.items()}
    for name, measure in named.items():
        cells = [numbers.values.get(name) for numbers in summaries]
        if any(cells):
            columns[measure.title] = [show(cell) for cell in cells]
    return columns


def in_parts(columns: Columns, first: int, width: int) -> list[Columns]:
    """The columns as one or more tables that fit the width, each with the `first` columns."""
    if _width(columns) <= width:
        return [columns]
    folded = {_fold(heading, cells): cells for heading, cells in columns.items()}
    names, rest = list(folded)[:first], list(folded)[first:]
    parts: list[list[str]] = [[]]
    for heading in rest:
        chosen = [*names, *parts[-1], heading]
        if parts[-1] and _width({each: folded[each] for each in chosen}) > width:
            parts.append([])
        parts[-1].append(heading)
    return [{each: folded[each] for each in [*names, *part]} for part in parts]


def _fold(heading: str, cells: Sequence[str]) -> str:
    """A heading in lines that are as wide as its cells, or its longest word."""
    return textwrap.fill(heading, max(map(len, [*cells, *heading.split()])))


def _width(columns: Columns) -> int:
    """How wide a table of these columns is printed."""
    widest = [max(map(len, [*cells, *head.splitlines()])) for head, cells in columns.items()]
    return sum(widest) + 2 * (len(widest) - 1)


def one_benchmark(runs: Sequence[RunData]) -> str:
    """The benchmark of all runs; empty if they differ."""
    found = {run.setting("benchmark") for run in runs}
    return found.pop() if len(found) == 1 else ""


def headline(run_data: RunData, numbers: Summary) -> str:
    """Benchmark, method, seeds and schedule in one line."""
    kind = "population" if run_data.is_population else "method"
    run = f"{numbers.benchmark}, {kind} {numbers.method}"
    return f"{run}: {count(numbers.seeds, 'seed')}, {schedule(numbers)}"


def schedule(numbers: Summary) -> str:
    """The number of tasks, repetitions and steps."""
    repeated = f" trained {numbers.repetitions} times" if numbers.repetitions > 1 else ""
    tasks = count(len(numbers.task_names), "task") + repeated
    return f"{tasks}, {numbers.planned_steps:,} steps per seed"


def count(number: int, thing: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def unfinished(runs: Sequence[RunData], summaries: Sequence[Summary]) -> list[str]:
    """A line for every run that is still running or was stopped."""
    names = labels(runs) if len(runs) > 1 else ["This run"]
    return [
        f"{name} is not finished: {numbers.trained} of {count(len(numbers.task_names), 'task')}, "
        f"{numbers.steps:,} of {numbers.planned_steps:,} steps. These are the numbers so far."
        for name, numbers in zip(names, summaries, strict=True)
        if not numbers.finished
    ]


def explanations(summaries: Sequence[Summary]) -> list[str]:
    """Notes under the tables: what stands beside the means, and why measures are missing."""
    shown = {spread_for(numbers.seeds) for numbers in summaries}
    notes = {note for numbers in summaries for note in numbers.notes}
    beside = []
    if "seeds" in shown:
        beside.append(
            f"In brackets: lowest and highest seed (95 % intervals need {FEW} seeds or more)."
        )
    if "ci" in shown:
        beside.append("± is the half-width of the 95 % confidence interval over seeds.")
    return unlike(summaries) + beside + sorted(notes)


def unlike(summaries: Sequence[Summary]) -> list[str]:
    """Why the runs cannot be compared; empty if they can."""
    if len({numbers.benchmark for numbers in summaries}) > 1:
        return ["The runs are of different benchmarks; their scores are not comparable."]
    tasks = [len(numbers.task_names) for numbers in summaries]
    if len(set(tasks)) > 1:
        numbers = ", ".join(map(str, tasks))
        return [f"The runs have {numbers} tasks; averages over tasks are not comparable."]
    return []


def partner_rows(run: RunData) -> list[list[str]]:
    """Final scores by partner and seat, mean over tasks; empty if there is only one of each."""
    score = run.mean("score", "eval", "partner", "seat", "seed")[-1]
    if score.shape[:2] == (1, 1):
        return []
    return [
        [name, *(str(mean_over_seeds(seats[seat])) for seat in range(score.shape[1]))]
        for name, seats in zip(run.partner_names, score, strict=True)
    ]


def partner_headings(run: RunData) -> list[str]:
    """The headings of `partner_rows`."""
    seats = run.seat_names
    return ["with", *(["score"] if seats == ["all"] else [f"on seat {name}" for name in seats])]


def partner_lines(run: RunData) -> list[str]:
    """`partner_rows` as lines of text."""
    rows = partner_rows(run)
    heads = partner_headings(run)[1:]
    start = "" if run.is_population else "with "
    return [
        f"  {start}{row[0]}: "
        + ", ".join(f"{head} {cell}" for head, cell in zip(heads, row[1:], strict=True))
        for row in rows
    ]


def print_summary(console: Console, runs: Sequence[RunData]) -> None:
    """Print one run by task, or compare several."""
    summaries = [summary(run) for run in runs]
    frame: Frame = "rule" if console.is_terminal else "none"
    if len(runs) == 1:
        (numbers,) = summaries
        print_line(console, headline(runs[0], numbers))
        if numbers.by_task:
            table = Table(task_headings(numbers), task_rows(numbers), names=2, total=True)
            table.to_terminal(console, frame)
        rest = [
            f"{numbers.measures[name].title} {value}"
            for name, value in numbers.values.items()
            if value is not None and name not in numbers.by_task
        ]
        if rest:
            print_line(console, f"{', '.join(rest).capitalize()}.")
        for line in partner_lines(runs[0]):
            print_line(console, line)
    else:
        if one_benchmark(runs):
            print_line(console, one_benchmark(runs))
        columns = comparison(runs, summaries)
        names = list(columns).index("seeds")
        for number, part in enumerate(in_parts(columns, names + 1, console.width)):
            if number:
                print_line(console, "")
            rows = [list(row) for row in zip(*part.values(), strict=True)]
            Table(list(part), rows, names=names).to_terminal(console, frame)
    for note in unfinished(runs, summaries) + explanations(summaries):
        print_line(console, note)

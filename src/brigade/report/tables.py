"""Tables of one or more runs for terminal and page, and what is said of runs in words."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import TypeAlias

import numpy as np
from rich.console import Console

from brigade.metrics.coordination import IDLE, USEFUL, delivery_share, idle_share, role_collapse
from brigade.metrics.result import Floats, known_mean
from brigade.report.estimate import FEW, Estimate, spread_for
from brigade.report.read import RunData
from brigade.report.summary import Summary, mean_over_seeds, measures_of_all, summary
from brigade.report.table import MISSING, Frame, Table, print_line

WORK = ("", "deliveries", "idle", "role collapse")
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


def shared(runs: Sequence[RunData], texts: Sequence[str]) -> str:
    """A text that all runs share, or that of every run."""
    if len(set(texts)) == 1:
        return texts[0]
    return "; ".join(f"{label}: {text}" for label, text in zip(labels(runs), texts, strict=True))


def shared_task_names(runs: Sequence[RunData]) -> list[str]:
    """The name of every task of any run; empty where the runs have different ones."""
    by_task = zip_longest(*(run.task_names for run in runs))
    found = [{name for name in names if name is not None} for names in by_task]
    return [names.pop() if len(names) == 1 else "" for names in found]


def show(estimate: Estimate | None) -> str:
    """An estimate, or a dash if it is not known."""
    return MISSING if estimate is None else str(estimate)


def task_titles(numbers: Summary) -> dict[str, str]:
    """The titles of the measures that are defined per task, by name, in chronological order."""
    order = {"after_training": 0, "current_score": 0, "average_score": 1}
    titles = {}
    for name in sorted(numbers.by_task, key=lambda name: order.get(name, 2)):
        title = numbers.measures[name].task_title or numbers.measures[name].title
        titles[name] = title if numbers.finished else title.replace("at the end", "now")
    return titles


def task_table(numbers: Summary) -> Table:
    """A row per task, then the averages; no rows if no measure is defined per task."""
    titles = task_titles(numbers)
    rows = [
        [str(index + 1), task, *(show(numbers.by_task[name][index]) for name in titles)]
        for index, task in enumerate(numbers.task_names)
    ]
    rows.append(["", "average", *(show(numbers.values[name]) for name in titles)])
    return Table(["", "task", *titles.values()], rows if titles else [], names=2, total=True)


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
    for name, measure in measures_of_all(summaries).items():
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


def partner_table(run: RunData) -> Table:
    """Final scores by partner and seat, mean over tasks; no rows if there is only one of each."""
    score, seats = run.mean("score", "eval", "partner", "seat", "seed")[-1], run.seat_names
    rows = [
        [name, *map(str, map(mean_over_seeds, by_seat))]
        for name, by_seat in zip(run.partner_names, score, strict=True)
    ]
    heads = ["score"] if seats == ["all"] else [f"on seat {name}" for name in seats]
    return Table(["with", *heads], rows if score.shape[:2] != (1, 1) else [])


def partner_lines(run: RunData) -> list[str]:
    """`partner_table` as lines of text."""
    table = partner_table(run)
    start = "" if run.is_population else "with "
    return [
        f"  {start}{name}: "
        + ", ".join(f"{head} {cell}" for head, cell in zip(table.headings[1:], cells, strict=True))
        for name, *cells in table.rows
    ]


def coordination_table(run: RunData) -> Table:
    """How seats share their work at the last evaluation: a row per seat, then the team.

    No rows if the environment does not record these events.
    """
    names = [str(name) for name in run.arrays.get("event_names", ())]
    if not {*USEFUL, *IDLE} <= set(names):
        return Table(WORK, [])
    last = run.mean("events", "eval", "task", "seed", "player", "kind")[-1]
    deliveries, steps = delivery_share(last, names), float(run.arrays["horizon"])
    idle = idle_share(last, names, steps)
    seats = [
        [f"seat {seat}", _mean_of_tasks(deliveries[..., seat]), _mean_of_tasks(idle[..., seat]), ""]
        for seat in range(last.shape[2])
    ]
    team = ["team", "", _mean_of_tasks(idle.mean(-1)), _mean_of_tasks(role_collapse(last, names))]
    return Table(WORK, [*seats, team], total=True)


def _mean_of_tasks(values: Floats) -> str:
    """Values [task, seed]: the mean over tasks, then over seeds."""
    by_seed = known_mean(values)  # nan, shown as -, if no task has a delivery
    return str(mean_over_seeds(by_seed)) if np.isfinite(by_seed).all() else "-"


def print_summary(console: Console, runs: Sequence[RunData]) -> None:
    """Print one run by task, or compare several."""
    summaries = [summary(run) for run in runs]
    frame: Frame = "rule" if console.is_terminal else "none"
    if len(runs) == 1:
        (numbers,) = summaries
        print_line(console, headline(runs[0], numbers))
        if numbers.by_task:
            task_table(numbers).to_terminal(console, frame)
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

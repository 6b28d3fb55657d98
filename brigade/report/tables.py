"""Tables of one run or several, and how they look on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from brigade.report.measure import Estimate, Summary, summary
from brigade.report.read import RunData


def labels(runs: Sequence[RunData]) -> list[str]:
    """Tell runs apart in as few words as possible."""
    choices = (
        [run.setting("method") for run in runs],
        [f"{run.setting('benchmark')} {run.setting('method')}" for run in runs],
        [run.name for run in runs],
    )
    for names in choices:
        if all(names) and max(Counter(names).values()) == 1:
            return names
    return [str(run.path) for run in runs]


def show(estimate: Estimate | None) -> str:
    """An estimate, or a dash for what cannot be known."""
    return "-" if estimate is None else str(estimate)


def task_headings(numbers: Summary) -> list[str]:
    """The heads of the columns of `task_rows`."""
    return ["", "task", "after training", "at the end" if numbers.finished else "now", "forgetting"]


def task_rows(numbers: Summary) -> list[list[str]]:
    """A row per task, then the averages."""
    rows = [
        [str(number), task.name, *map(show, (task.after_training, task.final, task.forgetting))]
        for number, task in enumerate(numbers.tasks, start=1)
    ]
    totals = (numbers.learned, numbers.average_score, numbers.forgetting)
    return [*rows, ["", "average", *map(show, totals)]]


def comparison(runs: Sequence[RunData], summaries: Sequence[Summary]) -> dict[str, list[str]]:
    """Columns by heading, a cell per run; a column that says nothing is left out.

    A benchmark that all runs share stands above the table instead.
    """
    columns = {
        "run": labels(runs),
        "benchmark": [numbers.benchmark for numbers in summaries],
        "method": [numbers.method for numbers in summaries],
        "seeds": [str(numbers.seeds) for numbers in summaries],
        "average score": [show(numbers.average_score) for numbers in summaries],
        "forgetting": [show(numbers.forgetting) for numbers in summaries],
        "fwd. transfer": [show(numbers.forward_transfer) for numbers in summaries],
        "area gained": [show(numbers.area_gained) for numbers in summaries],
    }
    if one_benchmark(runs):
        del columns["benchmark"]
    if columns["run"] == columns["method"]:
        del columns["run"]
    if not any(numbers.forward_transfer for numbers in summaries):
        del columns["fwd. transfer"], columns["area gained"]
    return columns


def one_benchmark(runs: Sequence[RunData]) -> str:
    """The benchmark, if there is but one."""
    found = {run.setting("benchmark") for run in runs}
    return found.pop() if len(found) == 1 else ""


def headline(numbers: Summary) -> str:
    """What was run, in a line."""
    run = f"{numbers.benchmark}, method {numbers.method}"
    return f"{run}: {count(numbers.seeds, 'seed')}, {plan(numbers)}"


def plan(numbers: Summary) -> str:
    """How many tasks, how often and how long."""
    again = f" learned {numbers.repetitions} times" if numbers.repetitions > 1 else ""
    tasks = count(len(numbers.tasks), "task") + again
    return f"{tasks}, {numbers.planned_steps:,} steps per seed"


def count(number: int, thing: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def unfinished(runs: Sequence[RunData], summaries: Sequence[Summary]) -> list[str]:
    """A line for every run that is still going or was stopped."""
    names = labels(runs) if len(runs) > 1 else ["This run"]
    return [
        f"{name} is not finished: {numbers.trained} of {count(len(numbers.tasks), 'task')}, "
        f"{numbers.steps:,} of {numbers.planned_steps:,} steps. The numbers are as of now."
        for name, numbers in zip(names, summaries, strict=True)
        if not numbers.finished
    ]


def explanations(summaries: Sequence[Summary]) -> list[str]:
    """What a reader must know to read the numbers right."""
    several = any(numbers.seeds > 1 for numbers in summaries)
    reasons = {numbers.transfer_note for numbers in summaries} - {""}
    return (["After ±: half of the 95 % interval over seeds."] if several else []) + [
        f"Forward transfer: {reason}." for reason in sorted(reasons)
    ]


def print_summary(console: Console, runs: Sequence[RunData]) -> None:
    """Print one run by task, or several side by side."""
    summaries = [summary(run) for run in runs]
    if len(runs) == 1:
        (numbers,) = summaries
        _say(console, headline(numbers))
        _print_table(console, task_headings(numbers), task_rows(numbers), names=2, total=True)
        if numbers.forward_transfer is not None:
            transfer, gained = numbers.forward_transfer, show(numbers.area_gained)
            _say(console, f"Forward transfer {transfer}, area gained {gained}.")
    else:
        if one_benchmark(runs):
            _say(console, one_benchmark(runs))
        columns = comparison(runs, summaries)
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        _print_table(console, list(columns), rows, names=list(columns).index("seeds"))
    for note in unfinished(runs, summaries) + explanations(summaries):
        _say(console, note)


def _print_table(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    names: int,
    total: bool = False,
) -> None:
    """The first columns hold names; only a terminal gets a line under the head."""
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < names else "right", overflow="fold")
    for index, row in enumerate(rows):
        last = total and index == len(rows) - 1
        table.add_row(*(_text(console, cell) for cell in row), style="bold" if last else None)
    console.print(table)


def _say(console: Console, line: str) -> None:
    console.print(_text(console, line), soft_wrap=not console.is_terminal)


def _text(console: Console, text: str) -> Text:
    """Without control characters, with which a name could repaint someone's terminal."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    if console.options.ascii_only:
        clean = clean.replace("±", "+-").encode("ascii", "replace").decode()
    return Text(clean)

"""Tables for a paper: LaTeX, Markdown and CSV of the same numbers, the best in bold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from brigade.report import statistics
from brigade.report.estimate import SPREADS, Estimate, Spread, spread_for
from brigade.report.measures import Measure
from brigade.report.read import RunData
from brigade.report.summary import Summary
from brigade.report.table import Cell, Table, as_bytes
from brigade.report.table import markdown as escape
from brigade.report.tables import count, labels, schedule, unlike

ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}
COLUMNS = ("mean", "std", "standard_error", "half_width", "min", "max")  # of an estimate in a CSV


@dataclass(frozen=True)
class PaperTable:
    """A table as it is shown, and the numbers behind it at full precision."""

    name: str  # of its files
    shown: Table  # its title is the caption
    numbers: Table

    def files(self) -> dict[str, bytes]:
        """The files by name: LaTeX, Markdown and CSV."""
        shown = self.shown
        markdown = f"{escape(shown.title)}\n\n{shown.to_markdown()}"
        return {
            f"{self.name}.tex": as_bytes(shown.to_latex(self.name)),
            f"{self.name}.md": as_bytes(markdown),
            f"{self.name}.csv": self.numbers.to_csv(),
        }


# --- The tables of a report ---


def paper_tables(
    runs: Sequence[RunData], summaries: Sequence[Summary], spread: Spread
) -> list[PaperTable]:
    """All measures by run, every measure by task, and statistics of several runs."""
    tables = [results_table(runs, summaries, spread)]
    for name, measure in measures_of_all(summaries).items():
        if all(name in numbers.by_task for numbers in summaries):
            tables.append(task_table(runs, summaries, name, measure, spread))
    if len(runs) > 1:
        tables.append(statistics_table(runs, summaries, spread))
    return tables


def measures_of_all(summaries: Sequence[Summary]) -> dict[str, Measure]:
    """The measures of which at least one run has a value."""
    named = {name: m for numbers in summaries for name, m in numbers.measures.items()}
    return {
        name: m for name, m in named.items() if any(each.values.get(name) for each in summaries)
    }


def results_table(
    runs: Sequence[RunData], summaries: Sequence[Summary], spread: Spread
) -> PaperTable:
    """A row per run, a column per measure."""
    measures, names = measures_of_all(summaries), labels(runs)
    columns = {
        name: estimate_cells(
            [each.values.get(name) for each in summaries], measure, spread, not unlike(summaries)
        )
        for name, measure in measures.items()
    }
    rows = [
        [Cell(label), *(column[index] for column in columns.values())]
        for index, label in enumerate(names)
    ]
    numbers = [
        [label, each.seeds, *_numbers([each.values.get(name) for name in measures])]
        for label, each in zip(names, summaries, strict=True)
    ]
    heads = [f"{measure.title}{ARROWS[measure.better]}" for measure in measures.values()]
    caption = f"Results. {describe(runs, summaries)} {beside(summaries, spread)}"
    csv_columns = ["run", "seeds", *(f"{name}_{end}" for name in measures for end in COLUMNS)]
    shown = Table(["", *heads], rows, caption.rstrip() + _bold(summaries))
    return PaperTable("results", shown, Table(csv_columns, numbers))


def task_table(
    runs: Sequence[RunData],
    summaries: Sequence[Summary],
    name: str,
    measure: Measure,
    spread: Spread,
) -> PaperTable:
    """A row per task, a column per run, and the average."""
    number = max(len(each.task_names) for each in summaries)
    names = [f"{task + 1} {_task_name(summaries, task)}".strip() for task in range(number)]
    found = [
        [each.by_task[name][task] if task < len(each.task_names) else None for each in summaries]
        for task in range(number)
    ]
    found.append([each.values.get(name) for each in summaries])
    names.append("average")
    alike = not unlike(summaries)
    rows = [
        [Cell(task), *estimate_cells(values, measure, spread, alike)]
        for task, values in zip(names, found, strict=True)
    ]
    numbers = [[task, *_numbers(values)] for task, values in zip(names, found, strict=True)]
    title = measure.title if measure.title == measure.task_title else _task_title(measure)
    caption = f"{title} by task. {describe(runs, summaries)} {beside(summaries, spread)}"
    columns = ["task", *(f"{label} {end}" for label in labels(runs) for end in COLUMNS)]
    shown = Table(["task", *labels(runs)], rows, caption.rstrip() + _bold(summaries))
    return PaperTable(f"tasks_{name}", shown, Table(columns, numbers))


def _task_title(measure: Measure) -> str:
    end = f" ({measure.task_title})" if measure.task_title else ""
    return f"{measure.title.capitalize()}{end}"


def _task_name(summaries: Sequence[Summary], task: int) -> str:
    names = {each.task_names[task] for each in summaries if task < len(each.task_names)}
    return names.pop() if len(names) == 1 else ""


def statistics_table(
    runs: Sequence[RunData], summaries: Sequence[Summary], spread: Spread
) -> PaperTable:
    """Inter-quartile means, and every run compared with the first."""
    found, names = statistics.statistics(runs), labels(runs)
    rows = [
        [Cell(row[0]), Cell(row[1]), *map(Cell.of, row[2:])]
        for row in statistics.rows(names, found, spread)
    ]
    columns = ["run", "seeds", *(f"mean_score_{end}" for end in COLUMNS)]
    columns += [f"{name}{end}" for name in ("iqm", "improvement") for end in ("", "_low", "_high")]
    columns += ["difference", "p", "common_seeds"]
    numbers = [
        [
            label,
            len(each.mean.values),
            *_numbers([each.mean]),
            *each.inter_quartile_mean,
            *(each.improvement or (None,) * 3),
            *(each.paired[:2] if each.paired else (None, None)),
            each.paired.seeds if each.paired else None,
        ]
        for label, each in zip(names, found, strict=True)
    ]
    text = f"{statistics.caption(names[0], found)} {describe(runs, summaries)}"
    caption = f"{text} Mean score: over tasks and seeds. {spread_note(summaries, spread)}".strip()
    shown = Table(statistics.headings(names[0]), rows, caption)
    return PaperTable("statistics", shown, Table(columns, numbers))


def estimate_cells(
    values: Sequence[Estimate | None], measure: Measure, spread: Spread, bold: bool = True
) -> list[Cell]:
    """One cell per run; the best of several are bold, as far as the digits shown tell."""
    shown = [None if value is None else value.show(spread).partition(" ") for value in values]
    means = [float(text[0]) for text in shown if text is not None and text[0] != "-"]
    pick: Mapping[str, Callable[[list[float]], float]] = {"higher": max, "lower": min}
    compared = bold and measure.better in pick and len(means) > 1
    best = pick[measure.better](means) if compared else None
    return [
        Cell("-")
        if text is None
        else Cell(text[0], text[2], text[0] != "-" and float(text[0]) == best)
        for text in shown
    ]


def _numbers(values: Sequence[Estimate | None]) -> list[float | None]:
    cells: list[float | None] = []
    for each in values:
        if each is None:
            cells += [None] * len(COLUMNS)
        else:
            cells += [each.mean, each.std, each.standard_error, each.half_width]
            cells += [min(each.values), max(each.values)]
    return cells


# --- Captions ---


def describe(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str:
    """Benchmark, learner, schedule and seeds; by run where they differ."""
    whole = [_setup(run, numbers) for run, numbers in zip(runs, summaries, strict=True)]
    if len(set(whole)) == 1:
        return f"{whole[0]}."
    parts = [f"{label}: {text}" for label, text in zip(labels(runs), whole, strict=True)]
    return f"{'; '.join(parts)}."


def _setup(run: RunData, numbers: Summary) -> str:
    learner = f", learner {run.setting('learner')}" if run.setting("learner") else ""
    seeds = f"{count(numbers.seeds, 'seed')} ({', '.join(map(str, run.seeds))})"
    so_far = "" if numbers.finished else f", not finished: {numbers.steps:,} steps so far"
    return f"{numbers.benchmark}{learner}, {schedule(numbers)}, {seeds}{so_far}"


def beside(summaries: Sequence[Summary], spread: Spread) -> str:
    """What the cells contain."""
    several = any(numbers.seeds > 1 for numbers in summaries)
    return f"{'Mean over seeds.' if several else ''} {spread_note(summaries, spread)}".strip()


def spread_note(summaries: Sequence[Summary], spread: Spread) -> str:
    """What stands beside the means; empty if nothing does."""
    shown = {spread_for(numbers.seeds, spread) for numbers in summaries}
    brackets = "In brackets: the lowest and the highest seed." if "seeds" in shown else ""
    signs = [f"±: {SPREADS[each]}." for each in shown if each in ("ci", "std", "se")]
    return " ".join(filter(None, [brackets, *sorted(signs)]))


def _bold(summaries: Sequence[Summary]) -> str:
    if why := unlike(summaries):
        return f" {why[0]}"
    return " Bold: best mean." if len(summaries) > 1 else ""

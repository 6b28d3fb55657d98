"""Tables for a paper: LaTeX, Markdown and CSV of the same numbers, the best in bold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from brigade.report import statistics
from brigade.report.estimate import SPREADS, Estimate, Spread, spread_for
from brigade.report.measures import Measure
from brigade.report.read import RunData
from brigade.report.summary import Summary, measures_of_all
from brigade.report.table import Cell, Table, as_bytes
from brigade.report.table import markdown as escape
from brigade.report.tables import count, labels, schedule, shared, shared_task_names, unlike

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
    tables = [measures_table(runs, summaries, spread)]
    for name, measure in known_measures(summaries).items():
        if all(name in numbers.by_task for numbers in summaries):
            tables.append(measure_by_task(runs, summaries, name, measure, spread))
    if len(runs) > 1:
        tables.append(statistics_table(runs, summaries, spread))
    return tables


def known_measures(summaries: Sequence[Summary]) -> dict[str, Measure]:
    """The measures of which at least one run has a value."""
    return {
        name: measure
        for name, measure in measures_of_all(summaries).items()
        if any(each.values.get(name) for each in summaries)
    }


def measures_table(
    runs: Sequence[RunData], summaries: Sequence[Summary], spread: Spread
) -> PaperTable:
    """A row per run, a column per measure."""
    measures, names = known_measures(summaries), labels(runs)
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


def measure_by_task(
    runs: Sequence[RunData],
    summaries: Sequence[Summary],
    name: str,
    measure: Measure,
    spread: Spread,
) -> PaperTable:
    """A row per task, a column per run, and the average."""
    names = [f"{task} {name}".strip() for task, name in enumerate(shared_task_names(runs), 1)]
    found = [
        [each.by_task[name][task] if task < len(each.task_names) else None for each in summaries]
        for task in range(len(names))
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


def statistics_table(
    runs: Sequence[RunData], summaries: Sequence[Summary], spread: Spread
) -> PaperTable:
    """Inter-quartile means, and every run compared with the first."""
    found, names = statistics.statistics(runs), labels(runs)
    table = statistics.table(names, found, spread)
    rows = [[Cell(row[0]), Cell(row[1]), *map(Cell.of, row[2:])] for row in table.rows]
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
    shown = Table(table.headings, rows, caption)
    return PaperTable("statistics", shown, Table(columns, numbers))


def estimate_cells(
    values: Sequence[Estimate | None], measure: Measure, spread: Spread, bold: bool = True
) -> list[Cell]:
    """One cell per run; the best of several are bold, as far as the digits shown tell."""
    cells = [Cell.of("-" if value is None else value.show(spread)) for value in values]
    means = [float(cell.text) for cell in cells if cell.text != "-"]
    pick: Mapping[str, Callable[[list[float]], float]] = {"higher": max, "lower": min}
    compared = bold and measure.better in pick and len(means) > 1
    best = pick[measure.better](means) if compared else None
    return [replace(cell, best=cell.text != "-" and float(cell.text) == best) for cell in cells]


def _numbers(values: Sequence[Estimate | None]) -> list[float | None]:
    unknown: Sequence[float | None] = (None,) * len(COLUMNS)
    return [cell for each in values for cell in (each.numbers.values() if each else unknown)]


# --- Captions ---


def describe(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str:
    """Benchmark, learner, schedule and seeds; by run where they differ."""
    return f"{shared(runs, list(map(_setup, runs, summaries)))}."


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

"""The HTML report of one or more runs: a single self-contained file without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from brigade.report import curves, page, statistics
from brigade.report.command import command, flatten
from brigade.report.estimate import FEW as FEW_SEEDS
from brigade.report.estimate import spread_for
from brigade.report.measures import PLASTICITY
from brigade.report.page import soft
from brigade.report.paint import are_raw, axis_note
from brigade.report.read import RunData
from brigade.report.style import series, themed
from brigade.report.summary import Summary, estimate, measures_of_all, summary
from brigade.report.table import MISSING, Table
from brigade.report.tables import (
    comparison,
    coordination_table,
    count,
    explanations,
    labels,
    one_benchmark,
    partner_table,
    schedule,
    shared,
    shared_task_names,
    show,
    task_table,
    task_titles,
    unfinished,
)
from brigade.runs.folder import write_atomically
from brigade.runs.kept_files import with_paths

FEW = 12  # plots or pictures; more are collapsed
SPREAD = (
    "± and brackets",
    f"Metrics are computed per seed, then averaged. With {FEW_SEEDS} seeds or more, ± is half the "
    "width of the 95 % confidence interval of the mean (Student's t). Fewer say too little for an "
    "interval: brackets hold the lowest and the highest seed.",
)


TRANSFER, STABILITY = "Forward transfer curve", "Stability and plasticity"


def write_report(runs: Sequence[RunData], folder: Path) -> Path:
    """Write report.html into the folder and return its path."""
    if not runs:
        raise ValueError("a report needs at least one run")
    summaries = [summary(run) for run in runs]
    body = [
        _head(runs, summaries),
        _headline(runs, summaries),
        _by_task(runs, summaries),
        _by_partner(runs),
        _coordination(runs),
        _plasticity(runs),
        _over_the_run(runs, summaries),
        _task_curves(runs),
        *_pictures(runs),
        page.section("Definitions", page.definitions(_definitions(runs, summaries))),
        _commands(runs),
        page.tag("footer", f"Written by Brigade from {_folders(runs)}.", "soft"),
    ]
    text = page.document(_title(runs), "\n".join(body))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    # Names may contain lone surrogates, which JSON allows and UTF-8 does not.
    write_atomically(path, text.encode("utf-8", "replace"))
    return path


def _title(runs: Sequence[RunData]) -> str:
    return f"{one_benchmark(runs) or count(len(runs), 'run')}: {', '.join(labels(runs))}"


def _folders(runs: Sequence[RunData]) -> str:
    return ", ".join(run.name for run in runs)


def _head(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str:
    lines = [page.tag("h1", _title(runs)), soft(_subtitle(runs, summaries))]
    lines += [page.tag("p", note, "note") for note in unfinished(runs, summaries)]
    return page.box("header", "\n".join(lines))


def _subtitle(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str:
    """Method, learner, seeds and schedule; by run where they differ."""
    parts = list(zip(*map(_facts, runs, summaries), strict=True))
    shown = parts if len(runs) == 1 else parts[1:]  # a table says the methods of several
    return " · ".join(filter(None, (shared(runs, part) for part in shown)))


def _facts(run: RunData, numbers: Summary) -> list[str]:
    seeds = ", ".join(map(str, run.seeds))
    return [
        f"{'Population' if run.is_population else 'Method'} {numbers.method}",
        f"learner {run.setting('learner')}" if run.setting("learner") else "",
        f"{'seed' if numbers.seeds == 1 else 'seeds'} {seeds}",
        schedule(numbers),
        f"Brigade {run.version}" if run.version else "",
    ]


def _headline(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str:
    """Cards for one run, a table for several."""
    small = soft(" ".join(explanations(summaries)))
    if len(runs) > 1:
        columns = comparison(runs, summaries)
        first = next(iter(columns))
        columns[first] = [f"{number} · {cell}" for number, cell in enumerate(columns[first], 1)]
        names, rows = list(columns).index("seeds"), list(zip(*columns.values(), strict=True))
        table = page.table(Table(list(columns), rows, names=names), stacked=True)
        return page.section("Comparison", table, small) + _statistics(runs) + _differences(runs)
    (numbers,) = summaries
    cards = [
        (numbers.measures[name].title.capitalize(), value, numbers.measures[name].short)
        for name, value in numbers.values.items()
        if value is not None
    ]
    return page.cards(cards) + small


def _statistics(runs: Sequence[RunData]) -> str:
    """Inter-quartile means, and all runs compared with the first."""
    found, names = statistics.statistics(runs), labels(runs)
    table = page.table(statistics.table(names, found), stacked=True)
    return page.section("Statistics", table, soft(statistics.caption(names[0], found)))


def _differences(runs: Sequence[RunData]) -> str:
    """The settings in which the runs differ."""
    names, rows = ["setting", *labels(runs)], _setting_rows(runs)
    different = [row for row in rows if len(set(row[1:])) > 1]
    text = "All other settings are the same." if different else "All settings are the same."
    table = page.table(Table(names, different, names=len(names)))
    return page.section("Settings that differ", table, soft(text))


def _meaning(runs: Sequence[RunData], what: str) -> str:
    """What the runs' games say of their numbers, each once."""
    texts = [run.meanings[what] for run in runs if what in run.meanings]
    return "; ".join(dict.fromkeys(texts))


def _definitions(runs: Sequence[RunData], summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    """Definitions of the measures of all runs."""
    own, raw = _meaning(runs, "score"), _meaning(runs, "raw_score")
    parts = [f"Not normalised: {raw}."] if raw else []
    if not all(run.has_raw_scores for run in runs):
        parts.insert(0, f"The normalised result of an episode{f': {own}' if own else ''}.")
    score = " ".join([*parts, "Scores are means over partners, seats and episodes."])
    measures = measures_of_all(summaries).values()
    defined = [(m.title.capitalize(), m.meaning) for m in measures if m.meaning]
    return [("Score", score), *defined, SPREAD]


def _by_task(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str:
    """A table of one run, or a table per measure of several."""
    if len(runs) > 1:
        return page.section("Results by task", *_compared_by_task(runs, summaries))
    return page.section("Results by task", page.table(task_table(summaries[0])))


def _compared_by_task(runs: Sequence[RunData], summaries: Sequence[Summary]) -> list[str]:
    """For every measure a row per task and a column per run."""
    parts = []
    titles = {name: title for each in summaries for name, title in task_titles(each).items()}
    for name, title in titles.items():
        columns = [
            [*map(show, each.by_task.get(name, ())), *[MISSING] * len(_task_titles(runs))]
            for each in summaries
        ]
        rows = [
            [task, *(column[place] for column in columns)]
            for place, task in enumerate(_task_titles(runs))
        ]
        rows.append(["average", *(show(each.values.get(name)) for each in summaries)])
        table = Table(["task", *labels(runs)], rows, total=True)
        parts += [page.tag("h3", title.capitalize()), page.table(table)]
    return parts


def _by_partner(runs: Sequence[RunData]) -> str:
    """Scores by partner and seat, if there are several."""
    text = "At the last evaluation, mean over tasks and episodes."
    return _by_run("Scores by partner and seat", text, runs, partner_table)


def _by_run(
    title: str, text: str, runs: Sequence[RunData], table: Callable[[RunData], Table]
) -> str:
    """A table per run that has rows, collapsed if there are several runs."""
    named = zip(labels(runs), map(page.table, map(table, runs)), strict=True)
    shown = [page.details(*each) if len(runs) > 1 else each[1] for each in named if each[1]]
    return page.section(title, soft(text), *shown) if shown else ""


def _coordination(runs: Sequence[RunData]) -> str:
    """How the seats share their work, if events were recorded."""
    text = (
        "At the last evaluation, mean over episodes, then tasks. "
        f"{_meaning(runs, 'coordination')} "
        "Role collapse: 0 if all seats do the same amount of work, 1 if one seat does all of it."
    )
    return _by_run("Coordination", text, runs, coordination_table)


def _plasticity(runs: Sequence[RunData]) -> str:
    """Loss of plasticity, for sequences that are repeated."""
    rows = [
        [label, *(show(estimate(measure, measure.compute(run))) for measure in PLASTICITY)]
        for label, run in zip(labels(runs), runs, strict=True)
        if run.repetitions > 1 and len(run.logged("score")[0])
    ]
    if not rows:
        return ""
    text = (
        "Training scores of a task's later repetitions compared with its first, mean over tasks. "
        "AUC-loss: 0 if the task is learned as well as the first time, 1 if not at all. Ratios: 1 "
        "if as well as the first time. Dormant: share of dormant units in the policy, mean over "
        "training."
    )
    table = Table(["", *(measure.title for measure in PLASTICITY)], rows)
    return page.section("Plasticity", soft(text), page.table(table))


def _over_the_run(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str:
    measures = measures_of_all(summaries)
    plots = [
        *(
            (measure.title.capitalize(), curves.measure_curve(runs, measure.title, measure.curve))
            for name, measure in measures.items()
            if measure.curve is not None and all(name in each.measures for each in summaries)
        ),
        *_training_curves(runs),
        (TRANSFER, curves.transfer_curve(runs, summaries)),
        ("Forgetting by task", curves.forgetting_bars(summaries)),
        ("Dormant units", curves.dormant_curve(runs)),
        (STABILITY, curves.stability_plasticity(summaries)),
    ]
    text = f"{' '.join(_lines(runs))} Shading marks every other task."
    if "average_score" in measures:
        text = f"The average is over all tasks, including those not trained yet. {text}"
    if dict(plots)[TRANSFER]:
        text += (
            f" {TRANSFER}: the score of the task in training minus that of its single-task "
            "baseline after the same number of steps; above 0, earlier tasks help."
        )
    if plots[-1][1]:
        text += f" {STABILITY}: up and to the right is better."
    drawn = [(title, svg) for title, svg in plots if svg]
    return page.section("Over the run", _legend(runs), soft(text), page.plots(drawn))


def _training_curves(runs: Sequence[RunData]) -> list[tuple[str, str | None]]:
    """One for all tasks, or one for each if they have scales of their own."""
    if not are_raw(runs):
        return [("Training score", curves.training_curve(runs))]
    return [
        (f"Training score: {title}", curves.training_curve(runs, task))
        for task, title in enumerate(_task_titles(runs))
    ]


def _task_curves(runs: Sequence[RunData]) -> str:
    """A plot per task; only the first are expanded."""
    plots = [(name, curves.task_curve(runs, task)) for task, name in enumerate(_task_titles(runs))]
    rest = count(len(plots) - FEW, "more task")
    folded = page.details(rest, page.plots(plots[FEW:])) if plots[FEW:] else ""
    text = f"{' '.join(_lines(runs))} Grey: the task's own training. {axis_note(runs)}"
    return page.section(
        "Learning curves by task", _legend(runs), soft(text), page.plots(plots[:FEW]), folded
    )


def _lines(runs: Sequence[RunData]) -> list[str]:
    """What the lines and bands of plots are."""
    shown = {spread_for(len(run.seeds)) for run in runs}
    thin = "Thin lines: single seeds." if "seeds" in shown else ""
    band = f"Band: 95 % interval ({FEW_SEEDS} seeds or more)." if "ci" in shown else ""
    mean = "Line: one seed." if shown == {"none"} else "Thick line: mean over seeds."
    return list(filter(None, [mean, thin, band]))


def _task_titles(runs: Sequence[RunData]) -> list[str]:
    """Number and name of every task; only the number if the runs have different tasks."""
    return [
        f"{number} · {name}" if name else f"Task {number}"
        for number, name in enumerate(shared_task_names(runs), 1)
    ]


def _legend(runs: Sequence[RunData]) -> str:
    if len(runs) == 1:
        return ""
    entries = [
        page.key(themed(series(index).colour), str(series(index).dash), f"{index + 1} · {label}")
        for index, label in enumerate(labels(runs))
    ]
    return page.box("ul", "\n".join(entries), "legend")


def _pictures(runs: Sequence[RunData]) -> list[str]:
    """The pictures of all runs; runs with the same pictures share them."""
    owners: list[tuple[str, RunData]] = []
    for label, run in zip(labels(runs), runs, strict=True):
        if run.pictures and all(run.pictures != other.pictures for _, other in owners):
            owners.append((label, run))
    titles = ["Tasks"] if len(owners) == 1 else [f"Tasks of {label}" for label, _ in owners]
    return [
        page.section(title, *_pictures_of(run))
        for title, (_, run) in zip(titles, owners, strict=True)
    ]


def _pictures_of(run: RunData) -> list[str]:
    """The pictures of each seed; only the first seed's are expanded."""
    groups: list[str] = []
    for seed in sorted({seed for seed, _ in run.pictures}):
        figures = [
            page.picture(_picture_title(run, task), png)
            for (owner, task), png in run.pictures.items()
            if owner == seed
        ]
        grid = page.box("div", "\n".join(figures), "pictures")
        shown = not groups and len(figures) <= FEW
        groups.append(soft(f"Seed {seed}") + grid if shown else page.details(f"Seed {seed}", grid))
    return groups


def _picture_title(run: RunData, task: int) -> str:
    known = 0 < task <= len(run.task_names)
    return f"{task} · {run.task_names[task - 1]}" if known else f"Task {task}"


def _commands(runs: Sequence[RunData]) -> str:
    """The command that repeats each run, and a table of all settings."""
    commands = [
        page.box("pre", page.tag("code", command(with_paths(run.config, run.path)))) for run in runs
    ]
    if len(runs) > 1:
        commands = [page.details(*entry) for entry in zip(labels(runs), commands, strict=True)]
    return page.section(
        "Command and settings", *commands, page.details("All settings", _settings(runs))
    )


def _setting_rows(runs: Sequence[RunData]) -> list[list[str]]:
    """Name and values of every setting."""
    configs = [dict(flatten(run.config)) for run in runs]
    names = dict.fromkeys(name for config in configs for name in config)  # unique, in order
    return [[name, *(str(config.get(name, "")) for config in configs)] for name in names]


def _settings(runs: Sequence[RunData]) -> str:
    heads = ["setting", *(labels(runs) if len(runs) > 1 else ["value"])]
    return page.table(Table(heads, _setting_rows(runs), names=len(heads)))

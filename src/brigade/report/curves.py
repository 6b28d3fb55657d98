"""Plots as inline SVG. They contain no text from run folders; the page escapes that itself."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from brigade.metrics.result import Floats, known_mean
from brigade.report.estimate import Estimate, spread_for
from brigade.report.paint import (
    MAX_POINTS,
    bar,
    line,
    score_axis,
    shade,
    steps_axis,
    task_lines,
    thin,
    unit,
)
from brigade.report.read import RunData
from brigade.report.style import AXES, INK, LINE, series, themed
from brigade.report.summary import Summary

INCHES = (3.7, 2.2)  # small, so that labels stay readable on a phone
MAX_INTERVALS = 40  # error bars; more would hide the bars
RC = AXES | {
    "svg.fonttype": "none",
    "font.size": 9,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
}


Line: TypeAlias = tuple[Floats, Floats]  # steps [point] and values [point, seed]


def task_curve(runs: Sequence[RunData], task: int) -> str:
    """The score of one task over the whole run, with its own training shaded."""
    scale, steps = unit(runs)

    def paint(axes: Axes) -> None:
        task_lines(axes, runs, task, scale, [series(index) for index in range(len(runs))])

    return draw(f"Score on task {task + 1} over the run", paint, xlabel=steps, ylabel="score")


def measure_curve(
    runs: Sequence[RunData], title: str, curve: Callable[[RunData], Floats]
) -> str | None:
    """A measure [eval, seed] over the run."""
    values = [curve(run) for run in runs]
    lines = [_thinned(run.steps, each) for run, each in zip(runs, values, strict=True)]
    limits = partial(score_axis, runs=runs, drawn=values)
    return _draw_lines(f"{title} over the run", runs, lines, limits, "score")


def training_curve(runs: Sequence[RunData], task: int | None = None) -> str | None:
    """The score of the training episodes, of all tasks or of one; None if nothing was logged."""
    lines = [_training_score(run, task) for run in runs]
    limits = partial(score_axis, runs=runs, drawn=[score for _, score in lines])
    of_task = "" if task is None else f" of task {task + 1}"
    label = f"Score of the training episodes{of_task} over the run"
    return _draw_lines(label, runs, lines, limits, "score", task)


def transfer_curve(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str | None:
    """The score of the task in training minus its single-task baseline's; None if unknown."""
    nothing = np.empty(0), np.empty((0, 1))
    lines = [
        gain_over_baseline(run) if numbers.values.get("area_gained") else nothing
        for run, numbers in zip(runs, summaries, strict=True)
    ]

    def limits(axes: Axes) -> None:
        highest = max(0.1, *(np.nanmax(np.abs(gain)) for _, gain in lines if gain.size))
        axes.set_ylim(-1.1 * highest, 1.1 * highest)
        axes.axhline(0.0, color=LINE, lw=0.8, ls="--", zorder=0.5)

    label = "Score of the task in training minus its baseline"
    return _draw_lines(label, runs, lines, limits, "gain")


def dormant_curve(runs: Sequence[RunData]) -> str | None:
    """The share of dormant units; None if nothing was logged."""
    logs = [run.logged("dormant") for run in runs]

    def limits(axes: Axes) -> None:
        axes.set_ylim(0, max(0.1, *(1.05 * share.max() for _, share in logs if share.size)))

    lines = [_thinned(*log) if len(log[0]) else log for log in logs]
    return _draw_lines("Share of dormant units over the run", runs, lines, limits, "dormant")


def _thinned(steps: Floats, values: Floats) -> Line:
    keep = thin(steps)
    return steps[keep], values[keep]


def _draw_lines(
    label: str,
    runs: Sequence[RunData],
    lines: Sequence[Line],
    limits: Callable[[Axes], None],
    ylabel: str,
    task: int | None = None,
) -> str | None:
    """A line per run; None if all are empty. Shades every other task, or one."""
    scale, xlabel = unit(runs)
    if not any(len(steps) for steps, _ in lines):
        return None

    def paint(axes: Axes) -> None:
        shade(axes, runs, scale, task)
        steps_axis(axes, runs, scale)
        limits(axes)
        for index, (steps, values) in enumerate(lines):
            if len(steps):
                line(axes, series(index), steps / scale, values)

    return draw(label, paint, xlabel=xlabel, ylabel=ylabel)


def gain_over_baseline(run: RunData) -> Line:
    """Steps [point], and the score of the task in training minus its baseline's [point, seed].

    A nan after every task interrupts the line.
    """
    times, baseline = run.arrays["baseline_steps"], run.arrays["baseline_score"]
    steps, gains = [], []
    for task, (start, end) in enumerate(zip(run.task_starts, run.task_ends, strict=True)):
        now = (run.steps >= start) & (run.steps <= end)
        since = run.steps[now] - start
        base = np.stack([np.interp(since, times, curve) for curve in baseline[task]], axis=-1)
        steps += [run.steps[now], [end]]
        gains += [run.score[now, task] - base, np.full((1, base.shape[1]), np.nan)]
    return np.concatenate(steps), np.concatenate(gains)


def forgetting_bars(summaries: Sequence[Summary]) -> str | None:
    """Forgetting of every task; None if no task was evaluated after its training yet."""
    known = [
        (index, task, lost)
        for index, numbers in enumerate(summaries)
        for task, lost in enumerate(numbers.by_task.get("forgetting", ()), start=1)
        if lost
    ]
    if not known:
        return None

    def paint(axes: Axes) -> None:
        width = 0.8 / len(summaries)
        room = len(summaries) * len(summaries[0].task_names) <= MAX_INTERVALS
        tasks = max(len(numbers.task_names) for numbers in summaries) - 1
        axes.set_xlim(0.4, tasks + 0.6)
        axes.set_ylim(0, max(1.05, *(1.05 * max(lost.values) for *_, lost in known)))
        for index, task, lost in known:
            shift = (index - (len(summaries) - 1) / 2) * width
            bar(axes, task + shift, width, lost, series(index).colour, room)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))

    return draw("Forgetting of every task", paint, xlabel="task", ylabel="forgetting")


def stability_plasticity(summaries: Sequence[Summary]) -> str | None:
    """Stability (1 - forgetting) against plasticity, one numbered point per run; needs two runs.

    Plasticity is the area gained over the single-task baselines if all runs have them, otherwise
    the score after a task's own training.
    """
    transfer = all(numbers.values.get("area_gained") for numbers in summaries)
    plasticity = "area_gained" if transfer else "after_training"
    points = [
        (index, numbers.values.get(plasticity), numbers.values.get("forgetting"))
        for index, numbers in enumerate(summaries)
    ]
    known = [(index, x, lost) for index, x, lost in points if x and lost]
    if len(known) < 2:
        return None

    def paint(axes: Axes) -> None:
        for index, learned, lost in known:
            _point(axes, index, learned, lost)
        axes.margins(0.15)

    across = "area gained over baselines" if transfer else "score after own training"
    return draw("Stability against plasticity", paint, xlabel=across, ylabel="1 - forgetting")


def _point(axes: Axes, index: int, learned: Estimate, lost: Estimate) -> None:
    """A numbered point; few seeds as small ones, the intervals of more as a cross."""
    colour, kept = series(index).colour, 1 - lost.mean
    if spread_for(len(lost.values)) == "seeds":
        singles = 1 - np.array(lost.values)
        axes.plot(learned.values, singles, ".", color=colour, ms=4, mew=0, alpha=0.55)
    elif len(lost.values) > 1:
        axes.plot(learned.bounds(), (kept, kept), color=colour, lw=0.8)
        axes.plot((learned.mean,) * 2, 1 - np.array(lost.bounds()), color=colour, lw=0.8)
    axes.plot(learned.mean, kept, "o", color=colour)
    axes.annotate(str(index + 1), (learned.mean, kept), (5, 4), textcoords="offset points")


def draw(
    label: str, paint: Callable[[Axes], None], inches: tuple[float, float] = INCHES, **names: str
) -> str:
    """One figure, with a legend below if lines have names; screen readers read its label."""
    # The salt makes element ids unique within a page, and the same whenever it is written.
    with matplotlib.rc_context({**RC, "svg.hashsalt": label}):
        figure = Figure(figsize=inches, layout="constrained")
        axes = figure.subplots()
        paint(axes)
        axes.set(**names)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            legend = figure.legend(handles, labels, loc="outside lower center", ncols=3)
            legend.set_frame_on(False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return inline_svg(buffer.getvalue(), label)


def inline_svg(svg: str, label: str) -> str:
    """Remove what only a standalone file needs: header, metadata, namespaces, ids."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r' (xmlns(:\w+)?|version)="[^"]*"| id="[a-z]\w*_\d+"', "", svg)
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    return themed(svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1))


def _training_score(run: RunData, task: int | None) -> Line:
    """Steps [point] and score [point, seed]; a point is the mean over a few updates.

    It is nan where another `task` is trained.
    """
    steps, score = run.logged("score")
    episodes_at, episodes = run.logged("episodes")
    if np.array_equal(episodes_at, steps):  # an update in which no episode ended logs a score of 0
        score = np.where(episodes > 0, score, np.nan)
    if task is not None:
        visits = run.visits(task) if task < len(run.task_ends) else []
        own = [(steps > start) & (steps <= end) for start, end in visits]
        score = np.where(np.any(own, axis=0)[..., None], score, np.nan)
    if len(steps) == 0:
        return steps, score
    parts = np.array_split(np.arange(len(steps)), min(len(steps), MAX_POINTS))
    means = [known_mean(score[part]) for part in parts]  # of no episode it is nan: a gap
    return np.array([steps[part].mean() for part in parts]), np.array(means)

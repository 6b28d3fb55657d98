"""Plots as inline SVG. They contain no text from run folders; the page escapes that itself."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

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
    plain_looks,
    score_axis,
    shade_task,
    steps_axis,
    stripes,
    task_lines,
    thin,
    unit,
)
from brigade.report.read import RunData
from brigade.report.style import INK, LINE, series, themed
from brigade.report.summary import Summary

INCHES = (3.7, 2.2)  # small, so that labels stay readable on a phone
MAX_INTERVALS = 40  # error bars; more would hide the bars
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
}


def task_curve(runs: Sequence[RunData], task: int) -> str:
    """The score of one task over the whole run, with its own training shaded."""
    scale, steps = unit(runs)

    def paint(axes: Axes) -> None:
        task_lines(axes, runs, task, scale, plain_looks(len(runs)))

    return _draw(f"Score on task {task + 1} over the run", paint, steps, "score")


def measure_curve(runs: Sequence[RunData], title: str, curve: Callable[[RunData], Floats]) -> str:
    """A measure [eval, seed] over the run."""
    scale, steps = unit(runs)
    values = [curve(run) for run in runs]

    def paint(axes: Axes) -> None:
        stripes(axes, runs, scale)
        steps_axis(axes, runs, scale)
        score_axis(axes, runs, values)
        for index, run in enumerate(runs):
            keep = thin(run.steps)
            line(axes, series(index), run.steps[keep] / scale, values[index][keep])

    return _draw(f"{title} over the run", paint, steps, "score")


def training_curve(runs: Sequence[RunData], task: int | None = None) -> str | None:
    """The score of the training episodes, of all tasks or of one; None if nothing was logged."""
    scale, xlabel = unit(runs)
    logs = [_training_score(run, task) for run in runs]
    if not any(len(steps) for steps, _ in logs):
        return None

    def paint(axes: Axes) -> None:
        if task is None:
            stripes(axes, runs, scale)
        else:
            shade_task(axes, runs, task, scale)
        steps_axis(axes, runs, scale)
        score_axis(axes, runs, [score for _, score in logs])
        for index, (steps, score) in enumerate(logs):
            if len(steps):
                line(axes, series(index), steps / scale, score)

    of_task = "" if task is None else f" of task {task + 1}"
    label = f"Score of the training episodes{of_task} over the run"
    return _draw(label, paint, xlabel, "score")


def transfer_curve(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str | None:
    """The score of the task in training minus its single-task baseline's; None if unknown."""
    scale, xlabel = unit(runs)
    known = {
        index: gain_over_baseline(run)
        for index, (run, numbers) in enumerate(zip(runs, summaries, strict=True))
        if numbers.values.get("area_gained")
    }
    if not known:
        return None

    def paint(axes: Axes) -> None:
        stripes(axes, runs, scale)
        highest = max(0.1, *(np.nanmax(np.abs(gain)) for _, gain in known.values()))
        axes.set_ylim(-1.1 * highest, 1.1 * highest)
        steps_axis(axes, runs, scale)
        axes.axhline(0.0, color=LINE, lw=0.8, ls="--", zorder=0.5)
        for index, (steps, gain) in known.items():
            line(axes, series(index), steps / scale, gain)

    return _draw("Score of the task in training minus its baseline", paint, xlabel, "gain")


def gain_over_baseline(run: RunData) -> tuple[Floats, Floats]:
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


def dormant_curve(runs: Sequence[RunData]) -> str | None:
    """The share of dormant units; None if nothing was logged."""
    scale, xlabel = unit(runs)
    logs = [run.logged("dormant") for run in runs]
    if not any(len(steps) for steps, _ in logs):
        return None

    def paint(axes: Axes) -> None:
        stripes(axes, runs, scale)
        steps_axis(axes, runs, scale)
        axes.set_ylim(0, max(0.1, *(1.05 * share.max() for _, share in logs if share.size)))
        for index, (steps, share) in enumerate(logs):
            if len(steps):
                keep = thin(steps)
                line(axes, series(index), steps[keep] / scale, share[keep])

    return _draw("Share of dormant units over the run", paint, xlabel, "dormant")


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

    return _draw("Forgetting of every task", paint, "task", "forgetting")


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
    return _draw("Stability against plasticity", paint, across, "1 - forgetting")


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


def _draw(label: str, paint: Callable[[Axes], None], xlabel: str, ylabel: str) -> str:
    """One small figure; screen readers read its label."""
    # The salt makes element ids unique within a page, and the same whenever it is written.
    with matplotlib.rc_context({**RC, "svg.hashsalt": label}):
        figure = Figure(figsize=INCHES, layout="constrained")
        axes = figure.subplots()
        paint(axes)
        axes.set(xlabel=xlabel, ylabel=ylabel)
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


def _training_score(run: RunData, task: int | None) -> tuple[Floats, Floats]:
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

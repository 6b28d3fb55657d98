"""Plots as inline SVG. They contain no text from run folders; the page escapes that itself."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from brigade.metrics.result import Floats
from brigade.metrics.stats import mean_and_interval
from brigade.report.read import RunData
from brigade.report.style import INK, LINE, SHADE, series, themed
from brigade.report.summary import Estimate, Summary

INCHES = (3.7, 2.2)  # small, so that labels stay readable on a phone
MAX_INTERVALS = 40  # error bars; more would hide the bars
MAX_POINTS = 200  # per line; more are not visible and make the page large
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
    scale, unit = _unit(runs)

    def paint(axes: Axes) -> None:
        if _same_schedule(runs):
            for start, end in runs[0].visits(task):
                _shade(axes, start / scale, end / scale)
        for index, run in enumerate(runs):
            if task < len(run.task_ends):
                keep = _thin(run.steps, run.task_starts[task], run.task_ends[task])
                x, values = run.steps[keep] / scale, run.score[keep, task]
                _line(axes, index, x, values, len(runs) == 1)
        _score_axis(axes, runs, scale)

    return _draw(f"Score on task {task + 1} over the run", paint, unit, "score")


def measure_curve(runs: Sequence[RunData], title: str, curve: Callable[[RunData], Floats]) -> str:
    """A measure [eval, seed] over the run."""
    scale, unit = _unit(runs)
    values = [curve(run) for run in runs]

    def paint(axes: Axes) -> None:
        _stripes(axes, runs, scale)
        for index, run in enumerate(runs):
            keep = _thin(run.steps)
            _line(axes, index, run.steps[keep] / scale, values[index][keep], len(runs) == 1)
        _score_axis(axes, runs, scale, values)

    return _draw(f"{title} over the run", paint, unit, "score")


def training_curve(runs: Sequence[RunData]) -> str | None:
    """The score of the training episodes; None if nothing was logged."""
    scale, unit = _unit(runs)
    logs = [_training_score(run) for run in runs]
    if not any(len(steps) for steps, _ in logs):
        return None

    def paint(axes: Axes) -> None:
        _stripes(axes, runs, scale)
        for index, (steps, score) in enumerate(logs):
            if len(steps):
                _line(axes, index, steps / scale, score, len(runs) == 1)
        _score_axis(axes, runs, scale, [score for _, score in logs])

    return _draw("Score of the training episodes over the run", paint, unit, "score")


def transfer_curve(runs: Sequence[RunData], summaries: Sequence[Summary]) -> str | None:
    """The score of the task in training minus its single-task baseline's; None if unknown."""
    scale, unit = _unit(runs)
    known = [
        (index, run)
        for index, (run, numbers) in enumerate(zip(runs, summaries, strict=True))
        if numbers.values.get("area_gained")
    ]
    if not known:
        return None

    def paint(axes: Axes) -> None:
        _stripes(axes, runs, scale)
        highest = 0.1
        for index, run in known:
            steps, gain = gain_over_baseline(run)
            _line(axes, index, steps / scale, gain, len(runs) == 1)
            highest = max(highest, np.nanmax(np.abs(gain.mean(axis=1))))
        axes.axhline(0.0, color=LINE, lw=0.8, ls="--", zorder=0.5)
        axes.set_ylim(-1.2 * highest, 1.2 * highest)  # wide intervals of few seeds are clipped
        axes.set_xlim(0, max(run.task_ends[-1] for run in runs) / scale)

    return _draw("Score of the task in training minus its baseline", paint, unit, "gain")


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
    scale, unit = _unit(runs)
    logs = [run.logged("dormant") for run in runs]
    if not any(len(steps) for steps, _ in logs):
        return None

    def paint(axes: Axes) -> None:
        _stripes(axes, runs, scale)
        for index, (steps, share) in enumerate(logs):
            if len(steps):
                keep = _thin(steps)
                _line(axes, index, steps[keep] / scale, share[keep], len(runs) == 1)
        axes.set_xlim(0, max(run.task_ends[-1] for run in runs) / scale)
        axes.set_ylim(0, max(0.1, axes.get_ylim()[1]))

    return _draw("Share of dormant units over the run", paint, unit, "dormant")


def forgetting_bars(summaries: Sequence[Summary]) -> str | None:
    """Forgetting of every task; None if no task was evaluated after its training yet."""
    if not any(numbers.values.get("forgetting") for numbers in summaries):
        return None

    def paint(axes: Axes) -> None:
        width = 0.8 / len(summaries)
        room = len(summaries) * len(summaries[0].task_names) <= MAX_INTERVALS
        for index, numbers in enumerate(summaries):
            shift = (index - (len(summaries) - 1) / 2) * width
            for task, lost in enumerate(numbers.by_task.get("forgetting", ()), start=1):
                if lost:
                    _bar(axes, task + shift, width, lost, series(index)[0], room)
        tasks = max(len(numbers.task_names) for numbers in summaries) - 1
        axes.set_xlim(0.4, tasks + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_ylim(0, min(1.5, max(1.05, axes.get_ylim()[1])))  # wider intervals are clipped

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
            kept = 1 - lost.mean
            wide, high = _visible(learned.half_width), _visible(lost.half_width)
            colour = series(index)[0]
            axes.errorbar(learned.mean, kept, high, wide, "o", color=colour, elinewidth=0.8)
            axes.annotate(str(index + 1), (learned.mean, kept), (5, 4), textcoords="offset points")
        axes.margins(0.15)

    across = "area gained over baselines" if transfer else "score after own training"
    return _draw("Stability against plasticity", paint, across, "1 - forgetting")


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


def _line(axes: Axes, index: int, x: Floats, values: Floats, alone: bool) -> None:
    """The mean over seeds of `values` [x, seed] and its interval; if `alone`, also each seed."""
    colour, dash = series(index)
    mean, half = mean_and_interval(values, axis=1)
    if values.shape[1] > 1:
        axes.fill_between(
            x, mean - half, mean + half, color=colour, alpha=0.2 if alone else 0.12, lw=0
        )
        if alone:
            axes.plot(x, values, color=colour, lw=0.6, alpha=0.6)
    marker = "o" if len(x) == 1 else None  # a line with one point is not visible
    axes.plot(x, mean, color=colour, lw=1.8, ls=dash, marker=marker, ms=4)


def _bar(axes: Axes, x: float, width: float, lost: Estimate, colour: str, interval: bool) -> None:
    axes.bar(x, lost.mean, 0.9 * width, color=colour)
    if interval and not np.isnan(lost.half_width):
        axes.errorbar(x, lost.mean, lost.half_width, color=INK, elinewidth=0.9)


def _visible(half_width: float) -> float | None:
    return None if np.isnan(half_width) else half_width


def _score_axis(
    axes: Axes, runs: Sequence[RunData], scale: float, more: Sequence[Floats] = ()
) -> None:
    """The same limits on every plot, for comparison; a dashed line marks a score of 1."""
    seen = np.concatenate([values.ravel() for values in [*more, *(r.score for r in runs)]])
    seen = seen[np.isfinite(seen)]
    low, high = (min(0.0, seen.min()), seen.max()) if seen.size else (0.0, 1.0)
    axes.set_ylim(1.1 * low, 1.1 * high + 0.1)
    axes.set_xlim(0, max(run.task_ends[-1] for run in runs) / scale)
    if high > 0.7:
        axes.axhline(1.0, color=LINE, lw=0.8, ls="--", zorder=0.5)


def _stripes(axes: Axes, runs: Sequence[RunData], scale: float) -> None:
    """Shade the training of every other task, if all runs have the same schedule."""
    if _same_schedule(runs):
        visits = [visit for task in range(len(runs[0].task_ends)) for visit in runs[0].visits(task)]
        for start, end in sorted(visits)[::2]:
            _shade(axes, start / scale, end / scale)


def _shade(axes: Axes, start: float, end: float) -> None:
    axes.axvspan(start, end, color=SHADE, lw=0, zorder=0)


def _same_schedule(runs: Sequence[RunData]) -> bool:
    first = runs[0]
    return all(
        np.array_equal(run.task_ends, first.task_ends) and run.repetitions == first.repetitions
        for run in runs
    )


def _unit(runs: Sequence[RunData]) -> tuple[float, str]:
    longest = max(run.task_ends[-1] for run in runs)
    if longest >= 1e6:
        return 1e6, "million steps"
    return (1e3, "thousand steps") if longest >= 1e4 else (1.0, "steps")


def _thin(steps: Floats, start: float = 0.0, end: float = 0.0) -> npt.NDArray[np.int64]:
    """Which evaluations to plot: at most MAX_POINTS, and all those in [start, end]."""
    some = np.linspace(0, len(steps) - 1, min(len(steps), MAX_POINTS)).astype(np.int64)
    first, last = np.searchsorted(steps, [start, end])
    return np.union1d(some, np.arange(first, min(last + 2, len(steps))))  # and the one after it


def _training_score(run: RunData) -> tuple[Floats, Floats]:
    """Steps [point] and score [point, seed]; a point is the mean over a few updates."""
    steps, score = run.logged("score")
    episodes_at, episodes = run.logged("episodes")
    if np.array_equal(episodes_at, steps):  # an update in which no episode ended logs a score of 0
        score = np.where(episodes > 0, score, np.nan)
    if len(steps) == 0:
        return steps, score
    parts = np.array_split(np.arange(len(steps)), min(len(steps), MAX_POINTS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no episode is nan: a gap
        means = [np.nanmean(score[part], axis=0) for part in parts]
    return np.array([steps[part].mean() for part in parts]), np.array(means)

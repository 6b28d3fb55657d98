"""What plots of runs consist of: lines of seeds, bars, shading and axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from brigade.metrics.result import Floats
from brigade.metrics.stats import mean_and_interval
from brigade.report.estimate import Estimate, Spread, spread_for
from brigade.report.read import RunData
from brigade.report.style import INK, LINE, SHADE, Look

MAX_POINTS = 200  # per line; more are not visible and make the file large


def line(axes: Axes, look: Look, x: Floats, values: Floats, spread: Spread = "auto") -> None:
    """The mean over seeds of `values` [x, seed]; few seeds as thin lines, more as a band.

    Limits of the axes have to be set before: the band is cut off there.
    """
    shown = spread_for(values.shape[1], spread)
    mean = values.mean(axis=1)
    if shown == "seeds":
        axes.plot(x, values, color=look.colour, lw=look.fine, alpha=0.55)
    elif shown != "none":
        low, high = np.clip(mean + _half_widths(values, shown) * [[-1], [1]], *axes.get_ylim())
        axes.fill_between(x, low, high, color=look.colour, alpha=0.18, lw=0)
    (drawn,) = axes.plot(x, mean, color=look.colour, lw=look.width, ls=look.dash, label=look.name)
    alone = len(x) == 1  # a line with one point is not visible
    drawn.set(marker="o" if alone else look.marker, ms=4, mew=0)
    drawn.set_markevery([0] if alone else _few_places(len(x), look.shift))


def _half_widths(values: Floats, shown: Spread) -> Floats:
    if shown == "ci":
        return mean_and_interval(values, axis=1).half_width
    std = np.asarray(values.std(axis=1, ddof=1))
    return std if shown == "std" else std / np.sqrt(values.shape[1])


def _few_places(points: int, shift: int) -> list[int]:
    """Where markers go: about five, at other places for every run."""
    step = max(1, points // 5)
    return list(range(shift * step // 4 % step, points, step))


def bar(axes: Axes, x: float, width: float, value: Estimate, colour: str, room: bool) -> None:
    """A bar of the mean; with enough room, also few seeds as dots or the interval of more."""
    axes.bar(x, value.mean, 0.9 * width, color=colour)
    if room:
        spread_marks(axes, x, value, INK)


def spread_marks(
    axes: Axes, x: float, value: Estimate, colour: str, spread: Spread = "auto"
) -> None:
    """Few seeds as dots, the interval of more as a line that ends at the axis."""
    shown = spread_for(len(value.values), spread)
    if shown == "seeds":
        axes.plot([x] * len(value.values), value.values, ".", color=colour, ms=3, mew=0, alpha=0.75)
    elif shown != "none":
        axes.plot([x, x], np.clip(value.bounds(spread), *axes.get_ylim()), color=colour, lw=0.9)


def are_raw(runs: Sequence[RunData]) -> bool:
    """Whether scores of different tasks cannot share an axis."""
    return any(run.has_raw_scores for run in runs)


def axis_note(runs: Sequence[RunData]) -> str:
    """What `score_axis` draws, in words."""
    if are_raw(runs):
        return "Scores are not normalised, so every task has an axis of its own."
    return "Dashed: a score of 1, if in range."


def score_axis(
    axes: Axes, runs: Sequence[RunData], drawn: Sequence[Floats], alike: bool = True
) -> None:
    """An axis for the scores drawn, whatever their intervals; a dashed line marks a score of 1.

    `alike`: with the same limits on every plot, for comparison. Raw scores have neither.
    """
    raw = are_raw(runs)
    fitted = [*drawn, *(run.score for run in runs)] if alike and not raw else drawn
    seen = np.concatenate([values.ravel() for values in fitted])
    seen = seen[np.isfinite(seen)]
    low, high = (seen.min(), seen.max()) if seen.size else (0.0, 1.0)
    if raw:
        margin = 0.05 * (high - low) or 1.0
        axes.set_ylim(low - margin, high + margin)
    else:
        axes.set_ylim(1.1 * min(0.0, low), 1.1 * high + 0.1)
        axes.axhline(1.0, color=LINE, lw=0.8, ls="--", zorder=0.5)


def steps_axis(axes: Axes, runs: Sequence[RunData], scale: float) -> None:
    """From the first to the last step of the longest run."""
    axes.set_xlim(0, max(run.task_ends[-1] for run in runs) / scale)


def shade(axes: Axes, runs: Sequence[RunData], scale: float, task: int | None = None) -> None:
    """Shade the training of a task, or of every other one, if all runs have the same schedule."""
    if not same_schedule(runs):
        return
    if task is None:
        tasks = range(len(runs[0].task_ends))
        visits = sorted(visit for each in tasks for visit in runs[0].visits(each))[::2]
    else:
        visits = runs[0].visits(task)
    for start, end in visits:
        axes.axvspan(start / scale, end / scale, color=SHADE, lw=0, zorder=0)


def same_schedule(runs: Sequence[RunData]) -> bool:
    """Whether all runs train as many steps per task."""
    first = runs[0]
    return all(
        np.array_equal(run.task_ends, first.task_ends) and run.repetitions == first.repetitions
        for run in runs
    )


def task_lines(
    axes: Axes,
    runs: Sequence[RunData],
    task: int,
    scale: float,
    looks: Sequence[Look],
    spread: Spread = "auto",
) -> None:
    """The score of one task over the whole run, with its own training shaded."""
    shade(axes, runs, scale, task)
    steps_axis(axes, runs, scale)
    score_axis(axes, runs, [run.score[:, task : task + 1] for run in runs])
    for run, look in zip(runs, looks, strict=True):
        if task < len(run.task_ends):
            keep = thin(run.steps, run.task_starts[task], run.task_ends[task])
            line(axes, look, run.steps[keep] / scale, run.score[keep, task], spread)


def unit(runs: Sequence[RunData]) -> tuple[float, str]:
    """What the axis of steps counts."""
    longest = max(run.task_ends[-1] for run in runs)
    if longest >= 1e6:
        return 1e6, "million steps"
    return (1e3, "thousand steps") if longest >= 1e4 else (1.0, "steps")


def thin(steps: Floats, start: float = 0.0, end: float = 0.0) -> npt.NDArray[np.int64]:
    """Which evaluations to plot: at most MAX_POINTS, and all those in [start, end]."""
    some = np.linspace(0, len(steps) - 1, min(len(steps), MAX_POINTS)).astype(np.int64)
    first, last = np.searchsorted(steps, [start, end])
    return np.union1d(some, np.arange(first, min(last + 2, len(steps))))  # and the one after it

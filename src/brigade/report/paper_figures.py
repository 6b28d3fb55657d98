"""Figures for a paper: PDF, SVG and PNG that stand alone, for one and for two columns."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from brigade.metrics.result import Floats
from brigade.report.estimate import SPREADS, Spread, spread_for
from brigade.report.measures import last_in_training
from brigade.report.paint import (
    are_raw,
    axis_note,
    line,
    same_schedule,
    score_axis,
    shade,
    spread_marks,
    steps_axis,
    task_lines,
    thin,
    unit,
)
from brigade.report.read import RunData
from brigade.report.style import AXES, INK, Look, printed_series
from brigade.report.summary import mean_over_seeds
from brigade.report.table import printable
from brigade.report.tables import labels, shared_task_names

WIDTHS = {"one_column": 3.25, "two_columns": 6.75}  # inches
FORMATS = ("pdf", "svg", "png")
MAX_PANELS = 20  # tasks; of more, evenly spaced ones are shown
LETTER = 0.068  # inches: the width of a letter
TALLEST = 8.0  # inches of panels: a page has about nine
CELL = 0.27  # inches: numbers are written into cells that are at least so wide
COLUMN_COLOURS = " Colours: from the lowest to the highest score of every task."
RC = AXES | {
    "pdf.fonttype": 42,  # TrueType: conferences refuse Type 3
    "svg.fonttype": "path",
    "svg.hashsalt": "brigade",  # the same bytes whenever it is written
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
}
# A PDF may hold a date, which would change its bytes from time to time.
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}


@dataclass(frozen=True)
class PaperFigure:
    """One figure in two widths."""

    name: str  # of its files
    caption: str
    draw: Callable[[Figure, float], None]  # on an empty figure of this width

    def files(self) -> dict[str, bytes]:
        """The content of all files by name."""
        return {
            f"{self.name}_{place}.{kind}": content
            for place, width in WIDTHS.items()
            for kind, content in self._drawn(width).items()
        }

    def _drawn(self, width: float) -> dict[str, bytes]:
        found = {}
        with matplotlib.rc_context(RC):
            figure = Figure(figsize=(width, 2.0), layout="constrained")
            self.draw(figure, width)
            for text in figure.findobj(Text):
                text.set_parse_math(False)  # names may contain $
            for kind in FORMATS:
                buffer = io.BytesIO()
                figure.savefig(buffer, format=kind, dpi=300, metadata=METADATA[kind])
                found[kind] = buffer.getvalue()
        return found


@dataclass(frozen=True)
class Shown:
    """What all figures show, and how."""

    runs: Sequence[RunData]
    looks: Sequence[Look]  # of the runs
    spread: Spread
    tasks: Sequence[int]  # that get a panel


def paper_figures(runs: Sequence[RunData], setup: str, spread: Spread) -> list[PaperFigure]:
    """The score over the stream, of every task over training and at the end, and the matrices."""
    fine = 0.6 if len(runs) <= 3 else 0.3
    names = map(printable, labels(runs))
    looks = [printed_series(index, name, fine) for index, name in enumerate(names)]
    alone = max(len(run.seeds) for run in runs) == 1
    meaning = "Line: one seed." if alone else "Line: mean over seeds."
    meaning += _beside(runs, spread, "Thin lines", "Band")
    marks = "Large marks: mean over seeds." + _beside(runs, spread, "Dots", "Vertical line")
    shading = " Shaded: every other task." if same_schedule(runs) else ""
    shown = Shown(runs, looks, spread, chosen_tasks(runs))
    some = len(shown.tasks) < max(len(run.task_names) for run in runs)
    left_out = f" {len(shown.tasks)} tasks, evenly spaced, are shown." if some else ""
    return [
        PaperFigure(
            "score",
            f"Mean score over all tasks during training. {meaning}{shading} {setup}",
            partial(_score, shown),
        ),
        PaperFigure(
            "tasks",
            f"Score of every task during training.{left_out} {meaning} Shaded: the task's own "
            f"training. {axis_note(runs)} {setup}",
            partial(_tasks, shown),
        ),
        PaperFigure(
            "final",
            f"Score of every task at the last evaluation.{left_out if are_raw(runs) else ''} "
            f"{marks} {axis_note(runs)} {setup}",
            partial(_final, shown),
        ),
        PaperFigure(
            "matrix",
            "Score of every task (columns) after the training of each task (rows), mean over "
            "seeds. Below the diagonal: what was kept; above: tasks not trained yet."
            f"{COLUMN_COLOURS if are_raw(runs) else ''} {setup}",
            partial(_matrices, runs),
        ),
    ]


def _beside(runs: Sequence[RunData], spread: Spread, seeds: str, interval: str) -> str:
    """What `seeds` and an `interval`, as they are drawn, show beside means."""
    shown = {spread_for(len(run.seeds), spread) for run in runs}
    bands = sorted(f" {interval}: ± {SPREADS[each]}." for each in shown & {"ci", "std", "se"})
    return "".join([f" {seeds}: single seeds." if "seeds" in shown else "", *bands])


# --- Score over the stream ---


def _score(shown: Shown, figure: Figure, width: float) -> None:
    figure.set_figheight(2.1)
    runs, (scale, steps) = shown.runs, unit(shown.runs)
    axes = figure.subplots()
    means = [run.score.mean(axis=1) for run in runs]
    shade(axes, runs, scale)
    steps_axis(axes, runs, scale)
    score_axis(axes, runs, means, alike=False)
    for run, look, values in zip(runs, shown.looks, means, strict=True):
        keep = thin(run.steps)
        line(axes, look, run.steps[keep] / scale, values[keep], shown.spread)
    axes.set(xlabel=steps, ylabel="mean score")
    _legend(figure, width, shown.looks)


# --- Every task over training ---


def chosen_tasks(runs: Sequence[RunData]) -> list[int]:
    """The tasks that get a panel: all, or evenly spaced ones of many."""
    number = max(len(run.task_names) for run in runs)
    places = np.linspace(0, number - 1, min(number, MAX_PANELS))
    return [int(place) for place in places.round()]


def _tasks(shown: Shown, figure: Figure, width: float) -> None:
    scale, steps = unit(shown.runs)
    for axes, task in _panels(shown, figure, width):
        task_lines(axes, shown.runs, task, scale, shown.looks, shown.spread)
    figure.supxlabel(steps, fontsize=8)
    figure.supylabel("score", fontsize=8)
    _legend(figure, width, shown.looks)


def _panels(shown: Shown, figure: Figure, width: float) -> list[tuple[Axes, int]]:
    """A panel per task with its name, with a score axis of its own if scores are raw."""
    runs, tasks = shown.runs, shown.tasks
    across = _balanced(len(tasks), 2 if width < 5 else 4)
    down = -(-len(tasks) // across)
    figure.set_figheight(0.6 + min(1.15, TALLEST / down) * down)
    grid = figure.subplots(down, across, sharex=True, sharey=not are_raw(runs), squeeze=False)
    names = shared_task_names(runs)
    for axes, task in zip(grid.flat, tasks, strict=False):
        name = printable(names[task]) or f"task {task + 1}"
        axes.set_title(_wrap(name, (width - 0.6) / across), pad=3)
    for place in range(len(tasks), grid.size):
        grid.flat[place].set_visible(False)
        grid.flat[place - across].tick_params(labelbottom=True)  # nothing below has labels
    return list(zip(grid.flat, tasks, strict=False))


def _wrap(name: str, inches: float) -> str:
    """A title of at most two lines that fits a panel."""
    return "\n".join(textwrap.wrap(name, max(8, int(inches / LETTER)))[:2])


# --- Every task at the end ---


def _final(shown: Shown, figure: Figure, width: float) -> None:
    if are_raw(shown.runs):
        for axes, task in _panels(shown, figure, width):
            _final_marks(axes, shown, [task])
            axes.set_xticks([])
        figure.supylabel("score at the end", fontsize=8)
    else:
        figure.set_figheight(2.1)
        axes = figure.subplots()
        _final_marks(axes, shown, range(max(len(run.task_names) for run in shown.runs)))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set(xlabel="task", ylabel="score at the end")
    _legend(figure, width, [look._replace(dash="none") for look in shown.looks])


def _final_marks(axes: Axes, shown: Shown, tasks: Sequence[int]) -> None:
    """Every run's mark in the place of every task."""
    scores = [run.score[-1, tasks[0] : tasks[-1] + 1] for run in shown.runs]
    score_axis(axes, shown.runs, scores, alike=False)
    axes.set_xlim(0.4, len(tasks) + 0.6)
    step = min(0.22, 0.8 / len(scores))
    for index, (score, look) in enumerate(zip(scores, shown.looks, strict=True)):
        shift = 1 + (index - (len(scores) - 1) / 2) * step
        for place, values in enumerate(score):
            found = mean_over_seeds(values)
            spread_marks(axes, place + shift, found, look.colour, shown.spread)
            axes.plot(place + shift, found.mean, look.marker, color=look.colour, ms=4, mew=0)


# --- Task x time ---


def score_matrix(run: RunData) -> Floats:
    """[trained, task]: mean scores after the training of every task; nan if it has not ended."""
    matrix = np.full((len(run.task_names), len(run.task_names)), np.nan)
    for row, (last, end) in enumerate(zip(last_in_training(run), run.task_ends, strict=True)):
        if last is not None and run.steps[-1] >= end:
            matrix[row] = run.score[last].mean(axis=-1)
    return matrix


def _matrices(runs: Sequence[RunData], figure: Figure, width: float) -> None:
    matrices = [score_matrix(run) for run in runs]
    across = _balanced(len(runs), 2 if width < 5 else 4)
    down = -(-len(runs) // across)
    side = min((width - 0.9) / across - 0.25, 2.2)
    figure.set_figheight(0.3 + down * (side + 0.35))
    grid = figure.subplots(down, across, squeeze=False)
    shown = _relative(matrices) if are_raw(runs) else matrices
    known = np.concatenate([m[np.isfinite(m)] for m in shown])
    low, high = (min(0.0, known.min()), max(known.max(), 1e-6)) if known.size else (0.0, 1.0)
    names = map(printable, labels(runs))
    for axes, matrix, colours, name in zip(grid.flat, matrices, shown, names, strict=False):
        _heat_map(axes, matrix, colours, low, high, numbers=side / len(matrix) >= CELL)
        axes.set_title(_wrap(name, side), pad=3)
    for axes in grid.flat[len(runs) :]:
        axes.set_visible(False)
    figure.supxlabel("score on task", fontsize=8)
    figure.supylabel("after training on task", fontsize=8)
    bar = figure.colorbar(grid.flat[0].images[0], ax=grid, shrink=0.85, pad=0.02, aspect=18)
    bar.outline.set_visible(False)
    bar.set_label("score")
    if are_raw(runs):
        bar.set_ticks([0.0, 1.0], labels=["lowest", "highest"])


def _relative(matrices: Sequence[Floats]) -> list[Floats]:
    """Scores from 0, the lowest of their task in any run, to 1, the highest."""
    most = max(map(len, matrices))
    columns = [np.concatenate([m[:, t] for m in matrices if t < len(m)]) for t in range(most)]
    known = [column[np.isfinite(column)] for column in columns]
    low, high = np.array([(k.min(), k.max()) if k.size else (0.0, 1.0) for k in known]).T
    span = np.where(high > low, high - low, 1.0)
    return [(m - low[: len(m)]) / span[: len(m)] for m in matrices]


def _heat_map(
    axes: Axes, matrix: Floats, shown: Floats, low: float, high: float, numbers: bool
) -> None:
    """The scores of a matrix, in colours that show them or their place in their task's range."""
    colours = matplotlib.colormaps["viridis"].with_extremes(bad="0.88")
    size = len(matrix)
    edges = (0.5, size + 0.5, size + 0.5, 0.5)  # tasks count from 1
    axes.imshow(shown, cmap=colours, vmin=low, vmax=high, extent=edges, aspect="equal")
    for (row, column), value in np.ndenumerate(matrix):
        if numbers and np.isfinite(value):
            ink = "black" if shown[row, column] - low > 0.6 * (high - low) else "white"
            text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
            place = (column + 1, row + 1)
            axes.text(*place, text, ha="center", va="center", color=ink, fontsize=6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=min(size, 5), min_n_ticks=1))
    axes.tick_params(length=2)
    axes.spines[:].set_visible(False)


# --- Layout ---


def _balanced(number: int, most: int) -> int:
    """How many to put side by side, at most `most`, so that rows are about equally long."""
    return -(-number // -(-number // most))


def _legend(figure: Figure, width: float, looks: Sequence[Look]) -> None:
    """Above the axes, in as many columns as fit; a single run needs none."""
    if len(looks) == 1:
        return
    handles = [
        Line2D([], [], color=e.colour, ls=e.dash, marker=e.marker, ms=4, mew=0, lw=e.width)
        for e in looks
    ]
    names = [look.name for look in looks]
    inches = [LETTER * len(name) + 0.5 for name in names]
    most = len(names) if sum(inches) <= width else max(1, int(width / max(inches)))
    columns = _balanced(len(names), most)
    more_rows = -(-len(names) // columns) - 1
    figure.set_figheight(figure.get_figheight() + 0.17 * more_rows)
    legend = figure.legend(
        handles, names, loc="outside upper center", ncols=columns, columnspacing=1.0
    )
    legend.set_frame_on(False)

"""The score of a sweep's runs: against one setting, as a map of two, or as a list for more."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brigade.launch.sweep_table import Outcome
from brigade.metrics.result import Floats
from brigade.report.estimate import Estimate, spread_for
from brigade.report.measures import Measure
from brigade.report.style import INK, LINE, SERIES
from brigade.runs.folder import write_atomically

ENDINGS = ("png", "svg", "pdf")
LOG_SPAN = 50.0  # values that span more are shown on a logarithmic axis
COLOUR = SERIES[0][0]
RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # values may contain $
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,  # fonts that editors and publishers can read
    "svg.fonttype": "path",  # looks the same everywhere
    "svg.hashsalt": "sweep",
}


def write_figure(outcome: Outcome, folder: Path) -> list[Path]:
    """Write figure.png, figure.svg and figure.pdf; nothing if no run has a score."""
    if not outcome.measures:
        return []
    name, measure = next(iter(outcome.measures.items()))
    with matplotlib.rc_context(RC):
        figure = draw(outcome, name, measure)
        paths = [folder / f"figure.{ending}" for ending in ENDINGS]
        for path, ending in zip(paths, ENDINGS, strict=True):
            buffer = io.BytesIO()
            stamp = {
                "png": {"Software": None},
                "svg": {"Date": None},
                "pdf": {"CreationDate": None},
            }
            figure.savefig(buffer, format=ending, dpi=200, metadata=stamp[ending])
            write_atomically(path, buffer.getvalue())
    return paths


def draw(outcome: Outcome, name: str, measure: Measure) -> Figure:
    """The figure of one measure."""
    settings = len(outcome.over)
    if settings == 1:
        figure = Figure(figsize=(3.6, 2.6), layout="constrained")
        draw_line(figure.subplots(), outcome, name, measure)
    elif settings == 2:
        across, down = (len(each.values) for each in reversed(outcome.over))
        size = (2.0 + 0.62 * max(across, 3), 1.2 + 0.42 * max(down, 3))
        figure = Figure(figsize=size, layout="constrained")
        draw_map(figure, outcome, name, measure)
    else:
        size = (5.0, 0.9 + 0.22 * len(outcome.rows))
        figure = Figure(figsize=size, layout="constrained")
        draw_list(figure.subplots(), outcome, name, measure)
    return figure


def draw_line(axes: Axes, outcome: Outcome, name: str, measure: Measure) -> None:
    """The measure against the values of one setting; values that are not numbers get no line."""
    (over,) = outcome.over
    numbers = as_numbers(over.values)
    x = np.arange(len(over.values), dtype=np.float64) if numbers is None else numbers
    found = [row.estimate(name) for row in outcome.rows]
    order = np.argsort(x)
    means = np.array([each.mean for each in found])
    known = [index for index in order if np.isfinite(means[index])]
    axes.plot(x[known], means[known], "o" if numbers is None else "o-", color=COLOUR, lw=1.6, ms=5)
    for index in known:
        spread(axes, x[index], found[index], vertical=True)
    if numbers is None:
        axes.set_xticks(x, over.values)
        axes.set_xlim(-0.5, len(x) - 0.5)
        slant(axes, over.values)
    elif is_wide(numbers):
        axes.set_xscale("log")
        axes.set_xticks(x[order], [over.values[index] for index in order])
        axes.minorticks_off()
    axes.set(xlabel=over.setting, ylabel=measure.title)
    axes.margins(y=0.12)


def draw_map(figure: Figure, outcome: Outcome, name: str, measure: Measure) -> None:
    """The mean for every pair of values, as a heat map with numbers."""
    axes = figure.subplots()
    down, across = outcome.over
    means = np.array([row.estimate(name).mean for row in outcome.rows])
    table = means.reshape(len(down.values), len(across.values))
    low, high = (np.nanmin(table), np.nanmax(table)) if np.isfinite(table).any() else (0.0, 1.0)
    image = axes.imshow(np.ma.masked_invalid(table), cmap="cividis", aspect="auto")
    image.set_clim(low, high if high > low else low + 1e-9)
    axes.set_xticks(range(len(across.values)), across.values)
    axes.set_yticks(range(len(down.values)), down.values)
    slant(axes, across.values)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for (row, column), mean in np.ndenumerate(table):
        text = "-" if np.isnan(mean) else f"{mean:.{measure.decimals}f}"
        dark = np.isfinite(mean) and mean < (low + high) / 2
        axes.text(column, row, text, ha="center", va="center", color="white" if dark else "black")
    axes.set(xlabel=across.setting, ylabel=down.setting)
    bar = figure.colorbar(image, ax=axes, label=measure.title)
    bar.outline.set_visible(False)


def draw_list(axes: Axes, outcome: Outcome, name: str, measure: Measure) -> None:
    """One line per run, the highest first."""
    rows = sorted(outcome.rows, key=lambda row: np.nan_to_num(row.estimate(name).mean, nan=-np.inf))
    for place, row in enumerate(rows):
        found = row.estimate(name)
        if found.values:
            axes.plot(found.mean, place, "o", color=COLOUR, ms=5)
            spread(axes, float(place), found, vertical=False)
    axes.set_yticks(range(len(rows)), [", ".join(row.values) for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", color=LINE, alpha=0.25, lw=0.6)
    axes.set(xlabel=measure.title, ylabel=",\n".join(each.setting for each in outcome.over))


def spread(axes: Axes, place: float, found: Estimate, vertical: bool) -> None:
    """Single seeds if there are few, else the 95 % interval of the mean."""
    shown = spread_for(len(found.values))
    if shown == "seeds":
        points = (np.full(len(found.values), place), found.values)
        axes.plot(
            *(points if vertical else points[::-1]), "o", color=COLOUR, ms=3, alpha=0.45, mew=0
        )
    elif shown == "ci":
        mean, half = found.mean, found.half_width
        at, bars = ((place, mean), (half, None)) if vertical else ((mean, place), (None, half))
        axes.errorbar(*at, *bars, color=COLOUR, elinewidth=1.0, capsize=2)


def as_numbers(values: Sequence[str]) -> Floats | None:
    """The values as finite numbers; None if one is something else."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def is_wide(numbers: Floats) -> bool:
    """Whether the numbers need a logarithmic axis."""
    return bool(numbers.min() > 0 and numbers.max() / numbers.min() >= LOG_SPAN)


def slant(axes: Axes, values: Sequence[str]) -> None:
    """Slant labels that would run into each other."""
    if sum(map(len, values)) > 28:
        axes.set_xticks(axes.get_xticks(), values, rotation=30, ha="right", rotation_mode="anchor")

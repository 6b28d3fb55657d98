"""Plots of a ZSC-Eval study as inline SVG, in the colours of the page's theme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from brigade.metrics.result import Floats
from brigade.metrics.zsc_eval import DiversityBySize, diversity_by_size
from brigade.report.curves import draw
from brigade.report.style import INK, LINE, series
from brigade.report.zsc_candidates import Behaviour
from brigade.report.zsc_results import Result

Mask: TypeAlias = npt.NDArray[np.bool_]

INCHES = (3.7, 3.0)
TOP = 1.2  # in the heat map, larger ratios have the colour of this one
GAP = 0.35  # cells between final and half-skilled partners
CELL = (0.34, 0.62)  # inches: the narrowest and the widest cell
PIXELS_PER_INCH = 86  # of the heat map: its text is then as large as that of other plots
MAX_SIZE = 15  # partners, in the comparison of BR-Div and P-Div
WIDE_RANGE = 30.0  # largest over smallest determinant; above it the scale is logarithmic
MAX_NAME = 14  # characters
PLOT = (200.0, 130.0)  # points: about the size of a map within its axes
# Where a label may be, in points from its mark: around it, or around it and further away.
AROUND = np.outer([9, 15], np.exp(2j * np.pi * np.arange(12) / 12)).ravel()


@dataclass(frozen=True)
class Marks:
    """One mark per algorithm, each in its row; nan is left out."""

    name: str
    values: Sequence[float]
    marker: str
    colour: int  # of the series
    filled: bool = True
    intervals: Sequence[tuple[float, float]] = ()  # low, high
    shift: float = 0.0  # rows, so that marks do not cover each other


@dataclass(frozen=True)
class Column:
    """A partner in the heat map."""

    name: str
    half_skilled: bool
    best: float  # return of its best response


# --- BR-Prox ------------------------------------------------------------------------------------


def proximity_plots(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Titles and plots of BR-Prox: with all partners, by their skill, and by the ego's seat."""
    names = [result.title for result in results]
    published = [np.nan if r.published is None else r.published for r in results]
    intervals = [r.table.interval for r in results]
    overall = [Marks("this study", [r.table.value for r in results], "o", 0, intervals=intervals)]
    if not np.isnan(published).all():
        overall.append(Marks("published", published, "D", 1, filled=False))
    skills = [
        Marks("experts", [r.expert for r in results], "^", 0, shift=-0.12),
        Marks("moderates", [r.moderate for r in results], "v", 1, shift=0.12),
    ]
    seats = [
        Marks("seat 0", [float(r.table.per_seat[0]) for r in results], "o", 0, shift=-0.12),
        Marks("seat 1", [float(r.table.per_seat[1]) for r in results], "s", 1, shift=0.12),
    ]
    yield "With all partners", dots("BR-Prox with all partners", names, overall)
    yield "By the partners' skill", dots("BR-Prox by the skill of partners", names, skills)
    yield "By the ego's seat", dots("BR-Prox by the seat of the ego", names, seats)


def dots(label: str, names: Sequence[str], groups: Sequence[Marks]) -> str:
    """BR-Prox of every algorithm, one row each."""

    def paint(axes: Axes) -> None:
        axes.axvline(1.0, color=LINE, lw=0.8, ls="--", zorder=0.5)
        for marks in groups:
            _paint_marks(axes, marks)
        _name_ticks(axes.yaxis, range(len(names)), names)
        axes.tick_params(axis="y", length=0)
        axes.set(ylim=(len(names) - 0.4, -0.6), xlabel="BR-Prox")
        axes.set_xlim(min(0.0, axes.get_xlim()[0]), max(1.05, axes.get_xlim()[1]))

    return draw(label, paint, (INCHES[0], 1.1 + 0.27 * len(names)))


def _paint_marks(axes: Axes, marks: Marks) -> None:
    rows = np.arange(len(marks.values)) + marks.shift
    colour = series(marks.colour)[0]
    for row, (low, high) in zip(rows, marks.intervals, strict=False):
        axes.plot([low, high], [row, row], color=colour, lw=1.6)
    (line,) = axes.plot(marks.values, rows, marks.marker, color=colour, ms=5.5, label=marks.name)
    line.set_markerfacecolor(colour if marks.filled else "none")


def heat_map(
    label: str, names: Sequence[str], columns: Sequence[Column], ratios: Floats
) -> tuple[str, int]:
    """Mean ratios [algorithm, partner], and how many pixels wide the plot should be."""
    width = float(np.clip(10.4 / len(columns), *CELL))
    inches = (1.7 + width * len(columns), 1.3 + 0.3 * len(names))
    places = [place + GAP * column.half_skilled for place, column in enumerate(columns)]

    def paint(axes: Axes) -> None:
        colours = _colours()
        for (row, column), ratio in np.ndenumerate(ratios):
            _paint_cell(axes, places[column], row, float(ratio), colours)
        for place, partner in zip(places, columns, strict=True):
            _write(axes, place, len(names), f"{partner.best:.0f}", INK)
        _group_headings(axes, places, columns)
        _name_ticks(axes.xaxis, places, [partner.name for partner in columns])
        _name_ticks(axes.yaxis, range(len(names) + 1), [*names, "BR return"])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set(xlim=(-0.6, places[-1] + 0.6), ylim=(len(names) + 0.5, -0.5), xlabel="partner")
        bar = axes.figure.colorbar(colours, ax=axes, extend="max", pad=0.01, aspect=14)
        bar.outline.set_visible(False)
        bar.set_label("mean ratio")

    return draw(label, paint, inches), round(inches[0] * PIXELS_PER_INCH)


def _colours() -> ScalarMappable:
    """Viridis in steps of 0.1: colour-blind safe, and dark for low ratios."""
    steps = round(10 * TOP)
    return ScalarMappable(Normalize(0.0, TOP), matplotlib.colormaps["viridis"].resampled(steps))


def _paint_cell(axes: Axes, x: float, row: int, ratio: float, colours: ScalarMappable) -> None:
    if np.isnan(ratio):
        _write(axes, x, row, "-", INK)
        return
    colour = colours.to_rgba(np.array([ratio]))[0]
    axes.add_patch(Rectangle((x - 0.47, row - 0.45), 0.94, 0.9, color=colour, lw=0))
    light = colour[:3] @ (0.2126, 0.7152, 0.0722) > 0.45
    _write(axes, x, row, f"{ratio:.2f}", "black" if light else "white")


def _write(axes: Axes, x: float, row: int, text: str, ink: str) -> None:
    axes.text(x, row, text, ha="center", va="center_baseline", color=ink, fontsize=7.5)


def _group_headings(axes: Axes, places: Sequence[float], columns: Sequence[Column]) -> None:
    for half_skilled, text in ((False, "final"), (True, "half-skilled")):
        mine = [p for p, c in zip(places, columns, strict=True) if c.half_skilled == half_skilled]
        if mine:
            axes.text((mine[0] + mine[-1]) / 2, -0.65, text, ha="center")


# --- Choice of partners -------------------------------------------------------------------------


def choice_plots(
    behaviour: Behaviour, kept: Mask, chosen: Mask, numbers: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Titles and plots: maps of all candidates, and BR-Div against P-Div of those kept."""
    for title, features in (
        ("Behaviour of best responses", behaviour.features),
        ("Behaviour of candidates", behaviour.partner_features),
    ):
        yield title, behaviour_map(title, features, kept, chosen, numbers)
    sizes = range(2, min(MAX_SIZE, int(kept.sum())) + 1)
    if sizes:
        title = "BR-Div, chosen by BR-Div or P-Div"
        responses, partners = behaviour.features[kept], behaviour.partner_features[kept]
        found = diversity_by_size(responses, partners, sizes)
        yield title, diversity(title, sizes, found, int(chosen.sum()))


def components(features: Floats) -> tuple[Floats, Floats]:
    """Two principal components [row, 2] of `features` [row, feature], and their variance shares.

    Every column is first divided by its maximum + 1e-3, as for BR-Div.
    """
    scaled = features / (features.max(axis=0) + 1e-3)
    rows, sizes, axes = np.linalg.svd(scaled - scaled.mean(axis=0), full_matrices=False)
    strongest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    points = rows * sizes * np.where(strongest < 0, -1.0, 1.0)  # an SVD's signs are arbitrary
    shares = sizes**2 / max(float((sizes**2).sum()), 1e-12)
    missing = max(0, 2 - len(sizes))
    return np.pad(points, ((0, 0), (0, missing)))[:, :2], np.pad(shares, (0, missing))[:2]


def behaviour_map(
    label: str, features: Floats, kept: Mask, chosen: Mask, numbers: Sequence[str]
) -> str:
    """All candidates by the two principal components of their features."""
    points, shares = components(features)

    def paint(axes: Axes) -> None:
        blue, orange = series(0)[0], series(1)[0]
        _paint_group(axes, "dropped", points[~kept], "o", LINE, "none")
        _paint_group(axes, "kept", points[kept & ~chosen], "o", blue, blue)
        _paint_group(axes, "chosen", points[chosen], "D", orange, orange)
        for index, offset in _label_offsets(points, chosen).items():
            place = (float(points[index, 0]), float(points[index, 1]))
            text = axes.annotate(_cut(numbers[index]), place, offset, textcoords="offset points")
            text.set(ha="center", va="center", fontsize=8, parse_math=False)
        axes.margins(0.12)
        xlabel, ylabel = (f"component {i} ({share:.0%})" for i, share in enumerate(shares, 1))
        axes.set(xlabel=xlabel, ylabel=ylabel)

    return draw(label, paint, INCHES)


def _paint_group(
    axes: Axes, name: str, points: Floats, marker: str, colour: str, face: str
) -> None:
    if len(points):
        axes.plot(*points.T, marker, color=colour, mfc=face, ms=4.8, label=name)


def _label_offsets(points: Floats, chosen: Mask) -> dict[int, tuple[float, float]]:
    """Where to write each label, in points from its mark: far from marks and earlier labels."""
    span = np.maximum(np.ptp(points, axis=0), 1e-9)
    x, y = ((points - points.min(axis=0)) / span * PLOT).T
    taken = x + 1j * y
    offsets = {}
    for index in np.flatnonzero(chosen).tolist():
        places = taken[index] + AROUND
        crowd = np.exp(-((np.abs(places[:, None] - taken) / 8) ** 2)).sum(axis=1)
        best = AROUND[(crowd + np.abs(AROUND) / 20).argmin()]  # near, unless it is crowded
        taken = np.append(taken, taken[index] + best)
        offsets[index] = (float(best.real), float(best.imag))
    return offsets


def diversity(label: str, sizes: Sequence[int], found: DiversityBySize, chosen: int) -> str:
    """BR-Div of the best subsets by BR-Div and by P-Div; a log scale leaves out zeros."""

    def paint(axes: Axes) -> None:
        axes.axvline(chosen, color=LINE, lw=0.8, ls="--", zorder=0.5)
        values = np.concatenate(found)
        positive = values[values > 0]
        if positive.size and positive.max() / positive.min() > WIDE_RANGE:
            axes.set_yscale("log", nonpositive="mask")
        for index, (name, marks) in enumerate((("by BR-Div", "o-"), ("by P-Div", "s--"))):
            axes.plot(sizes, found[index], marks, ms=4, color=series(index)[0], label=name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="partners chosen", ylabel="BR-Div")

    return draw(label, paint, INCHES)


# --- All plots ----------------------------------------------------------------------------------


def _name_ticks(axis: Axis, places: Sequence[float], names: Sequence[str]) -> None:
    axis.set_ticks(places, [_cut(name) for name in names])
    for text in axis.get_ticklabels():
        text.set_parse_math(False)  # names may contain $


def _cut(name: str) -> str:
    """A long name would leave no room for the plot."""
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"

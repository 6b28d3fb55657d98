"""The cross-play matrix: on a terminal, as a heat map, as HTML and as CSV."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from brigade.metrics.result import Floats
from brigade.metrics.stats import mean_and_interval
from brigade.report import page
from brigade.report.estimate import Estimate, spread_for
from brigade.report.summary import mean_over_seeds
from brigade.report.table import Table
from brigade.report.tables import count
from brigade.runs.folder import write_atomically

HEADINGS = ("seat_0", "other_seats", "games", "score", "score_half_width", "return")
MAX_NUMBERS = 20  # policies; in a larger heat map numbers would not fit
MAX_COLUMNS = 10  # policies; a larger matrix is not printed


@dataclass(frozen=True, eq=False)
class Matrix:
    """Scores and returns of all ordered pairs [first, second, episode], the first on seat 0."""

    names: Sequence[str]
    score: Floats
    returns: Floats
    game: str  # benchmark and task

    @property
    def mean(self) -> Floats:
        """[first, second]."""
        return np.asarray(self.score.mean(-1))

    @property
    def half_width(self) -> Floats:
        """Of the 95 % interval over episodes [first, second]; nan for one episode."""
        return np.asarray(mean_and_interval(self.score, axis=-1).half_width)

    def self_play(self) -> Estimate:
        """The score of every policy with itself."""
        return mean_over_seeds(np.diag(self.mean))

    def cross_play(self) -> Estimate:
        """The mean score of every policy with all others, both ways."""
        others = ~np.eye(len(self.names), dtype=bool)
        both = (self.mean + self.mean.T) / 2
        return mean_over_seeds(
            np.array([row[mask].mean() for row, mask in zip(both, others, strict=True)])
        )


def headline(matrix: Matrix) -> list[str]:
    """Self-play and cross-play as lines of text."""
    lines = [f"self-play {matrix.self_play()}, mean over {len(matrix.names)} policies"]
    if len(matrix.names) > 1:
        lines.append(f"cross-play {matrix.cross_play()}, each with all others, both seat orders")
    return lines


def explanation(number: int, things: str) -> str:
    """What stands beside a mean over so many policies or episodes."""
    return {
        "seeds": f"In brackets: the lowest and the highest of {number} {things}.",
        "ci": f"± is half of the 95 % interval over {things}.",
        "none": "",
    }[spread_for(number)]


def cells(matrix: Matrix) -> list[list[str]]:
    """One row per policy on seat 0, one column per policy on the other seats."""
    return [[str(mean_over_seeds(episodes)) for episodes in row] for row in matrix.score]


def print_matrix(console: Console, matrix: Matrix) -> None:
    """Print the matrix, if it fits, and the mean scores in self-play and cross-play."""
    episodes = count(matrix.score.shape[-1], "episode")
    console.print(f"Scores in {matrix.game}, {episodes} per pair", markup=False)
    if len(matrix.names) <= MAX_COLUMNS:
        headings = ["on seat 0", *(f"with {n}" for n, _ in enumerate(matrix.names, 1))]
        rows = [
            [f"{number} {name}", *(f"{mean:.2f}" for mean in row)]
            for number, (name, row) in enumerate(zip(matrix.names, matrix.mean, strict=True), 1)
        ]
        Table(headings, rows).to_terminal(console, "none")
    for line in (*headline(matrix), explanation(len(matrix.names), "policies")):
        if line:
            console.print(line)


def write_matrix(matrix: Matrix, folder: Path) -> list[Path]:
    """Write crossplay.csv, crossplay.png and crossplay.html into an empty folder."""
    paths = [folder / f"crossplay.{kind}" for kind in ("csv", "png", "html")]
    png = heat_map(matrix)
    contents = (_csv(matrix), png, _html(matrix, png))  # all of them before writing any
    for path, content in zip(paths, contents, strict=True):
        write_atomically(path, content)
    return paths


def _csv(matrix: Matrix) -> bytes:
    half, returns, games = matrix.half_width, matrix.returns.mean(-1), matrix.score.shape[-1]
    rows = [
        (matrix.names[i], matrix.names[j], games, mean, half[i, j], returns[i, j])
        for (i, j), mean in np.ndenumerate(matrix.mean)
    ]
    return Table(HEADINGS, rows).to_csv()


def heat_map(matrix: Matrix) -> bytes:
    """The matrix as a PNG; dark cells have low scores."""
    top = max(float(np.nanmax(matrix.mean)), 1e-6)
    limits = min(0.0, float(matrix.mean.min())), top
    words = ("on the other seats", "on seat 0", f"Score in {matrix.game}", "score")
    return square(matrix.names, matrix.mean, limits, words)


def square(
    names: Sequence[str],
    values: Floats,
    limits: tuple[float, float],
    words: tuple[str, str, str, str],
) -> bytes:
    """Numbers [name, name] as a PNG; `words`: what the axes, the picture and the numbers are."""
    number = len(names)
    side = max(3.2, min(12.0, 1.6 + 0.62 * number))
    across, down, title, label = words
    low, top = limits
    with matplotlib.rc_context({"font.family": "sans-serif", "font.size": 9}):
        figure = Figure(figsize=(side + 0.9, side), layout="constrained", dpi=150)
        axes = figure.subplots()
        image = axes.imshow(values, cmap="viridis", vmin=low, vmax=top)
        ticks = range(number)
        axes.set_xticks(ticks, names, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(ticks, names)
        axes.set(xlabel=across, ylabel=down, title=title)
        axes.tick_params(length=0)
        for text in (*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title):
            text.set_parse_math(False)  # names may contain $
        if number <= MAX_NUMBERS:
            for (i, j), value in np.ndenumerate(values):
                ink = "black" if value > 0.6 * top else "white"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=8)
        figure.colorbar(image, ax=axes, shrink=0.8, label=label)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _html(matrix: Matrix, png: bytes) -> bytes:
    """One page with the heat map and the scores."""
    episodes = count(matrix.score.shape[-1], "episode")
    rows = [[name, *row] for name, row in zip(matrix.names, cells(matrix), strict=True)]
    body = [
        page.box(
            "header",
            page.tag("h1", "Cross-play") + page.soft(f"{matrix.game}, {episodes} per pair"),
        ),
        page.cards(_cards(matrix)),
        page.section("Heat map", page.picture("Mean score of every pair", png)),
        page.section(
            "Scores",
            page.table(Table(["seat 0 \\ others", *matrix.names], rows)),
            page.soft(
                f"{explanation(matrix.score.shape[-1], 'episodes')} The diagonal is self-play."
            ),
        ),
    ]
    return page.document("Cross-play", "\n".join(body)).encode("utf-8", "replace")


def _cards(matrix: Matrix) -> list[tuple[str, Estimate, str]]:
    cards = [("Self-play", matrix.self_play(), "each policy with itself; mean over policies")]
    if len(matrix.names) > 1:
        cards.append(("Cross-play", matrix.cross_play(), "each with all others, both seat orders"))
    return cards

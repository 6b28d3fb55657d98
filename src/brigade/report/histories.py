"""What learning histories hold: a table, and a picture of returns over time."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from brigade.core.histories import DONES, REWARDS
from brigade.errors import UserError
from brigade.histories.files import FileHistories, IndexEntry, episode_returns
from brigade.machine import size
from brigade.report.style import AXES, SERIES
from brigade.report.table import Table

POINTS = 20  # of a curve: means over so many stretches of a history
SHARE = 10  # "first" and "last" are a tenth of the episodes


def returns_of(histories: FileHistories) -> list[np.ndarray]:
    """The returns of every history's episodes."""
    found = []
    for row, length in enumerate(histories.lengths):
        window = histories.window(row, 0, int(length), (REWARDS, DONES))
        found.append(episode_returns(window[REWARDS], window[DONES]))
    return found


def key_of(entry: IndexEntry) -> tuple[str, str]:
    """What histories are grouped by: layout and teammate."""
    return entry.layout or "-", entry.teammate_kind or entry.teammate_family or "-"


def grouped(histories: FileHistories) -> dict[tuple[str, str], list[np.ndarray]]:
    """Returns by layout and teammate."""
    groups: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for entry, returns in zip(histories.entries, returns_of(histories), strict=True):
        groups[key_of(entry)].append(returns)
    return dict(groups)


def table_of(histories: FileHistories) -> Table:
    """One row per layout and teammate, and one for all."""
    rows = []
    for (layout, teammate), group in grouped(histories).items():
        rows.append([layout, teammate, *numbers(group)])
    every = [returns for group in grouped(histories).values() for returns in group]
    rows.append(["all", "", *numbers(every)])
    on_disk = sum(path.stat().st_size for path in histories.files())
    shape = " x ".join(map(str, histories.obs_shape))
    return Table(
        ["layout", "teammate", "histories", "episodes", "first tenth", "last tenth"],
        rows,
        title=f"{int(histories.lengths.sum()):,} timesteps of observations {shape}, "
        f"{size(on_disk)} on disk; fields: {', '.join(histories.fields)}",
        notes=["Mean return of the first and of the last tenth of a history's episodes."],
        names=2,
        total=True,
        grouped=True,
    )


def numbers(group: list[np.ndarray]) -> list[str]:
    """How many histories and episodes, and the mean returns at both ends."""
    first = np.mean([returns[: ends(returns)].mean() for returns in group])
    last = np.mean([returns[-ends(returns) :].mean() for returns in group])
    episodes = sum(len(returns) for returns in group)
    return [f"{len(group):,}", f"{episodes:,}", f"{first:.2f}", f"{last:.2f}"]


def ends(returns: np.ndarray) -> int:
    """How many episodes a tenth is."""
    return max(1, len(returns) // SHARE)


def draw(histories: FileHistories, out: Path) -> None:
    """Returns over time: a panel per layout, a line per teammate."""
    groups = grouped(histories)
    layouts = list(dict.fromkeys(layout for layout, _ in groups))
    with rc_context(AXES | {"font.size": 9}):
        figure = Figure(figsize=(4.2 * len(layouts), 3.2), layout="constrained")
        panels = figure.subplots(1, len(layouts), squeeze=False, sharey=True)[0]
        for panel, layout in zip(panels, layouts, strict=True):
            panel.set_title(layout, fontsize=10)
            panel.set_xlabel("share of the history")
            teammates = [
                (name, group) for (place, name), group in groups.items() if place == layout
            ]
            for number, (name, group) in enumerate(teammates):
                curve = np.mean([stretched(returns) for returns in group], axis=0)
                x = (np.arange(len(curve)) + 0.5) / len(curve)
                colour = SERIES[number % len(SERIES)][0]
                panel.plot(x, curve, color=colour, linewidth=1.4, label=name, alpha=0.9)
            if len(teammates) <= len(SERIES):
                panel.legend(frameon=False, fontsize=8)
        panels[0].set_ylabel("return")
        try:
            figure.savefig(out, dpi=150)
        except OSError as error:
            raise UserError(
                f"cannot write {out}: {error.strerror}; choose another --out"
            ) from error


def stretched(returns: np.ndarray) -> np.ndarray:
    """Means over equal stretches of a history's episodes."""
    parts = np.array_split(returns, min(POINTS, len(returns)))
    means = np.array([part.mean() for part in parts])
    return np.interp(np.linspace(0, 1, POINTS), np.linspace(0, 1, len(means)), means)

"""How seats share their work at the last evaluation, from the events of the environment."""

from __future__ import annotations

import numpy as np

from brigade.metrics.coordination import IDLE, USEFUL, delivery_share, idle_share, role_collapse
from brigade.metrics.result import Floats, known_mean
from brigade.report.read import RunData
from brigade.report.summary import mean_over_seeds

HEADINGS = ("", "deliveries", "idle", "role collapse")


def rows(run: RunData) -> list[list[str]]:
    """A row per seat, then the team; empty if the environment does not record these events."""
    names = [str(name) for name in run.arrays.get("event_names", ())]
    if not {*USEFUL, *IDLE} <= set(names):
        return []
    last = run.mean("events", "eval", "task", "seed", "player", "kind")[-1]
    deliveries, steps = delivery_share(last, names), float(run.arrays["horizon"])
    idle = idle_share(last, names, steps)
    seats = [
        [f"seat {seat}", _show(deliveries[..., seat]), _show(idle[..., seat]), ""]
        for seat in range(last.shape[2])
    ]
    return [*seats, ["team", "", _show(idle.mean(-1)), _show(role_collapse(last, names))]]


def _show(values: Floats) -> str:
    """Values [task, seed]: the mean over tasks, then over seeds."""
    by_seed = known_mean(values)  # nan, shown as -, if no task has a delivery
    return str(mean_over_seeds(by_seed)) if np.isfinite(by_seed).all() else "-"

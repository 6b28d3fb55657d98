"""How seats share their work at the last evaluation, from the events of the environment."""

from __future__ import annotations

import warnings

import numpy as np

from brigade.metrics.coordination import IDLE, USEFUL, delivery_share, idle_share, role_collapse
from brigade.metrics.result import Floats
from brigade.report.read import RunData
from brigade.report.summary import mean_over_seeds

HEADINGS = ("", "deliveries", "idle", "role collapse")


def rows(run: RunData) -> list[list[str]]:
    """A row per seat, then the team; empty if the environment does not record these events."""
    names = [str(name) for name in run.arrays.get("event_names", ())]
    if not {*USEFUL, *IDLE} <= set(names):
        return []
    last = run.mean("events", "eval", "task", "seed", "player", "kind")[-1]
    deliveries, idle = delivery_share(last, names), idle_share(last, names, _horizon(run))
    seats = [
        [f"seat {seat}", _show(deliveries[..., seat]), _show(idle[..., seat]), ""]
        for seat in range(last.shape[2])
    ]
    return [*seats, ["team", "", _show(idle.mean(-1)), _show(role_collapse(last, names))]]


def _horizon(run: RunData) -> float:
    return float(run.arrays["horizon"])


def _show(values: Floats) -> str:
    """Values [task, seed]: the mean over tasks, then over seeds."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # nan, shown as -, if no task has a delivery
        by_seed = np.nanmean(values, axis=0)
    if not np.isfinite(by_seed).all():
        return "-"
    return str(mean_over_seeds(by_seed))

"""What a target costs on this machine: from measured times, or from its environment steps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from brigade.runs.config import load_benchmark, merged

if TYPE_CHECKING:  # a target asks for the steps of its runs
    from brigade.launch.target import Target

DAY = 86400.0


# Steps per second by the paper and the backend, at the paper's scale. Hanabi and ZSC-Eval were not
# timed on a GPU.
SPEEDS: Mapping[tuple[str, str], float] = {
    ("meal", "cpu"): 7.9e3,  # bench/train_overcooked.py with 16 environments
    ("meal", "gpu"): 5.0e6,  # meal/table-2 took 18 min for 5.4e9 steps
    ("lifelong_hanabi", "cpu"): 815.0,  # brigade plan hanabi/standard --learner iql
    ("zsc_eval", "cpu"): 13.3e3,  # brigade plan zsc_eval/coordination_ring
}
# The same at the small scale, of targets that were not timed: table-1 took 18 min.
SMALL_SPEEDS = {("lifelong_hanabi", "cpu"): 7.2e6 / (60 * 18)}


def cost(target: Target, scale: str, backend: str, faster: float = 1.0) -> float | None:
    """About how many seconds a target takes; None if nothing like it was timed.

    `faster` is the speed of this machine relative to the one that was timed.
    """
    kind = "cpu" if backend == "cpu" else "gpu"
    if scale == "small" and kind == "cpu" and target.minutes is not None:
        return 60 * target.minutes / faster
    speeds = SPEEDS if scale == "paper" else SMALL_SPEEDS
    speed = speeds.get((target.name.partition("/")[0], kind))
    return None if speed is None else target.steps(scale) / (speed * faster)


def roughly(seconds: float | None) -> str:
    """A duration with one or two digits: 9 min, 2.5 h, 12 d, 1.2 y (years)."""
    if seconds is None:
        return "?"
    for size, unit in ((365 * DAY, "y"), (DAY, "d"), (3600.0, "h")):
        if seconds >= size:
            amount = seconds / size
            return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
    return f"{max(1, round(seconds / 60))} min"


benchmark_named = cache(load_benchmark)  # making one can read files


def steps_of_run(settings: Mapping[str, Any]) -> float:
    """Tasks times steps times seeds of one run, with the defaults of its benchmark and preset."""
    benchmark = benchmark_named(settings["benchmark"])
    paper = {
        "tasks": benchmark.num_tasks,
        "steps_per_task": benchmark.steps_per_task,
        "seeds": benchmark.num_seeds,
        "repetitions": 1,
    }
    tree = merged(merged(paper, benchmark.presets.get(settings["preset"], {})), settings)
    return float(tree["tasks"] * tree["repetitions"] * tree["steps_per_task"] * tree["seeds"])

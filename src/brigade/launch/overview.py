"""`brigade reproduce` without a target: what there is, what it costs here, what is recorded."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from brigade.benchmarks import zsc_scales
from brigade.core import Benchmark
from brigade.launch import hanabi_pool, zsc_study
from brigade.launch.hanabi_tables import CONTINUAL
from brigade.launch.lifelong_hanabi_targets import life
from brigade.launch.reproduce import settings_of
from brigade.launch.target import Target
from brigade.launch.targets import TARGETS
from brigade.runs.config import load_benchmark, merged

Scale = Literal["small", "paper"]
SCALES: tuple[Scale, Scale] = ("small", "paper")
WIDTH, DAY = 80, 86400.0
POOL = "lifelong_hanabi/pool"

# What every target shows, in a few words.
SHOWS = {
    "meal/table-2": "six methods on a level (--level)",
    "meal/table-3": "EWC with 1 to 4 cooks (--level)",
    "meal/table-4": "the same as table-8",
    "meal/table-7": "a curriculum of levels",
    "meal/table-8": "plasticity in a repeated stream",
    "meal/table-9": "designated roles",
    "meal/table-10": "eight partners one by one",
    "meal/table-11": "table-2 on level 1",
    "meal/table-12": "table-2 on level 2",
    "meal/table-13": "table-2 on level 3",
    "meal/figure-6": "network ablations (--level)",
    "meal/figure-7": "partial views, MAPPO (--level)",
    "meal/figure-16": "the same as table-10",
    "meal/figure-18": "JaxNav with 2 to 4 robots",
    "meal/100-tasks": "EWC on 100 kitchens (--level)",
    "lifelong_hanabi/pool": "a pool of agents and their play",
    "lifelong_hanabi/table-1": "methods with hard partners",
    "lifelong_hanabi/table-2": "best agents and those who learn",
    "lifelong_hanabi/table-6": "the same, mean over agents",
    "lifelong_hanabi/table-7": "the same as table-2",
    "lifelong_hanabi/figure-2": "cross-play before and after",
    "lifelong_hanabi/figure-3": "hard partners, Adam",
    "lifelong_hanabi/figure-4": "memory size and few-shot updates",
    "lifelong_hanabi/figure-5": "replay strategies",
    "lifelong_hanabi/figure-7": "hard partners, Adam",
    "lifelong_hanabi/figure-8": "easy partners, Adam",
    "lifelong_hanabi/figure-9": "hard partners, SGD",
    "lifelong_hanabi/figure-10": "easy partners, SGD",
    "lifelong_hanabi/figure-11": "ten partners, Adam",
    "lifelong_hanabi/figure-12": "ten partners, SGD",
    "zsc_eval/LAYOUT": "zero-shot coordination",
}
# The page in docs/results with a recorded result of a target.
RECORDED = {
    "meal/table-2": "meal.md",
    "meal/table-11": "meal.md",
    "meal/table-9": "meal_settings.md",
    "meal/figure-7": "meal_settings.md",
    "meal/table-10": "meal_partners.md",
    "meal/figure-16": "meal_partners.md",
    "lifelong_hanabi/pool": "lifelong_hanabi.md",
    "lifelong_hanabi/table-1": "lifelong_hanabi.md",
    "lifelong_hanabi/table-2": "lifelong_hanabi.md",
    "lifelong_hanabi/figure-2": "lifelong_hanabi.md",
    "lifelong_hanabi/figure-3": "lifelong_hanabi.md",
    "lifelong_hanabi/figure-4": "lifelong_hanabi.md",
    "zsc_eval/LAYOUT": "zsc_eval.md",
}
LAYOUT = "coordination_ring"  # stands for all layouts of ZSC-Eval
# Runs of the targets that compare a pool with agents that kept learning.
HANABI_RUNS = {
    "lifelong_hanabi/table-2": len(CONTINUAL),
    "lifelong_hanabi/table-6": len(CONTINUAL),
    "lifelong_hanabi/table-7": len(CONTINUAL),
    "lifelong_hanabi/figure-2": 1,
}


@dataclass(frozen=True)
class Speed:
    """Environment steps per second, and what they were measured with."""

    steps_per_second: float
    source: str


# By the first part of a target's name and the backend, at the paper's scale. Hanabi and ZSC-Eval
# were not timed on a GPU.
SPEEDS: Mapping[tuple[str, str], Speed] = {
    ("meal", "cpu"): Speed(7.9e3, "bench/train_overcooked.py with 16 environments"),
    ("meal", "gpu"): Speed(5.0e6, "meal/table-2 took 18 min for 5.4e9 steps"),
    ("lifelong_hanabi", "cpu"): Speed(815.0, "brigade plan hanabi/standard --learner iql"),
    ("zsc_eval", "cpu"): Speed(13.3e3, "brigade plan zsc_eval/coordination_ring"),
}
# Minutes that targets took at the small scale on two CPU cores (docs/verbs/reproduce.md and
# docs/results), and steps per second of the others: table-1 had 7.2e6 steps.
TIMED = {
    "meal/table-2": 9.0,
    "meal/table-3": 12.0,
    "meal/table-4": 5.0,
    "meal/table-7": 12.0,
    "meal/table-8": 5.0,
    "meal/table-9": 7.0,
    "meal/table-10": 5.0,
    "meal/table-11": 9.0,
    "meal/table-12": 8.0,
    "meal/table-13": 11.0,
    "meal/figure-6": 11.0,
    "meal/figure-7": 7.0,
    "meal/figure-16": 5.0,
    "meal/figure-18": 6.0,
    "meal/100-tasks": 3.0,
    "lifelong_hanabi/pool": 60.0,
    "lifelong_hanabi/table-1": 18.0,
    "zsc_eval/LAYOUT": 5.4,
}
SMALL_HANABI = Speed(7.2e6 / (60 * TIMED["lifelong_hanabi/table-1"]), "table-1")
MACHINES = {"cpu": "two cores of an AMD EPYC", "gpu": "one NVIDIA H200"}


def overview(backend: str, faster: float | None = None) -> Iterator[str]:
    """The lines of the overview. `faster` is the speed of this machine relative to the known one;
    None: not measured."""
    yield f"  {'target':26}{'small':>9}{'paper':>9}  shows"
    for name, shows in SHOWS.items():
        costs = (cost(name, scale, backend, faster or 1.0) for scale in SCALES)
        small, paper = (roughly(seconds) for seconds in costs)
        mark = "*" if name in RECORDED else " "
        yield f"{mark} {name:26}{small:>9}{paper:>9}  {shows}"
    yield ""
    yield from textwrap.wrap(explanation(backend, faster), WIDTH, break_on_hyphens=False)


def explanation(backend: str, faster: float | None) -> str:
    """What the marks and the times mean, and how they are known."""
    pages = ", ".join(dict.fromkeys(RECORDED.values()))
    machine = MACHINES["cpu" if backend == "cpu" else "gpu"]
    how = (
        f"They are those of {machine}; --measure times this machine for about ten seconds and "
        "scales them."
        if faster is None
        else f"They are scaled from {machine}: this machine trains {faster:.2g} times as fast."
    )
    return (
        f"*: a recorded result is in docs/results ({pages}). Times are rough: small ones were "
        "measured or follow from a measured run; at the paper's scale they are the environment "
        "steps of all runs, divided by the speed of training; y is years. A question mark: nothing "
        f"like it was timed on a {'CPU' if backend == 'cpu' else 'GPU'}. {how} LAYOUT is one of "
        "ten kitchens (brigade list benchmarks). brigade reproduce TARGET has the small scale, "
        "which shows how a table is made; --scale paper has the published settings."
    )


def cost(name: str, scale: Scale, backend: str, faster: float = 1.0) -> float | None:
    """About how many seconds a target takes; None if nothing like it was timed."""
    kind = "cpu" if backend == "cpu" else "gpu"
    if scale == "paper":
        speed = SPEEDS.get((name.partition("/")[0], kind))
    elif kind == "cpu" and name in TIMED:
        return 60 * TIMED[name] / faster
    else:
        speed = SMALL_HANABI if kind == "cpu" else None
    return None if speed is None else steps_of(name, scale) / (speed.steps_per_second * faster)


def roughly(seconds: float | None) -> str:
    """A duration with one or two digits: 9 min, 2.5 h, 12 d, 1.2 y (years)."""
    if seconds is None:
        return "?"
    for size, unit in ((365 * DAY, "y"), (DAY, "d"), (3600.0, "h")):
        if seconds >= size:
            amount = seconds / size
            return f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
    return f"{max(1, round(seconds / 60))} min"


def steps_of(name: str, scale: Scale) -> float:
    """The environment steps of all runs of a target, over all seeds."""
    if name in TARGETS:
        return steps_of_target(TARGETS[name]("1"), scale == "small")
    if name in HANABI_RUNS:
        preset = {"preset": "laptop", "seeds": 1} if scale == "small" else {"preset": "paper"}
        return HANABI_RUNS[name] * steps_of_run(merged(life("hard", "er", "adam"), preset))
    if name == POOL:
        pool = hanabi_pool.SCALES[scale]
        agents = len(pool.methods) * len(pool.architectures) * pool.seeds
        one = {"benchmark": "hanabi/standard", "preset": pool.preset, "seeds": 1}
        return agents * steps_of_run(one)
    return steps_of_study(zsc_study.Study(LAYOUT, Path(), zsc_scales.SCALES[scale]))


def steps_of_target(target: Target, small: bool) -> float:
    """All runs of a table, and the baselines that runs of other methods share."""
    settings = [settings_of(target, row, small) for row in target.rows if not (small and row.heavy)]
    total = sum(map(steps_of_run, settings))
    if not target.needs_baselines:
        return total
    method = ("method", "method_settings")
    shared = {
        repr(sorted((k, v) for k, v in each.items() if k not in method)): each for each in settings
    }
    return total + sum(steps_of_run(merged(each, {"repetitions": 1})) for each in shared.values())


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


@cache
def benchmark_named(name: str) -> Benchmark:
    """The benchmark with a name; making one can read files."""
    return load_benchmark(name)


def steps_of_study(study: zsc_study.Study) -> float:
    """Candidates, populations and egos of a study."""
    scale = study.scale
    alone = {
        "sp": scale.alone_steps,
        "e3t": scale.alone_steps,
        "cec": scale.cec_steps,
        "cole": scale.cole_steps,
    }
    egos = sum(alone.get(name, scale.ego_steps) for name in study.algorithms)
    populations = len(study.populations()) * scale.members
    return (
        study.num_candidates * scale.candidate_steps
        + populations * scale.population_steps
        + scale.seeds * egos
    )

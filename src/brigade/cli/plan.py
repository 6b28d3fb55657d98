"""`brigade plan`: the cost of a run, before it starts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import jax
from rich.console import Console

from brigade.machine import size
from brigade.report.table import Table
from brigade.runs.assemble import assemble
from brigade.runs.config import Experiment
from brigade.runs.progress import clock
from brigade.runs.run import from_policy_file
from brigade.runs.speed import cost, experiment_speed


def print_plan(experiment: Experiment, timed: bool, trust: bool = False) -> None:
    """Print the cost as a table; with `timed`, also the time, from a short training run."""
    with tempfile.TemporaryDirectory() as scratch:
        _print_plan(from_policy_file(experiment, Path(scratch), trust), timed)


def _print_plan(experiment: Experiment, timed: bool) -> None:
    config, parts = experiment.config, assemble(experiment)
    needs = cost(experiment, parts)
    rows = [
        ("environment steps", f"{needs.steps:,} over {count(config.seeds, 'seed')}"),
        ("updates", f"{needs.updates:,} ({config.updates_per_task:,} per task)"),
        ("evaluations", f"{needs.evaluations:,} of {count(config.tasks, 'task')}"),
        ("parameters", f"{needs.parameters:,} per seed"),
        ("memory, rollouts", size(needs.rollout_bytes)),
        ("memory, training state", size(needs.state_bytes)),
        ("disk", size(needs.disk_bytes)),
    ]
    if timed:
        speed = experiment_speed(experiment)
        seconds = needs.steps / speed.steps_per_second + speed.compile_seconds
        rows += [
            ("time", f"about {clock(seconds)} on this machine, evaluations not counted"),
            ("speed", f"{speed.steps_per_second:,.0f} steps/s on {device()}"),
        ]
    title = f"{config.benchmark} with {config.method}"
    Table(("", ""), rows, title, names=2).to_terminal(Console(), "full")


def count(number: int, thing: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def device() -> str:
    """The kind of device JAX uses, and how many there are."""
    return f"{jax.devices()[0].device_kind} ({jax.device_count()})"

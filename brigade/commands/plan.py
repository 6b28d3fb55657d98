"""`brigade plan`: what a run costs."""

from __future__ import annotations

import jax
from rich.console import Console
from rich.table import Table

from brigade.runs.assemble import assemble
from brigade.runs.config import Experiment
from brigade.runs.measure import cost, experiment_speed
from brigade.runs.progress import clock


def print_plan(experiment: Experiment, measured: bool) -> None:
    """One row per thing a run needs."""
    config, parts = experiment.config, assemble(experiment)
    needs = cost(experiment, parts)
    table = rows(f"{config.benchmark} with {config.method}")
    table.add_row("environment steps", f"{needs.steps:,} over {count(config.seeds, 'seed')}")
    table.add_row("updates", f"{needs.updates:,} ({config.updates_per_task:,} per task)")
    table.add_row("evaluations", f"{needs.evaluations:,} of {count(config.tasks, 'task')}")
    table.add_row("parameters", f"{needs.parameters:,} per seed")
    table.add_row("memory, rollouts", size(needs.rollout_bytes))
    table.add_row("memory, training state", size(needs.state_bytes))
    table.add_row("disk", size(needs.disk_bytes))
    if measured:
        speed = experiment_speed(experiment)
        left = needs.steps / speed.steps_per_second + speed.compile_seconds
        table.add_row("time", f"about {clock(left)} on this machine, evaluations not counted")
        table.add_row("measured", f"{speed.steps_per_second:,.0f} steps/s on {device()}")
    Console().print(table)


def rows(title: str) -> Table:
    """A table of names and values."""
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    return table


def count(number: int, thing: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def size(amount: int) -> str:
    """Bytes as a person says them."""
    power = min((len(str(amount)) - 1) // 3, 4)
    unit = ("bytes", "kB", "MB", "GB", "TB")[power]
    return f"{amount / 1000**power:.3g} {unit}"


def device() -> str:
    """What JAX computes on."""
    return f"{jax.devices()[0].device_kind} ({jax.device_count()})"

"""Make a run longer: more tasks, more steps per task or more repetitions than it was started with.

The config gets the new numbers at once. What was trained before keeps its place in the record; its
own lengths are in `earlier_ends`, and evaluations of tasks that did not exist yet are nan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import ContinualMethod
from brigade.core.trees import pick
from brigade.errors import UserError, as_user_errors
from brigade.metrics.record import Record
from brigade.reading import parse_json
from brigade.runs.assemble import Parts
from brigade.runs.config import Experiment, RunConfig
from brigade.runs.folder import RunFolder, write_atomically
from brigade.train import Position
from brigade.train.trainer import phase_ends

LENGTHS = ("tasks", "steps_per_task", "repetitions")


@as_user_errors()
def longer(experiment: Experiment, lengths: Mapping[str, float | None]) -> Experiment:
    """The experiment with some of its `LENGTHS` increased; None leaves one as it is."""
    before = experiment.config
    changes: dict[str, Any] = {}
    for name, value in lengths.items():
        if value is None:
            continue
        now = getattr(before, name)
        if value < now:
            raise UserError(f"{name} is {value:g}; the run has {now:g} and can only get more")
        changes[name] = value if name == "steps_per_task" else int(value)
    config = replace(before, **changes)
    steps = config.updates_per_task * config.steps_per_update
    if steps != before.steps_per_task and max(before.repetitions, config.repetitions) > 1:
        raise UserError("steps_per_task of a run with repetitions cannot change; leave it out")
    if config.tasks != before.tasks and before.repetitions > 1:
        raise UserError("tasks of a run with repetitions cannot change; leave --tasks out")
    experiment.method.check_longer(more_tasks=config.tasks != before.tasks)
    return replace(experiment, config=replace(config, steps_per_task=steps))


def changed_lengths(before: RunConfig, after: RunConfig) -> dict[str, list[float]]:
    """What differs, [before, after] by name."""
    pairs = {name: [getattr(before, name), getattr(after, name)] for name in LENGTHS}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def check_same_tasks(before: Experiment, parts: Parts) -> None:
    """Refuse a benchmark whose first tasks depend on how many there are."""
    tasks, steps = before.config.tasks, int(before.config.steps_per_task)
    for seed, sequence in zip(parts.seeds, parts.sequences, strict=True):
        old = parts.benchmark.sequence(seed, tasks, steps).tasks
        new = pick(sequence.tasks, slice(tasks))
        pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
        if not all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs):
            raise UserError(
                f"{before.config.benchmark} has other tasks if there are more of them, so this run "
                "cannot get more; start a new one"
            )


def write_longer(folder: RunFolder, changes: Mapping[str, list[float]]) -> None:
    """Put the new lengths into config.json; baselines of the shorter run no longer fit."""
    tree = parse_json(folder.read_config(), str(folder.path / "config.json"))
    tree["config"] |= {name: after for name, (_, after) in changes.items()}
    (folder.path / "baselines.npz").unlink(missing_ok=True)  # --baselines makes new ones
    write_atomically(folder.path / "config.json", json.dumps(tree, indent=2).encode())


def fit_record(record: Record, parts: Parts) -> bool:
    """Add the tasks that the run got since, with nan where they were not evaluated.

    Returns whether there were any.
    """
    names = parts.sequences[0].names
    missing = len(names) - len(record.task_names)
    if missing <= 0 or record.task_names != names[: len(record.task_names)]:
        return False
    for name, axes in record.axes.items():
        if "task" not in axes:
            continue
        pads = [(0, missing if axis == "task" else 0) for axis in axes]
        record.columns[name] = [
            np.pad(values.astype(np.float32), pads, constant_values=np.nan)
            for values in record.columns[name]
        ]
    record.task_names = names
    return True


def fit_position(position: Position, config: RunConfig, method: ContinualMethod) -> Position | None:
    """The position in a run of the config's lengths; None if it is too late to go on from here.

    A task that has ended stays as long as it was, except for the last one of the run.
    """
    record = position.record
    record.repetitions = config.repetitions
    if record.repetitions > 1 and record.earlier_ends:
        raise UserError("tasks of different lengths cannot be repeated; leave --repetitions out")
    old, new = record.steps_per_task // config.steps_per_update, config.updates_per_task
    if old == new:
        return position
    if position.update == old and position.task < config.total_tasks - 1:
        position = replace(position, task=position.task + 1, update=0)
    elif ended_phases(method, old, position.update) != ended_phases(method, new, position.update):
        return None  # the method would end a phase of the task twice
    record.earlier_ends = tuple(record.ends()[: position.task])
    record.steps_per_task = new * config.steps_per_update
    return position


def ended_phases(method: ContinualMethod, updates: int, done: int) -> list[str]:
    """The phases of a task that have ended, if it has so many updates and some are done."""
    if not method.ends_matter:
        return []
    ends = phase_ends(method, updates)
    return [phase for update, phases in ends.items() if update <= done for phase in phases]


def fit_leaf(fresh: Any, found: Any) -> Any:
    """A leaf of a state with more tasks: what was trained, then initial values for new tasks."""
    corner = tuple(slice(0, size) for size in np.shape(found))
    return jnp.asarray(fresh).at[corner].set(found)


def fits_into(found: tuple[int, ...], like: tuple[int, ...]) -> bool:
    """Whether an array can be part of another, from its first entry on."""
    return len(found) == len(like) and all(a <= b for a, b in zip(found, like, strict=True))

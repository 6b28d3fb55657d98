"""The training state of a run as plain arrays, and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from brigade.metrics.checks import find_problem
from brigade.reading import DamagedError, counted, entry, expect, read_json, read_npz
from brigade.runs.assemble import Parts
from brigade.runs.config import RunConfig
from brigade.runs.extend import fit_leaf, fit_position, fit_record, fits_into
from brigade.runs.folder import RunFolder, RunFolderError
from brigade.runs.state_files import restore_state
from brigade.train import Position, Record
from brigade.train.programs import TrainState

MAX_SECONDS = 1e10
NUMBERS_PER_TASK = 10**10  # for checkpoints; a task has fewer updates than this


def checkpoint_number(task: int, update: int) -> int:
    """The number of a checkpoint; later ones have larger numbers."""
    return task * NUMBERS_PER_TASK + update


def last_position(
    folder: RunFolder, parts: Parts, config: RunConfig, warn: Callable[[str], None]
) -> tuple[Position, float] | None:
    """Where to resume, and the seconds trained so far; None if there is no valid checkpoint."""
    too_late: list[Path] = []

    def read(checkpoint: Path) -> tuple[Position, Meta] | None:
        meta, record = read_meta(checkpoint), Record.from_arrays(read_record(checkpoint))
        more_tasks = fit_record(record, parts)
        check_record(record, parts)
        if meta.task >= record.repetitions * len(record.task_names):
            raise DamagedError(f"meta.json: there is no task {meta.task}")
        index = meta.task % len(record.task_names)
        state = read_state(checkpoint, parts, more_tasks, index)
        position = Position(meta.task, meta.update, state, record)
        fitted = fit_position(position, config, parts.trainer.method)
        if fitted is None:
            too_late.append(checkpoint)
            return None
        return fitted, meta

    found = folder.newest(read, warn)
    if found is None and too_late:
        raise RunFolderError(
            f"the last task of {folder.path} cannot be trained longer: the method has ended "
            "a phase of it, and there is no checkpoint from before; add --tasks, or start a new run"
        )
    if found is None:
        return None
    position, meta = found
    folder.truncate_log(meta.log_size)  # when everything else has been read
    return position, meta.seconds


class Meta(NamedTuple):
    """Where a checkpoint was saved."""

    task: int
    update: int
    log_size: int
    seconds: float


def read_meta(checkpoint: Path) -> Meta:
    """The content of meta.json."""
    path = checkpoint / "meta.json"
    try:
        tree = read_json(path)
    except FileNotFoundError:
        raise DamagedError(f"{path.name} is missing") from None
    task, update, log_size = (
        counted(tree, name, path.name) for name in ("task", "update", "log_size")
    )
    seconds = entry(tree, "seconds", float, path.name)
    if not 0 <= seconds < MAX_SECONDS:
        raise DamagedError(f"{path.name}: 'seconds' is {seconds}")
    return Meta(task, update, log_size, seconds)


def read_record(checkpoint: Path) -> dict[str, np.ndarray]:
    """The evaluations up to a checkpoint."""
    path = checkpoint / "record.npz"
    try:
        arrays = read_npz(path)
    except FileNotFoundError:
        raise DamagedError(f"{path.name} is missing") from None
    if problem := find_problem(arrays):
        raise DamagedError(f"{path.name}: {problem}")
    return arrays


def check_record(record: Record, parts: Parts) -> None:
    """Refuse evaluations of other tasks, seeds or partners than those to come."""
    lengths = {
        "task": len(parts.sequences[0]),
        "seed": len(parts.seeds),
        "partner": len(parts.lineup.partner_names),
        "seat": len(parts.lineup.seat_names),
        "episode": parts.evaluator.episodes,
        "player": parts.benchmark.env.num_agents,
        "kind": len(parts.benchmark.env.events),
    }
    for name, axes in record.axes.items():
        for axis, length in zip(axes, record.columns[name][0].shape, strict=True):
            if length != lengths.get(axis, length):
                raise DamagedError(
                    f"record.npz: {name} has {axis} {length} times; the config has {lengths[axis]}"
                )


def read_state(
    checkpoint: Path, parts: Parts, more_tasks: bool = False, index: int = 0
) -> TrainState:
    """The training state of a checkpoint in task `index`.

    With `more_tasks`, it may lack entries of new tasks.
    """
    found = expect(restore_state(checkpoint / "state"), dict, "state")
    like = parts.initial_state(index) if more_tasks else parts.abstract_state(index)
    state: TrainState = restore_like(like, found, checkpoint, more_tasks)
    return state


def read_policies(checkpoint: Path, parts: Parts, more_tasks: bool = False) -> tuple[Any, Any, Any]:
    """The parameters, the method's state and the matchmaker's, of a checkpoint."""
    found = restore_state(checkpoint / "state")
    learner = entry(found, "learner", dict, "state")
    like = parts.initial_state() if more_tasks else parts.abstract_state()
    return tuple(
        restore_like(mine, theirs, checkpoint, more_tasks)
        for mine, theirs in (
            (like.learner.params, learner.get("params")),
            (like.memory, found.get("memory")),
            (like.matches, found.get("matches")),
        )
    )


def restore_like(like: Any, found: Any, checkpoint: Path, more_tasks: bool = False) -> Any:
    """The arrays of a checkpoint in a pytree like `like`, each looked up by its path.

    With `more_tasks`, `like` has initial values, which stay where an array is larger than found.
    """

    def restore(path: tuple[Any, ...], leaf: Any) -> Any:
        node = found
        try:
            for key in path:
                name = getattr(key, "name", getattr(key, "key", getattr(key, "idx", None)))
                node = node[name]
            shape = jax.eval_shape(_stored, leaf).shape
            if more_tasks and np.shape(node) != shape and fits_into(np.shape(node), shape):
                node = fit_leaf(leaf, node)
            if np.shape(node) != shape:
                raise KeyError(name)
        except (KeyError, IndexError, TypeError):
            raise RunFolderError(
                f"{checkpoint} does not match its config at {jax.tree_util.keystr(path)}; use the "
                "version of Brigade that wrote it"
            ) from None
        return _as_leaf(leaf, node)

    return jax.tree_util.tree_map_with_path(restore, like)


def has_deleted_arrays(state: Any) -> bool:
    """Whether an update has started to overwrite a training state."""
    leaves = jax.tree.leaves(state)
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)


def plain_arrays(state: Any) -> Any:
    """The state as NumPy arrays, random keys as their key data."""

    return jax.tree.map(lambda leaf: np.asarray(_stored(leaf)), state)


def _stored(leaf: Any) -> Any:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def _as_leaf(like: Any, leaf: Any) -> Any:
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(leaf))
    return jnp.asarray(leaf)

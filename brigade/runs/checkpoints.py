"""The training state of a run as plain arrays, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.runs.assemble import Parts, abstract_state
from brigade.runs.config import RunConfig
from brigade.runs.extend import fit_leaf, fit_position, fit_record, fits_into
from brigade.runs.folder import RunFolder, RunFolderError, read_npz, restore_state
from brigade.train import Position, Record
from brigade.train.trainer import TrainState, stack_sequences

NUMBERS_PER_TASK = 10**10  # for checkpoints; a task has fewer updates than this


def checkpoint_number(task: int, update: int) -> int:
    """The number of a checkpoint; later ones have larger numbers.

    Earlier versions used 10**6 numbers per task. Their numbers are smaller than those that follow,
    so their runs can be resumed.
    """
    return task * NUMBERS_PER_TASK + update


def last_position(
    folder: RunFolder, parts: Parts, config: RunConfig, warn: Callable[[str], None]
) -> tuple[Position, float] | None:
    """Where to resume, and the seconds trained so far; None if there is no valid checkpoint."""
    too_late = False
    for path in folder.valid_checkpoints(warn):
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        record = Record.from_arrays(read_npz(path / "record.npz"))
        more_tasks = len(record.task_names) < config.tasks
        fit_record(record, parts)
        state = read_state(path, parts, more_tasks)
        position = fit_position(
            Position(meta["task"], meta["update"], state, record), config, parts.trainer.method
        )
        if position is not None:
            folder.truncate_log(meta["log_size"])
            return position, meta["seconds"]
        too_late = True
    if too_late:
        raise RunFolderError(
            f"the last task of {folder.path} cannot be trained longer: the method has finished it, "
            "and there is no checkpoint from before; add --tasks, or start a new run"
        )
    return None


def read_state(checkpoint: Path, parts: Parts, more_tasks: bool = False) -> TrainState:
    """The training state of a checkpoint; with `more_tasks`, it may lack entries of new tasks."""
    found = restore_state(checkpoint)
    source = found["source"]
    if "carry" in source:  # written by versions that had no partners in the state
        source["memory"] = {"learner": source.pop("carry"), "cast": []}
    like = initial_state(parts) if more_tasks else abstract_state(parts)
    state: TrainState = restore_like(like, found, checkpoint, more_tasks)
    return state


def read_policies(checkpoint: Path, parts: Parts, more_tasks: bool = False) -> tuple[Any, Any, Any]:
    """The parameters, the method state and whatever else the learner keeps, of a checkpoint."""
    found = restore_state(checkpoint)
    like = initial_state(parts) if more_tasks else abstract_state(parts)
    params, aux, memory = (
        restore_like(mine, theirs, checkpoint, more_tasks)
        for mine, theirs in (
            (like.learner.params, found["learner"]["params"]),
            (like.learner.aux, found["learner"].get("aux")),
            (like.memory, found["memory"]),
        )
    )
    return params, memory, aux


def initial_state(parts: Parts) -> TrainState:
    """The state before training."""
    rounds = stack_sequences(parts.sequences, parts.table.pairings)
    return parts.trainer.init(parts.seeds, rounds, parts.table.cast, parts.table.params)


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
            shape = _stored_shape(leaf).shape
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

    def plain(leaf: Any) -> np.ndarray:
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(plain, state)


def _stored_shape(leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.eval_shape(jax.random.key_data, leaf)
    return leaf


def _as_leaf(like: Any, leaf: Any) -> Any:
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(leaf))
    return jnp.asarray(leaf)

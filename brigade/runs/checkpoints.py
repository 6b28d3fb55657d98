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
from brigade.runs.folder import RunFolder, RunFolderError, read_npz, restore_state
from brigade.train import Position, Record
from brigade.train.trainer import TrainState

NUMBERS_PER_TASK = 10**10  # for checkpoints; a task has fewer updates than this


def checkpoint_number(task: int, update: int) -> int:
    """The number of a checkpoint; later ones have larger numbers.

    Earlier versions used 10**6 numbers per task. Their numbers are smaller than those that follow,
    so their runs can be resumed.
    """
    return task * NUMBERS_PER_TASK + update


def last_position(
    folder: RunFolder, parts: Parts, warn: Callable[[str], None]
) -> tuple[Position, float] | None:
    """Where to resume, and the seconds trained so far; None if there is no valid checkpoint."""
    for path in folder.valid_checkpoints(warn):
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        record = Record.from_arrays(read_npz(path / "record.npz"))
        folder.truncate_log(meta["log_size"])
        position = Position(meta["task"], meta["update"], read_state(path, parts), record)
        return position, meta["seconds"]
    return None


def read_state(checkpoint: Path, parts: Parts) -> TrainState:
    """The training state of a checkpoint."""
    found = restore_state(checkpoint)
    source = found["source"]
    if "carry" in source:  # written by versions that had no partners in the state
        source["memory"] = {"learner": source.pop("carry"), "cast": []}
    state: TrainState = restore_like(abstract_state(parts), found, checkpoint)
    return state


def read_policies(checkpoint: Path, parts: Parts) -> tuple[Any, Any, Any]:
    """The parameters, the method state and whatever else the learner keeps, of a checkpoint."""
    like, found = abstract_state(parts), restore_state(checkpoint)
    params = restore_like(like.learner.params, found["learner"]["params"], checkpoint)
    aux = restore_like(like.learner.aux, found["learner"].get("aux"), checkpoint)
    return params, restore_like(like.memory, found["memory"], checkpoint), aux


def restore_like(like: Any, found: Any, checkpoint: Path) -> Any:
    """The arrays of a checkpoint in a pytree like `like`, each looked up by its path."""

    def restore(path: tuple[Any, ...], leaf: Any) -> Any:
        node = found
        try:
            for key in path:
                name = getattr(key, "name", getattr(key, "key", getattr(key, "idx", None)))
                node = node[name]
            if np.shape(node) != _stored_shape(leaf).shape:
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

"""Start a run, resume one, or load a finished one."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade import __version__
from brigade.errors import UserError
from brigade.metrics.record import with_all_axes
from brigade.runs.assemble import Parts, abstract_state, assemble
from brigade.runs.config import Experiment, from_dict, from_json
from brigade.runs.folder import (
    RunFolder,
    RunFolderError,
    npz_bytes,
    read_npz,
    restore_state,
)
from brigade.runs.partner_files import copy_files, name_by_hash
from brigade.train import (
    Position,
    Progress,
    Record,
)
from brigade.train.trainer import TrainState

SAME_PRESS_SECONDS = 0.3  # signals closer together count as one
LOG_SECONDS = 1.0  # the log is written at most this often: each time the device has to wait
NUMBERS_PER_TASK = 10**10  # for checkpoints; a task has fewer updates than this


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder and its evaluations."""

    path: Path
    experiment: Experiment
    returns: dict[str, np.ndarray]


@dataclass(frozen=True)
class LoadedRun:
    """A run from disk, with policies that can act. `params` has leaves [seeds, ...]."""

    path: Path
    experiment: Experiment
    returns: dict[str, np.ndarray]
    parts: Parts
    params: Any
    method_state: Any
    last_task: int = 0  # the task trained last, from 0

    def acting_params(self, seed: int, task: int) -> Any:
        """The parameters that act on a task; both are indices from 0."""
        params, method_state = (
            jax.tree.map(lambda leaf: leaf[seed], tree) for tree in (self.params, self.method_state)
        )
        task_id = self.parts.sequences[seed].tasks.id[task]
        return self.parts.trainer.method.acting_params(method_state, params, task_id)


Watch = Callable[[Progress, Position, Experiment], None]


def run(
    config: Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    checkpoint_minutes: float = 5.0,
    on_start: Callable[[], None] | None = None,
    watch: Watch | None = None,
) -> RunResult:
    """Do what `brigade run` does; `config` is an experiment or a dictionary like a config file.

    `on_start` is called once all settings are checked, `watch` after every update.
    """
    experiment = config if isinstance(config, Experiment) else from_dict(config)
    parts = assemble(experiment)
    path = Path(out) if out is not None else default_path(experiment)
    folder = RunFolder.create(path, experiment.as_json(__version__))
    copy_files(name_by_hash(experiment.as_dict())[1], path)
    save_pictures(parts, folder)
    if on_start is not None:
        on_start()
    return _train(experiment, parts, folder, None, 0.0, checkpoint_minutes, watch)


def resume(
    path: str | Path,
    *,
    trust: bool = False,
    checkpoint_minutes: float = 5.0,
    on_start: Callable[[], None] | None = None,
    watch: Watch | None = None,
    warn: Callable[[str], None] = print,
) -> RunResult:
    """Continue a run from its last valid checkpoint; it ends as if it had never stopped."""
    folder = RunFolder.open(Path(path))
    experiment = read_experiment(folder, trust)
    folder.lock()
    parts = assemble(experiment)
    found = last_position(folder, parts, warn)
    if on_start is not None and not (found and is_finished(found[0], experiment)):
        on_start()
    if found is None:
        folder.truncate_log(0)
        return _train(experiment, parts, folder, None, 0.0, checkpoint_minutes, watch)
    position, seconds = found
    return _train(experiment, parts, folder, position, seconds, checkpoint_minutes, watch)


def load(
    path: str | Path, *, trust: bool = False, warn: Callable[[str], None] = print
) -> LoadedRun:
    """Load a run's config and evaluations, and the policies of its last checkpoint."""
    folder = RunFolder.open(Path(path))
    experiment = read_experiment(folder, trust)
    parts = assemble(experiment)
    for checkpoint in folder.valid_checkpoints(warn):
        params, method_state = read_policies(checkpoint, parts)
        returns = with_all_axes(read_npz(checkpoint / "record.npz"))  # up to this checkpoint
        meta = json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))
        task = meta["task"] % len(parts.sequences[0])
        return LoadedRun(folder.path, experiment, returns, parts, params, method_state, task)
    raise RunFolderError(
        f"{path} has no valid checkpoint to load policies from; continue it with 'brigade resume'"
    )


def is_finished(position: Position, experiment: Experiment) -> bool:
    """Whether all tasks are trained."""
    last = (experiment.config.total_tasks - 1, experiment.config.updates_per_task)
    return (position.task, position.update) == last


def read_experiment(folder: RunFolder, trust: bool) -> Experiment:
    """The experiment of a run folder. Python files its config names need `trust`."""
    text = folder.read_config()
    try:
        config = json.loads(text).get("config", {})
        files = [text for text in strings(config) if ".py:" in text]
    except (json.JSONDecodeError, AttributeError) as error:
        raise RunFolderError(f"{folder.path}/config.json is damaged: {error}") from error
    if files and not trust:
        raise UserError(
            f"{folder.path} executes code from {files[0]}; add --trust if you trust that file"
        )
    return from_json(text, folder.path)


def strings(tree: Any) -> Iterator[str]:
    """All strings in a tree of settings."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping | list):
        for value in tree.values() if isinstance(tree, Mapping) else tree:
            yield from strings(value)


def default_path(experiment: Experiment) -> Path:
    """runs/BENCHMARK-METHOD-DATE, or with the generator instead of the method."""
    config = experiment.config
    algorithm = config.method if config.generator == "none" else config.generator
    name = f"{config.benchmark}-{Path(algorithm).name}".replace("/", "-").replace(":", "-")
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def save_pictures(parts: Parts, folder: RunFolder) -> None:
    """Save a picture of every task, if the environment can draw one."""
    env = parts.benchmark.env
    if env.picture(parts.sequences[0][0]) is None:
        return
    from PIL import Image

    (folder.path / "pictures").mkdir()
    for seed, sequence in zip(parts.seeds, parts.sequences, strict=True):
        for task in range(len(sequence)):
            path = folder.path / "pictures" / f"seed{seed}-task{task + 1}.png"
            Image.fromarray(env.picture(sequence[task])).save(path)


def _train(
    experiment: Experiment,
    parts: Parts,
    folder: RunFolder,
    position: Position | None,
    seconds_before: float,
    checkpoint_minutes: float,
    watch: Watch | None,
) -> RunResult:
    """The loop of a run: train, log, save."""
    config = experiment.config
    writer = RunWriter(folder, time.monotonic() - seconds_before, checkpoint_minutes)
    updates = parts.trainer.run(
        parts.sequences,
        parts.evaluator,
        seeds=parts.seeds,
        updates_per_task=config.updates_per_task,
        eval_every=config.eval_every,
        repetitions=config.repetitions,
        position=position,
        table=parts.table,
    )
    try:
        for progress, now in until_ctrl_c(updates):
            position = now
            writer.add(progress, now, progress.update == config.updates_per_task)
            if watch is not None:
                watch(progress, now, experiment)
    except KeyboardInterrupt:
        if position is not None and not has_deleted_arrays(position.state):
            writer.save(position)
        raise
    if position is None:
        raise RunFolderError(f"{folder.path}: there is nothing to train")
    writer.flush()
    arrays = position.record.arrays()
    folder.write_returns(arrays)
    return RunResult(folder.path, experiment, arrays)


def until_ctrl_c(updates: Iterator[tuple[Progress, Position]]) -> Iterator[Any]:
    """Yield updates until Ctrl-C, which takes effect after the current update.

    Within an update the training state cannot be saved: the update overwrites its arrays. Pressed
    again, Ctrl-C stops at once. `timeout` and similar tools send their signal twice in a row, which
    counts as one press.
    """
    if threading.current_thread() is not threading.main_thread():  # only it receives signals
        yield from updates
        return
    pressed: float | None = None

    def on_signal(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed is not None and time.monotonic() - pressed > SAME_PRESS_SECONDS:
            signal.default_int_handler(number, frame)
        pressed = pressed or time.monotonic()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        for update in updates:
            yield update
            if pressed is not None:
                raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, before)


def has_deleted_arrays(state: Any) -> bool:
    """Whether an update has started to overwrite a training state."""
    leaves = jax.tree.leaves(state)
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)


class RunWriter:
    """Writes the log, the evaluations and the checkpoints of a run."""

    def __init__(self, folder: RunFolder, start_time: float, checkpoint_minutes: float) -> None:
        self.folder, self.start_time = folder, start_time
        self.interval = 60.0 * checkpoint_minutes
        self.saved = self.logged = time.monotonic()
        self.pending: list[tuple[Progress, float]] = []

    def add(self, progress: Progress, position: Position, task_ended: bool) -> None:
        """Log an update; save a checkpoint after every task and every few minutes."""
        now = time.monotonic()
        if progress.update:
            self.pending.append((progress, now - self.start_time))
        if progress.evaluated:
            self.folder.write_returns(position.record.arrays())
        if progress.evaluated or now - self.logged > LOG_SECONDS:
            self.flush()
        if task_ended or now - self.saved >= self.interval:
            self.save(position)

    def flush(self) -> None:
        """Write the pending rows of the log."""
        rows = [
            {
                "task": progress.task,
                "update": progress.update,
                "steps": progress.steps,
                "seconds": round(seconds, 3),
                "metrics": {name: plain_numbers(value) for name, value in progress.metrics.items()},
            }
            for progress, seconds in self.pending
        ]
        self.folder.append_log(rows)
        self.pending, self.logged = [], time.monotonic()

    def save(self, position: Position) -> None:
        """Write a checkpoint."""
        self.flush()
        meta = {
            "task": position.task,
            "update": position.update,
            "log_size": self.folder.log_size(),
            "seconds": time.monotonic() - self.start_time,
        }
        files = {
            "meta.json": json.dumps(meta).encode(),
            "record.npz": npz_bytes(position.record.arrays()),
        }
        number = checkpoint_number(position.task, position.update)
        self.folder.save_checkpoint(number, plain_arrays(position.state), files)
        self.saved = time.monotonic()


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


def read_policies(checkpoint: Path, parts: Parts) -> tuple[Any, Any]:
    """The parameters and the method state of a checkpoint, without the environments."""
    like, found = abstract_state(parts), restore_state(checkpoint)
    params = restore_like(like.learner.params, found["learner"]["params"], checkpoint)
    return params, restore_like(like.memory, found["memory"], checkpoint)


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


def plain_numbers(values: Any) -> Any:
    """Lists for JSON; nan, which JSON lacks, becomes None."""
    array = np.asarray(values).astype(object)
    array[np.isnan(np.asarray(values))] = None
    return array.tolist()


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


__all__ = ["LoadedRun", "RunResult", "assemble", "load", "resume", "run"]

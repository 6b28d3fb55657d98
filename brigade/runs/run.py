"""Start a run, take one up again, load one that is there."""

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
from brigade.runs.kept import by_content, keep_files
from brigade.train import (
    Position,
    Progress,
    Record,
)
from brigade.train.trainer import TrainState

SAME_PRESS_SECONDS = 0.3  # signals closer together are one
LOG_SECONDS = 1.0  # the log is written at most this often, so that the device need not wait for it
NUMBERS_PER_TASK = 10**10  # of checkpoints: more than a task can have updates


@dataclass(frozen=True)
class RunResult:
    """A finished run: where it is and what it recorded."""

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
    memory: Any
    last_task: int = 0  # the one that was learned last, from 0

    def acting_params(self, seed: int, task: int) -> Any:
        """What to act with on a task; both count from 0, `seed` is a place in the run."""
        params, memory = (
            jax.tree.map(lambda leaf: leaf[seed], tree) for tree in (self.params, self.memory)
        )
        task_id = self.parts.sequences[seed].tasks.id[task]
        return self.parts.trainer.method.acting_params(memory, params, task_id)


Watch = Callable[[Progress, Position, Experiment], None]


def run(
    config: Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    checkpoint_minutes: float = 5.0,
    begin: Callable[[], None] | None = None,
    watch: Watch | None = None,
) -> RunResult:
    """Do what `brigade run` does: `config` is an experiment or a dictionary like a config file.

    `begin` is called when everything is checked and work starts, `watch` after every update.
    """
    experiment = config if isinstance(config, Experiment) else from_dict(config)
    parts = assemble(experiment)
    path = Path(out) if out is not None else default_path(experiment)
    folder = RunFolder.create(path, experiment.as_json(__version__))
    keep_files(by_content(experiment.as_dict())[1], path)
    save_pictures(parts, folder)
    if begin is not None:
        begin()
    return _carry_on(experiment, parts, folder, None, 0.0, checkpoint_minutes, watch)


def resume(
    path: str | Path,
    *,
    trust: bool = False,
    checkpoint_minutes: float = 5.0,
    begin: Callable[[], None] | None = None,
    watch: Watch | None = None,
    complain: Callable[[str], None] = print,
) -> RunResult:
    """Take a run up at its last sound checkpoint; it ends as if it had never stopped."""
    folder = RunFolder.open(Path(path))
    experiment = read_experiment(folder, trust)
    folder.lock()
    parts = assemble(experiment)
    found = last_position(folder, parts, complain)
    if begin is not None and not (found and is_finished(found[0], experiment)):
        begin()
    if found is None:
        folder.cut_log(0)
        return _carry_on(experiment, parts, folder, None, 0.0, checkpoint_minutes, watch)
    position, seconds = found
    return _carry_on(experiment, parts, folder, position, seconds, checkpoint_minutes, watch)


def load(
    path: str | Path, *, trust: bool = False, complain: Callable[[str], None] = print
) -> LoadedRun:
    """Read a run's config, evaluations and the policies of its last checkpoint."""
    folder = RunFolder.open(Path(path))
    experiment = read_experiment(folder, trust)
    parts = assemble(experiment)
    for checkpoint in folder.sound_checkpoints(complain):
        params, memory = read_policies(checkpoint, parts)
        returns = with_all_axes(read_npz(checkpoint / "record.npz"))  # as these policies did
        meta = json.loads((checkpoint / "meta.json").read_text(encoding="utf-8"))
        task = meta["task"] % len(parts.sequences[0])
        return LoadedRun(folder.path, experiment, returns, parts, params, memory, task)
    raise RunFolderError(f"{path} has no sound checkpoint yet, so no policy to load")


def is_finished(position: Position, experiment: Experiment) -> bool:
    """Whether nothing is left to do."""
    last = (experiment.config.tasks_in_all - 1, experiment.config.updates_per_task)
    return (position.task, position.update) == last


def read_experiment(folder: RunFolder, trust: bool) -> Experiment:
    """A run's experiment. Code that its config only points at is not run unless it is trusted."""
    text = folder.read_config()
    try:
        config = json.loads(text).get("config", {})
        files = [text for text in texts(config) if ".py:" in text]
    except (json.JSONDecodeError, AttributeError) as error:
        raise RunFolderError(f"{folder.path}/config.json is damaged: {error}") from error
    if files and not trust:
        raise UserError(
            f"{folder.path} uses code from {files[0]}; add --trust if you trust that file"
        )
    return from_json(text, folder.path)


def texts(tree: Any) -> Iterator[str]:
    """All texts in a tree of settings."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping | list):
        for value in tree.values() if isinstance(tree, Mapping) else tree:
            yield from texts(value)


def default_path(experiment: Experiment) -> Path:
    """runs/ plus what and when."""
    config = experiment.config
    how = config.method if config.generator == "none" else config.generator
    name = f"{config.benchmark}-{Path(how).name}".replace("/", "-").replace(":", "-")
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def save_pictures(parts: Parts, folder: RunFolder) -> None:
    """A picture of every task, where the environment can draw one."""
    picture = getattr(parts.benchmark.env, "picture", None)
    if picture is None:
        return
    from PIL import Image

    (folder.path / "pictures").mkdir()
    for seed, sequence in zip(parts.seeds, parts.sequences, strict=True):
        for task in range(len(sequence)):
            path = folder.path / "pictures" / f"seed{seed}-task{task + 1}.png"
            Image.fromarray(picture(sequence[task])).save(path)


def _carry_on(
    experiment: Experiment,
    parts: Parts,
    folder: RunFolder,
    position: Position | None,
    seconds_before: float,
    checkpoint_minutes: float,
    watch: Watch | None,
) -> RunResult:
    """The loop of a run: learn, log, save."""
    config = experiment.config
    keeper = Keeper(folder, time.monotonic() - seconds_before, checkpoint_minutes)
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
        for progress, now in heeding_ctrl_c(updates):
            position = now
            keeper.note(progress, now, progress.update == config.updates_per_task)
            if watch is not None:
                watch(progress, now, experiment)
    except KeyboardInterrupt:
        if position is not None and is_whole(position.state):
            keeper.save(position)
        raise
    if position is None:
        raise RunFolderError(f"{folder.path}: nothing to do")
    keeper.flush()
    arrays = position.record.arrays()
    folder.write_returns(arrays)
    return RunResult(folder.path, experiment, arrays)


def heeding_ctrl_c(updates: Iterator[tuple[Progress, Position]]) -> Iterator[Any]:
    """Go on until Ctrl-C, then to the end of the update, which overwrites the state it began with.

    Pressed again, it stops at once; `timeout` and the like send their signal twice for one.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one hears signals
        yield from updates
        return
    pressed: float | None = None

    def remember(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed is not None and time.monotonic() - pressed > SAME_PRESS_SECONDS:
            signal.default_int_handler(number, frame)
        pressed = pressed or time.monotonic()

    before = signal.signal(signal.SIGINT, remember)
    try:
        for update in updates:
            yield update
            if pressed is not None:
                raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, before)


def is_whole(state: Any) -> bool:
    """Whether no update has begun to overwrite a training state."""
    leaves = jax.tree.leaves(state)
    return not any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)


class Keeper:
    """Writes what a run must not lose."""

    def __init__(self, folder: RunFolder, began: float, checkpoint_minutes: float) -> None:
        self.folder, self.began = folder, began
        self.interval = 60.0 * checkpoint_minutes
        self.saved = self.logged = time.monotonic()
        self.waiting: list[tuple[Progress, float]] = []

    def note(self, progress: Progress, position: Position, task_ended: bool) -> None:
        """Log an update; save at every end of a task and every few minutes."""
        now = time.monotonic()
        if progress.update:
            self.waiting.append((progress, now - self.began))
        if progress.evaluated:
            self.folder.write_returns(position.record.arrays())
        if progress.evaluated or now - self.logged > LOG_SECONDS:
            self.flush()
        if task_ended or now - self.saved >= self.interval:
            self.save(position)

    def flush(self) -> None:
        """Write the log lines that wait."""
        rows = [
            {
                "task": progress.task,
                "update": progress.update,
                "steps": progress.steps,
                "seconds": round(seconds, 3),
                "metrics": {name: plain_numbers(value) for name, value in progress.metrics.items()},
            }
            for progress, seconds in self.waiting
        ]
        self.folder.append_log(rows)
        self.waiting, self.logged = [], time.monotonic()

    def save(self, position: Position) -> None:
        """Write a checkpoint."""
        self.flush()
        meta = {
            "task": position.task,
            "update": position.update,
            "log_size": self.folder.log_size(),
            "seconds": time.monotonic() - self.began,
        }
        files = {
            "meta.json": json.dumps(meta).encode(),
            "record.npz": npz_bytes(position.record.arrays()),
        }
        number = checkpoint_number(position.task, position.update)
        self.folder.save_checkpoint(number, plain_arrays(position.state), files)
        self.saved = time.monotonic()


def checkpoint_number(task: int, update: int) -> int:
    """Later checkpoints have larger numbers.

    Earlier versions counted 10**6 to a task. What they saved keeps a smaller number than whatever
    follows it, so a run of theirs can be taken up.
    """
    return task * NUMBERS_PER_TASK + update


def last_position(
    folder: RunFolder, parts: Parts, complain: Callable[[str], None]
) -> tuple[Position, float] | None:
    """Where a run can be taken up, and how many seconds it had run; None at its very start."""
    for path in folder.sound_checkpoints(complain):
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        record = Record.from_arrays(read_npz(path / "record.npz"))
        folder.cut_log(meta["log_size"])
        position = Position(meta["task"], meta["update"], read_state(path, parts), record)
        return position, meta["seconds"]
    return None


def read_state(checkpoint: Path, parts: Parts) -> TrainState:
    """The training state of a checkpoint."""
    found = restore_state(checkpoint)
    source = found["source"]
    if "carry" in source:  # of runs before partners were data: the learner's memory alone
        source["memory"] = {"learner": source.pop("carry"), "cast": []}
    state: TrainState = filled(abstract_state(parts), found, checkpoint)
    return state


def read_policies(checkpoint: Path, parts: Parts) -> tuple[Any, Any]:
    """Parameters and the method's memory of a checkpoint; where games stood does not matter."""
    like, found = abstract_state(parts), restore_state(checkpoint)
    params = filled(like.learner.params, found["learner"]["params"], checkpoint)
    return params, filled(like.memory, found["memory"], checkpoint)


def filled(like: Any, found: Any, checkpoint: Path) -> Any:
    """The arrays of a checkpoint in the form of `like`, each found by its path."""

    def fill(path: tuple[Any, ...], leaf: Any) -> Any:
        node = found
        try:
            for key in path:
                name = getattr(key, "name", getattr(key, "key", getattr(key, "idx", None)))
                node = node[name]
            if np.shape(node) != _plain_shape(leaf).shape:
                raise KeyError(name)
        except (KeyError, IndexError, TypeError):
            raise RunFolderError(
                f"{checkpoint} does not fit its config at {jax.tree_util.keystr(path)}; it was "
                "written by another version of Brigade: go on with that one"
            ) from None
        return _as_it_was(leaf, node)

    return jax.tree_util.tree_map_with_path(fill, like)


def plain_numbers(values: Any) -> Any:
    """Lists for JSON, which has no nan."""
    array = np.asarray(values).astype(object)
    array[np.isnan(np.asarray(values))] = None
    return array.tolist()


def plain_arrays(state: Any) -> Any:
    """Random keys as the numbers they are, everything on the host."""

    def plain(leaf: Any) -> np.ndarray:
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(plain, state)


def _plain_shape(leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.eval_shape(jax.random.key_data, leaf)
    return leaf


def _as_it_was(like: Any, leaf: Any) -> Any:
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(leaf))
    return jnp.asarray(leaf)


__all__ = ["LoadedRun", "RunResult", "assemble", "load", "resume", "run"]

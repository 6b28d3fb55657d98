"""Start a run, take one up again, load one that is there."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade import __version__
from brigade.core import (
    Benchmark,
    ContinualMethod,
    Environment,
    Learner,
    LearnerSettings,
    TaskSequence,
)
from brigade.errors import UserError
from brigade.partners import SeatedPolicy
from brigade.runs.config import Experiment, RunConfig, from_dict, from_json
from brigade.runs.folder import (
    RunFolder,
    RunFolderError,
    npz_bytes,
    read_npz,
    restore_state,
)
from brigade.train import DeviceSource, Evaluator, Position, Progress, Record, Trainer
from brigade.train.trainer import TrainState, stack_sequences

SAME_PRESS_SECONDS = 0.3  # signals closer together are one
LOG_SECONDS = 1.0  # the log is written at most this often, so that the device need not wait for it


@dataclass(frozen=True)
class Parts:
    """What an experiment is made of."""

    benchmark: Benchmark
    sequences: list[TaskSequence]
    learner: Learner
    trainer: Trainer
    evaluator: Evaluator
    seeds: list[int]


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

    def acting_params(self, seed: int, task: int) -> Any:
        """What to act with on a task; both count from 0, `seed` is a place in the run."""
        params, memory = (
            jax.tree.map(lambda leaf: leaf[seed], tree) for tree in (self.params, self.memory)
        )
        task_id = self.parts.sequences[seed].tasks.id[task]
        return self.parts.trainer.method.acting_params(memory, params, task_id)


Watch = Callable[[Progress, Position, Experiment], None]


def assemble(experiment: Experiment) -> Parts:
    """Build everything an experiment names; compiles nothing."""
    config, benchmark = experiment.config, experiment.benchmark()
    seeds = range(config.seed, config.seed + config.seeds)
    steps = int(config.steps_per_task)
    try:
        sequences = [benchmark.sequence(seed, config.tasks, steps) for seed in seeds]
    except ValueError as error:  # settings that are sound alone and do not fit together
        raise UserError(str(error)) from error
    return assemble_with(
        experiment.learner, experiment.method, config, benchmark, sequences, list(seeds)
    )


def assemble_with(
    settings: LearnerSettings,
    method: ContinualMethod,
    config: RunConfig,
    benchmark: Benchmark,
    sequences: list[TaskSequence],
    seeds: list[int],
) -> Parts:
    """The parts for these sequences, one for each of the seeds."""
    env, seats = benchmark.env, benchmark.learner_seats
    try:
        learner = settings.build(
            env,
            num_tasks=config.tasks,
            updates_per_task=config.updates_per_task,
            changing_inputs=changing_inputs(env, sequences),
        )
        if seats and hasattr(learner, "seated"):
            learner = learner.seated(seats)
        method.check(learner, config.repetitions)
    except ValueError as error:
        raise UserError(str(error)) from error
    policy = method.wrap_policy(learner.policy)
    if benchmark.partner is not None:
        policy = SeatedPolicy(policy, benchmark.partner, (), seats)
    source = DeviceSource(env, policy, config.num_envs, config.num_steps)
    evaluator = Evaluator(env, policy, method, config.eval_episodes, config.greedy)
    trainer = Trainer(source, learner, method)
    parts = Parts(benchmark, sequences, learner, trainer, evaluator, seeds)
    check_shapes(parts)
    return parts


def changing_inputs(env: Environment, sequences: Sequence[TaskSequence]) -> int | None:
    """The most entries of an observation that change within a task; None where nobody knows."""
    count = getattr(env, "changing_inputs", None)
    return max(count(sequence.tasks) for sequence in sequences) if count else None


def check_shapes(parts: Parts) -> None:
    """Find out now what would fail when compiled: minibatches that do not divide, for example."""
    try:
        abstract_state(parts)
    except ValueError as error:
        raise UserError(str(error)) from error


def abstract_state(parts: Parts) -> TrainState:
    """Shapes of the training state, without computing it."""
    tasks = stack_sequences(parts.sequences)
    state: TrainState = jax.eval_shape(lambda t: parts.trainer.init(parts.seeds, t), tasks)
    return state


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
    state = None
    for checkpoint in folder.sound_checkpoints(complain):
        state = read_state(checkpoint, parts)
        break
    if state is None:
        raise RunFolderError(f"{path} has no sound checkpoint yet, so no policy to load")
    returns = folder.read_returns()
    return LoadedRun(folder.path, experiment, returns, parts, state.learner.params, state.memory)


def is_finished(position: Position, experiment: Experiment) -> bool:
    """Whether nothing is left to do."""
    last = (experiment.config.tasks_in_all - 1, experiment.config.updates_per_task)
    return (position.task, position.update) == last


def read_experiment(folder: RunFolder, trust: bool) -> Experiment:
    """A run's experiment. Code that its config only points at is not run unless it is trusted."""
    text = folder.read_config()
    try:
        config = json.loads(text).get("config", {})
        files = [v for v in config.values() if isinstance(v, str) and ".py:" in v]
    except (json.JSONDecodeError, AttributeError) as error:
        raise RunFolderError(f"{folder.path}/config.json is damaged: {error}") from error
    if files and not trust:
        raise UserError(
            f"{folder.path} uses code from {files[0]}; add --trust if you trust that file"
        )
    return from_json(text)


def default_path(experiment: Experiment) -> Path:
    """runs/ plus what and when."""
    config = experiment.config
    name = f"{config.benchmark}-{Path(config.method).name}".replace("/", "-").replace(":", "-")
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
        number = position.task * 1_000_000 + position.update
        self.folder.save_checkpoint(number, plain_arrays(position.state), files)
        self.saved = time.monotonic()


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
    like = abstract_state(parts)
    shapes = jax.tree.map(_plain_shape, like)
    restored = restore_state(checkpoint, jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), shapes))
    return jax.tree.map(_as_it_was, like, restored)


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

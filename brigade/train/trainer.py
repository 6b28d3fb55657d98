"""The loop around it all: tasks, phases, updates and evaluations, several seeds side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import (
    Array,
    ContinualMethod,
    Key,
    Learner,
    LearnerState,
    Metrics,
    Source,
    TaskSequence,
    Trajectory,
)
from brigade.core.checks import at_least
from brigade.train.compile import jit
from brigade.train.evaluate import Evaluator, event_names
from brigade.train.seeds import over_seeds
from brigade.train.update import update as learn_from


class TrainState(struct.PyTreeNode):
    """Everything a run carries on. Leaves [seeds, ...]."""

    learner: LearnerState
    memory: Any  # the method's
    source: Any  # the source's
    key: Key


@dataclass(frozen=True)
class Progress:
    """News of a run, once per update."""

    task: int  # counted on over repetitions
    update: int  # of this task, from 1; 0 before the first of the run
    steps: int  # environment steps of the whole run so far, per seed
    metrics: dict[str, Array]  # means over the update, [seeds]
    evaluated: bool  # the record has grown


@dataclass
class Record:
    """What a run leaves behind: the evaluations, with axes [eval, task, partner, seed, episode]."""

    task_names: tuple[str, ...]
    steps_per_task: int
    seeds: tuple[int, ...]
    repetitions: int = 1
    event_names: tuple[str, ...] = ()
    horizon: int = 0  # steps of a game, to set events against
    steps: list[int] = field(default_factory=list)  # environment steps at each evaluation
    score: list[np.ndarray] = field(default_factory=list)
    returns: list[np.ndarray] = field(default_factory=list)
    events: list[np.ndarray] = field(default_factory=list)  # [task, seed, seat, kind] per episode

    AXES: ClassVar[tuple[str, ...]] = ("eval", "task", "partner", "seed", "episode")

    def arrays(self) -> dict[str, np.ndarray]:
        """`steps` [eval], `task_ends` [task], `score` and `returns` as above, and their names.

        Where a sequence is repeated, `task_ends` are those of the last time. `events` are
        [eval, task, seed, seat, kind], means over episodes.
        """
        before = (self.repetitions - 1) * len(self.task_names)
        ends = self.steps_per_task * (before + np.arange(1, len(self.task_names) + 1))
        told = {}
        if self.event_names:
            told = {
                "events": np.stack(self.events),
                "event_names": np.array(self.event_names),
                "horizon": np.array(self.horizon, np.int64),
            }
        return told | {
            "score": np.stack(self.score),
            "returns": np.stack(self.returns),
            "steps": np.asarray(self.steps, np.int64),
            "task_ends": ends.astype(np.int64),
            "task_names": np.array(self.task_names),
            "seeds": np.array(self.seeds, np.int64),
            "repetitions": np.array(self.repetitions, np.int64),
            "axes": np.array(self.AXES),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Record:
        """The inverse of `arrays`."""
        repetitions = int(arrays["repetitions"])
        return cls(
            task_names=tuple(arrays["task_names"].tolist()),
            steps_per_task=int(arrays["task_ends"][-1])
            // (repetitions * len(arrays["task_names"])),
            seeds=tuple(arrays["seeds"].tolist()),
            repetitions=repetitions,
            event_names=tuple(arrays["event_names"].tolist()) if "events" in arrays else (),
            horizon=int(arrays.get("horizon", 0)),
            steps=arrays["steps"].tolist(),
            score=list(arrays["score"]),
            returns=list(arrays["returns"]),
            events=list(arrays["events"]) if "events" in arrays else [],
        )


@dataclass
class Position:
    """Where a run stands: everything needed to go on."""

    task: int  # counted on over repetitions
    update: int  # the last one finished
    state: TrainState
    record: Record


@dataclass(frozen=True)
class Trainer:
    """One compiled step serves every task of every sequence of the same shape.

    Seeds run side by side: each has its own tasks, parameters and randomness. The index of the
    task is an argument, not part of the program, so no task is traced twice.
    """

    source: Source
    learner: Learner
    method: ContinualMethod
    devices: int | None = None  # at most so many share the seeds; None for all there are

    def init(self, seeds: Sequence[int], tasks: Any) -> TrainState:
        """Fresh parameters and memory for every seed; `tasks` leaves [seeds, num_tasks, ...]."""
        # One seed after the other: XLA's batched QR (orthogonal weights) can block for ever on a
        # machine with two cores.
        states = [
            _init(self, jax.random.key(seed), pick_task(tasks, row))
            for row, seed in enumerate(seeds)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    def begin_task(self, state: TrainState, tasks: Any, index: int) -> TrainState:
        """Fresh games of the task; schedules start again."""
        return _begin_task(self, state, tasks, jnp.int32(index))

    def step(self, state: TrainState, tasks: Any, index: int) -> tuple[TrainState, Metrics]:
        """Collect one rollout and learn from it. Gives `state` away: use the returned one."""
        return _step(self, state, tasks, jnp.int32(index))

    def end_phase(self, state: TrainState, tasks: Any, index: int, phase: str) -> TrainState:
        """Let the method take stock on fresh experience."""
        return _end_phase(self, phase, state, tasks, jnp.int32(index))

    def run(
        self,
        sequences: Sequence[TaskSequence],
        evaluator: Evaluator,
        *,
        seeds: Sequence[int],
        updates_per_task: int,
        eval_every: int,
        repetitions: int = 1,
        position: Position | None = None,
    ) -> Iterator[tuple[Progress, Position]]:
        """Train one sequence per seed, from the start or from a position, one update at a time.

        `repetitions` go through the sequence so often: the same tasks with the same heads.

        Evaluations come before the first update of the run, after every `eval_every` updates and
        at the end of every task. The yielded position is good until the generator goes on.
        """
        at_least("updates_per_task", updates_per_task, 1)
        at_least("eval_every", eval_every, 1)
        at_least("repetitions", repetitions, 1)
        tasks = stack_sequences(sequences)
        steps_per_update = self.source.steps_per_rollout
        if position is None:
            names, steps_per_task = sequences[0].names, updates_per_task * steps_per_update
            env = evaluator.env
            events = event_names(env)
            record = Record(names, steps_per_task, tuple(seeds), repetitions, events, env.horizon)
            position = Position(0, 0, self.init(seeds, tasks), record)
            self._evaluate(evaluator, position, tasks, 0)
            yield Progress(0, 0, 0, {}, evaluated=True), position
        ends = phase_ends(self.method, updates_per_task)
        num_tasks = len(sequences[0])
        for task, update in updates_after(position, repetitions * num_tasks, updates_per_task):
            state, index = position.state, task % num_tasks
            if update == 1:
                state = self.begin_task(state, tasks, index)
            state, metrics = self.step(state, tasks, index)
            for phase in ends.get(update, ()):
                state = self.end_phase(state, tasks, index, phase)
            position = Position(task, update, state, position.record)
            steps = (task * updates_per_task + update) * steps_per_update
            evaluated = update % eval_every == 0 or update == updates_per_task
            if evaluated:
                self._evaluate(evaluator, position, tasks, steps)
            yield Progress(task, update, steps, metrics, evaluated), position

    def _evaluate(self, evaluator: Evaluator, position: Position, tasks: Any, steps: int) -> None:
        """Play all tasks and add the result to the record."""
        state, record = position.state, position.record
        keys = jnp.stack([evaluation_key(seed, len(record.steps)) for seed in record.seeds])
        params = state.learner.params
        result = evaluate(evaluator, params, state.memory, tasks, keys, self.devices)
        record.steps.append(steps)
        # [seeds, tasks, episodes] -> [tasks, partner, seeds, episodes]
        record.score.append(np.asarray(result.score).swapaxes(0, 1)[:, None])
        record.returns.append(np.asarray(result.returns).swapaxes(0, 1)[:, None])
        if record.event_names:  # [seeds, tasks, episodes, seats, kinds]
            record.events.append(np.asarray(result.events).mean(2).swapaxes(0, 1))


def updates_after(
    position: Position, num_tasks: int, updates_per_task: int
) -> Iterator[tuple[int, int]]:
    """(task, update) of everything still to do."""
    for task in range(position.task, num_tasks):
        first = position.update + 1 if task == position.task else 1
        for update in range(first, updates_per_task + 1):
            yield task, update


def evaluation_key(seed: int, number: int) -> Key:
    """Evaluation draws from its own stream, so that evaluating more often changes no training."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), EVALUATION), number)


EVALUATION = 1  # names the stream


def stack_sequences(sequences: Sequence[TaskSequence]) -> Any:
    """Leaves [seeds, num_tasks, ...]."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *[s.tasks for s in sequences])


def phase_ends(method: ContinualMethod, updates: int) -> dict[int, list[str]]:
    """After which update of a task which phases end; with updates enough, none goes without."""
    ends: dict[int, list[str]] = {}
    done = 0.0
    for place, (phase, share) in enumerate(method.phases, start=1):
        done += share
        latest = updates - (len(method.phases) - place)
        ends.setdefault(max(1, min(round(done * updates), latest)), []).append(phase)
    return ends


def pick_task(tasks: Any, index: Array | int) -> Any:
    """One task out of a stack."""
    return jax.tree.map(lambda leaf: leaf[index], tasks)


def example_batch(trainer: Trainer, state: LearnerState, traj: Trajectory, key: Key) -> Any:
    """One batch of a rollout that is not learned from."""
    _, data, indices = trainer.learner.prepare(state, traj, key)
    first = trainer.learner.take(data, jax.tree.map(lambda x: x[0], indices))
    return trainer.learner.standalone(first)


@partial(jax.jit, static_argnums=0)
def _init(trainer: Trainer, key: Key, tasks: Any) -> TrainState:
    key, init_key, start_key, play_key, batch_key = jax.random.split(key, 5)
    task = pick_task(tasks, jnp.int32(0))
    learner = trainer.learner.init(init_key)
    source = trainer.source.start(start_key, task)
    _, traj = trainer.source.next(source, learner.params, task, play_key)
    batch = example_batch(trainer, learner, traj, batch_key)
    return TrainState(learner, trainer.method.init(learner.params, batch), source, key)


@partial(jit, static_argnums=0, donate_argnums=1)
def _begin_task(trainer: Trainer, state: TrainState, tasks: Any, index: Array) -> TrainState:
    def one_seed(index: Array, state: TrainState, tasks: Any) -> TrainState:
        key, start_key = jax.random.split(state.key)
        source = trainer.source.start(start_key, pick_task(tasks, index))
        learner = trainer.learner.begin_task(state.learner)
        return state.replace(learner=learner, source=source, key=key)

    return over_seeds(one_seed, index, state, tasks, devices=trainer.devices)


@partial(jit, static_argnums=0, donate_argnums=1)
def _step(
    trainer: Trainer, state: TrainState, tasks: Any, index: Array
) -> tuple[TrainState, Metrics]:
    def one_seed(index: Array, state: TrainState, tasks: Any) -> tuple[TrainState, Metrics]:
        key, play_key, learn_key = jax.random.split(state.key, 3)
        task = pick_task(tasks, index)
        source, traj = trainer.source.next(state.source, state.learner.params, task, play_key)
        learner, memory, metrics = learn_from(
            trainer.learner, trainer.method, state.learner, state.memory, traj, learn_key
        )
        metrics = metrics | rollout_metrics(traj)
        return TrainState(learner, memory, source, key), metrics

    return over_seeds(one_seed, index, state, tasks, devices=trainer.devices)


@partial(jit, static_argnums=(0, 1), donate_argnums=2)
def _end_phase(
    trainer: Trainer, phase: str, state: TrainState, tasks: Any, index: Array
) -> TrainState:
    def one_seed(index: Array, state: TrainState, tasks: Any) -> TrainState:
        key, play_key, batch_key, method_key = jax.random.split(state.key, 4)
        task = pick_task(tasks, index)
        # Played aside: where the games stand is not moved, and a method that does not look at the
        # batch pays nothing for it.
        _, traj = trainer.source.next(state.source, state.learner.params, task, play_key)
        batch = example_batch(trainer, state.learner, traj, batch_key)
        memory, learner = trainer.method.end_phase(
            state.memory, phase, state.learner, trainer.learner, batch, method_key
        )
        return state.replace(learner=learner, memory=memory, key=key)

    return over_seeds(one_seed, index, state, tasks, devices=trainer.devices)


@partial(jit, static_argnums=(0, 5))
def evaluate(
    evaluator: Evaluator,
    params: Any,
    memory: Any,
    tasks: Any,
    keys: Key,
    devices: int | None = None,
) -> Any:
    """Play all tasks with every seed's parameters; leaves and keys [seeds, ...]."""

    def one_seed(_: Any, params: Any, memory: Any, tasks: Any, key: Key) -> Any:
        return evaluator(params, memory, tasks, key)

    return over_seeds(one_seed, (), params, memory, tasks, keys, devices=devices)


def rollout_metrics(traj: Trajectory) -> Metrics:
    """Reward per step and seat, and the mean score of the episodes that ended: nan for none."""
    ended = (traj.terminated | traj.truncated).astype(jnp.float32)
    score = jnp.sum(traj.info["score"] * ended) / ended.sum()
    played = traj.valid[..., None].astype(jnp.float32)
    reward = jnp.sum(traj.reward * played) / jnp.maximum(played.sum() * traj.reward.shape[-1], 1.0)
    return {"reward": reward, "score": score, "episodes": ended.sum()}

"""The loop around it all: tasks, phases, updates and evaluations, several seeds side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import (
    Acting,
    Array,
    Company,
    ContinualMethod,
    Key,
    Learner,
    LearnerState,
    Metrics,
    Round,
    Seating,
    Source,
    TaskSequence,
    Trajectory,
)
from brigade.core.checks import at_least
from brigade.core.compile import jit
from brigade.metrics.record import EVENT_AXES, ROW_AXIS, SCORE_AXES, Record
from brigade.train.evaluate import Evaluation, Evaluator, event_names
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
    task is an argument, not part of the program, so no task is traced twice; so are the parameters
    of the cast, so no partner is.
    """

    source: Source
    learner: Learner
    method: ContinualMethod
    devices: int | None = None  # at most so many share the seeds; None for all there are

    def init(self, seeds: Sequence[int], rounds: Round, cast: Any = ()) -> TrainState:
        """Fresh parameters and memory for every seed; `rounds` leaves [seeds, num_tasks, ...]."""
        # One seed after the other: XLA's batched QR (orthogonal weights) can block for ever on a
        # machine with two cores.
        states = [
            _init(self, jax.random.key(seed), pick(rounds, row), cast)
            for row, seed in enumerate(seeds)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    def begin_task(self, state: TrainState, rounds: Round, index: int) -> TrainState:
        """Fresh games of the task; schedules start again."""
        return _begin_task(self, state, rounds, jnp.int32(index))

    def step(
        self, state: TrainState, rounds: Round, index: int, cast: Any = ()
    ) -> tuple[TrainState, Metrics]:
        """Collect one rollout and learn from it. Gives `state` away: use the returned one."""
        return _step(self, state, rounds, jnp.int32(index), cast)

    def end_phase(
        self, state: TrainState, rounds: Round, index: int, phase: str, cast: Any = ()
    ) -> TrainState:
        """Let the method take stock on fresh experience."""
        return _end_phase(self, phase, state, rounds, jnp.int32(index), cast)

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
        table: Table | None = None,
    ) -> Iterator[tuple[Progress, Position]]:
        """Train one sequence per seed, from the start or from a position, one update at a time.

        `repetitions` go through the sequence so often: the same tasks with the same heads. `table`
        says who plays with the learner, if anybody does.

        Evaluations come before the first update of the run, after every `eval_every` updates and
        at the end of every task. The yielded position is good until the generator goes on.
        """
        at_least("updates_per_task", updates_per_task, 1)
        at_least("eval_every", eval_every, 1)
        at_least("repetitions", repetitions, 1)
        table = table or Table()
        rounds = stack_sequences(sequences, table.companies)
        steps_per_update = self.source.steps_per_rollout
        if position is None:
            env = evaluator.env
            record = Record(
                task_names=sequences[0].names,
                steps_per_task=updates_per_task * steps_per_update,
                seeds=tuple(seeds),
                repetitions=repetitions,
                event_names=event_names(env),
                horizon=env.horizon,
                partner_names=table.partner_names,
                seat_names=table.seat_names,
            )
            position = Position(0, 0, self.init(seeds, rounds, table.cast), record)
            self._evaluate(evaluator, position, rounds, 0, table.cast)
            yield Progress(0, 0, 0, {}, evaluated=True), position
        ends = phase_ends(self.method, updates_per_task)
        num_tasks = len(sequences[0])
        for task, update in updates_after(position, repetitions * num_tasks, updates_per_task):
            state, index = position.state, task % num_tasks
            if update == 1:
                state = self.begin_task(state, rounds, index)
            state, metrics = self.step(state, rounds, index, table.cast)
            for phase in ends.get(update, ()):
                state = self.end_phase(state, rounds, index, phase, table.cast)
            position = Position(task, update, state, position.record)
            steps = (task * updates_per_task + update) * steps_per_update
            evaluated = update % eval_every == 0 or update == updates_per_task
            if evaluated:
                self._evaluate(evaluator, position, rounds, steps, table.cast)
            yield Progress(task, update, steps, metrics, evaluated), position

    def _evaluate(
        self, evaluator: Evaluator, position: Position, rounds: Round, steps: int, cast: Any
    ) -> None:
        """Play all tasks and add the result to the record."""
        state, record = position.state, position.record
        keys = jnp.stack([evaluation_key(seed, len(record.steps)) for seed in record.seeds])
        params = state.learner.params
        result = evaluate(evaluator, params, state.memory, rounds, keys, cast, self.devices)
        record.steps.append(steps)
        note(record, result, evaluator.consecutive)


@dataclass(frozen=True, eq=False)
class Table:
    """Who plays with the learner: parameters of the cast, and whom each seed meets in each task."""

    cast: tuple[Any, ...] = ()  # per group
    companies: Sequence[Company] = ()  # per seed, leaves [num_tasks, ...]
    partner_names: tuple[str, ...] = ("self",)
    seat_names: tuple[str, ...] = ("all",)


def note(record: Record, result: Evaluation, consecutive: int) -> None:
    """Add an evaluation of all seeds, leaves [seeds, tasks, partners, seats, episodes, ...]."""
    axes = (*SCORE_AXES, ROW_AXIS) if consecutive > 1 else SCORE_AXES
    seed = SCORE_AXES.index("seed")
    record.add("score", np.moveaxis(np.asarray(result.score), 0, seed), axes)
    record.add("returns", np.moveaxis(np.asarray(result.returns), 0, seed), axes)
    if record.event_names:
        over = (4, 5) if consecutive > 1 else 4  # episodes
        events = np.asarray(result.events).mean(over)
        record.add("events", np.moveaxis(events, 0, EVENT_AXES.index("seed")), EVENT_AXES)


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


def stack_sequences(sequences: Sequence[TaskSequence], companies: Sequence[Company] = ()) -> Round:
    """Leaves [seeds, num_tasks, ...]."""

    def stack(trees: Sequence[Any]) -> Any:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)

    company = stack(companies) if companies else None
    return Round(stack([sequence.tasks for sequence in sequences]), company)


def phase_ends(method: ContinualMethod, updates: int) -> dict[int, list[str]]:
    """After which update of a task which phases end; with updates enough, none goes without."""
    ends: dict[int, list[str]] = {}
    done = 0.0
    for place, (phase, share) in enumerate(method.phases, start=1):
        done += share
        latest = updates - (len(method.phases) - place)
        ends.setdefault(max(1, min(round(done * updates), latest)), []).append(phase)
    return ends


def pick(tree: Any, index: Array | int) -> Any:
    """One entry out of a stack."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def example_batch(trainer: Trainer, state: LearnerState, traj: Trajectory, key: Key) -> Any:
    """One batch of a rollout that is not learned from."""
    _, data, indices = trainer.learner.prepare(state, traj, key)
    first = trainer.learner.take(data, jax.tree.map(lambda x: x[0], indices))
    return trainer.learner.standalone(first)


def acting_with(
    trainer: Trainer, state: LearnerState, cast: Any, company: Company | None, key: Key
) -> Acting:
    """What the next rollout is played with, and who would sit where if people change now."""
    return Acting(state.params, cast, seating_for(trainer, state, company, key))


def seating_for(
    trainer: Trainer, state: LearnerState, company: Company | None, key: Key
) -> Seating | None:
    """Drawn by the task's weights, unless the learner decides who meets whom."""
    if company is None:
        return None
    tables, seats = trainer.source.tables, company.evaluation.own.shape[-1]
    seat = getattr(trainer.learner, "seat", None)
    seat_key = jax.random.fold_in(key, SEATS)
    if seat is not None:
        return seat(state, company, tables, seats, seat_key)
    return company.draw(seat_key, tables, seats)


SEATS = 2  # names the stream seatings are drawn from


@partial(jax.jit, static_argnums=0)
def _init(trainer: Trainer, key: Key, rounds: Round, cast: Any) -> TrainState:
    key, init_key, start_key, play_key, batch_key = jax.random.split(key, 5)
    first: Round = pick(rounds, jnp.int32(0))
    learner = trainer.learner.init(init_key)
    source = trainer.source.start(start_key, first.task)
    acting = acting_with(trainer, learner, cast, first.company, play_key)
    _, traj = trainer.source.next(source, acting, first.task, play_key)
    batch = example_batch(trainer, learner, traj, batch_key)
    return TrainState(learner, trainer.method.init(learner.params, batch), source, key)


@partial(jit, static_argnums=0, donate_argnums=1)
def _begin_task(trainer: Trainer, state: TrainState, rounds: Round, index: Array) -> TrainState:
    def one_seed(index: Array, state: TrainState, rounds: Round) -> TrainState:
        key, start_key = jax.random.split(state.key)
        source = trainer.source.start(start_key, pick(rounds.task, index))
        learner = trainer.learner.begin_task(state.learner)
        return state.replace(learner=learner, source=source, key=key)

    return over_seeds(one_seed, index, state, rounds, devices=trainer.devices)


@partial(jit, static_argnums=0, donate_argnums=1)
def _step(
    trainer: Trainer, state: TrainState, rounds: Round, index: Array, cast: Any
) -> tuple[TrainState, Metrics]:
    def one_seed(
        shared: tuple[Array, Any], state: TrainState, rounds: Round
    ) -> tuple[TrainState, Metrics]:
        index, cast = shared
        key, play_key, learn_key = jax.random.split(state.key, 3)
        now: Round = pick(rounds, index)
        acting = acting_with(trainer, state.learner, cast, now.company, play_key)
        source, traj = trainer.source.next(state.source, acting, now.task, play_key)
        learner, memory, metrics = learn_from(
            trainer.learner, trainer.method, state.learner, state.memory, traj, learn_key
        )
        metrics = metrics | rollout_metrics(traj)
        return TrainState(learner, memory, source, key), metrics

    return over_seeds(one_seed, (index, cast), state, rounds, devices=trainer.devices)


@partial(jit, static_argnums=(0, 1), donate_argnums=2)
def _end_phase(
    trainer: Trainer, phase: str, state: TrainState, rounds: Round, index: Array, cast: Any
) -> TrainState:
    def one_seed(shared: tuple[Array, Any], state: TrainState, rounds: Round) -> TrainState:
        index, cast = shared
        key, play_key, batch_key, method_key = jax.random.split(state.key, 4)
        now: Round = pick(rounds, index)
        # Played aside: where the games stand is not moved, and a method that does not look at the
        # batch pays nothing for it.
        acting = acting_with(trainer, state.learner, cast, now.company, play_key)
        _, traj = trainer.source.next(state.source, acting, now.task, play_key)
        batch = example_batch(trainer, state.learner, traj, batch_key)
        memory, learner = trainer.method.end_phase(
            state.memory, phase, state.learner, trainer.learner, batch, method_key
        )
        return state.replace(learner=learner, memory=memory, key=key)

    return over_seeds(one_seed, (index, cast), state, rounds, devices=trainer.devices)


@partial(jit, static_argnums=(0, 6))
def evaluate(
    evaluator: Evaluator,
    params: Any,
    memory: Any,
    rounds: Round,
    keys: Key,
    cast: Any = (),
    devices: int | None = None,
) -> Any:
    """Play all tasks with every seed's parameters; leaves and keys [seeds, ...]."""

    def one_seed(cast: Any, params: Any, memory: Any, rounds: Round, key: Key) -> Any:
        return evaluator(params, memory, rounds, key, cast)

    return over_seeds(one_seed, cast, params, memory, rounds, keys, devices=devices)


def rollout_metrics(traj: Trajectory) -> Metrics:
    """Reward per step and seat, and the mean score of the episodes that ended: nan for none."""
    ended = (traj.terminated | traj.truncated).astype(jnp.float32)
    score = jnp.sum(traj.info["score"] * ended) / ended.sum()
    played = traj.valid[..., None].astype(jnp.float32)
    reward = jnp.sum(traj.reward * played) / jnp.maximum(played.sum() * traj.reward.shape[-1], 1.0)
    return {"reward": reward, "score": score, "episodes": ended.sum()}

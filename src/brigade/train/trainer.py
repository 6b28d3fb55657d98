"""The training loop: tasks, phases, updates and evaluations, for several seeds in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import (
    Acting,
    Array,
    ContinualMethod,
    Key,
    Learner,
    LearnerState,
    Metrics,
    Pairing,
    Policy,
    Round,
    Seating,
    Source,
    TaskSequence,
    Trajectory,
)
from brigade.core.checks import at_least
from brigade.core.compile import jit
from brigade.core.streams import BEGIN_TASK, EVALUATION, MORE_EVALUATIONS, SEATS, TASKS
from brigade.metrics.record import EVENT_AXES, ROW_AXIS, SCORE_AXES, Record
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.seeds import over_seeds
from brigade.train.update import update as learn_from


class TrainState(struct.PyTreeNode):
    """The training state. Leaves [seeds, ...]."""

    learner: LearnerState
    memory: Any  # the method's state
    source: Any  # the source's state
    key: Key


@dataclass(frozen=True)
class Progress:
    """What a run reports after every update."""

    task: int  # keeps counting over repetitions
    update: int  # within the task, from 1; 0 before the first update of the run
    steps: int  # environment steps of the run so far, per seed
    metrics: dict[str, Array]  # means over the update, [seeds]
    evaluated: bool  # whether an evaluation was added to the record


@dataclass
class Position:
    """How far a run has got: everything needed to continue it."""

    task: int  # keeps counting over repetitions
    update: int  # the last finished update of the task
    state: TrainState
    record: Record


@dataclass(frozen=True)
class Trainer:
    """Trains a learner with a method on streams of tasks.

    Seeds run in parallel; each has its own tasks, parameters and random keys. The task index and
    the partners' parameters are arguments of the compiled step, so one program serves them all.
    """

    source: Source
    learner: Learner
    method: ContinualMethod
    devices: int | None = None  # maximum number of devices; None for all

    @property
    def in_turn(self) -> bool:
        """Whether a device trains seeds one after another instead of in a batch."""
        return slow_when_batched(self.learner.policy)

    def init(
        self, seeds: Sequence[int], rounds: Round, cast: Any = (), params: Any = None
    ) -> TrainState:
        """The initial state of every seed; `rounds` has leaves [seeds, num_tasks, ...].

        `params` replace initial parameters with the same names, for all seeds.
        """
        keys = [jax.random.key(seed) for seed in seeds]
        return self.init_with([params] * len(keys), keys, rounds, cast)

    def init_with(
        self, params: Sequence[Any], keys: Sequence[Key], rounds: Round, cast: Any
    ) -> TrainState:
        """The same for keys, and parameters of each; None for initial ones."""
        # One seed after another: XLA's batched QR (for orthogonal weights) can deadlock on a
        # machine with two cores.
        states = [
            _init(self, key, pick(rounds, row), cast, given)
            for row, (key, given) in enumerate(zip(keys, params, strict=True))
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    def begin_task(self, state: TrainState, rounds: Round, index: int) -> TrainState:
        """Start new episodes of the task, restart schedules and call the method's `begin_task`."""
        return _begin_task(self, state, rounds, jnp.int32(index))

    def step(
        self, state: TrainState, rounds: Round, index: int, cast: Any = ()
    ) -> tuple[TrainState, Metrics]:
        """Collect a rollout and learn from it. Donates `state`: use the returned one."""
        return _step(self, state, rounds, jnp.int32(index), cast)

    def end_phase(
        self, state: TrainState, rounds: Round, index: int, phase: str, cast: Any = ()
    ) -> TrainState:
        """Call the method's `end_phase` with a new batch of samples."""
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
        also: Sequence[AlsoEvaluate] = (),
    ) -> Iterator[tuple[Progress, Position]]:
        """Train one sequence per seed, from the start or from a position, one update at a time.

        `repetitions` is how often the sequence is trained, with the same tasks and heads. `table`
        holds the learner's partners, if it has any. `also` are more evaluations, each time.

        Evaluations take place before the first update of the run, after every `eval_every` updates
        and at the end of every task. A yielded position is valid until the generator continues.
        """
        at_least("updates_per_task", updates_per_task, 1)
        at_least("eval_every", eval_every, 1)
        at_least("repetitions", repetitions, 1)
        table = table or Table()
        rounds = stack_sequences(sequences, table.pairings)
        steps_per_update = self.source.steps_per_rollout
        if position is None:
            env = evaluator.env
            record = Record(
                task_names=sequences[0].names,
                steps_per_task=updates_per_task * steps_per_update,
                seeds=tuple(seeds),
                repetitions=repetitions,
                event_names=env.events,
                horizon=env.horizon,
                partner_names=table.partner_names,
                seat_names=table.seat_names,
                held_out_names=table.held_out_names,
            )
            state = self.init(seeds, rounds, table.cast, table.params)
            position = Position(0, 0, state, record)
            self._evaluate(evaluator, position, rounds, 0, table.cast, also)
            yield Progress(0, 0, 0, {}, evaluated=True), position
        ends = phase_ends(self.method, updates_per_task)
        num_tasks = len(sequences[0])
        for task, update in updates_after(position, repetitions * num_tasks, updates_per_task):
            state, index = position.state, task % num_tasks
            if update == 1 and not (task > 0 and self.method.mixes_tasks):
                state = self.begin_task(state, rounds, index)
            state, metrics = self.step(state, rounds, index, table.cast)
            ended = ends.get(update, [])
            last = ended[-1:] if update == updates_per_task else []
            for phase in ended[: len(ended) - len(last)]:
                state = self.end_phase(state, rounds, index, phase, table.cast)
            position = Position(task, update, state, position.record)
            steps = position.record.start_of(task) + update * steps_per_update
            evaluated = update % eval_every == 0 or update == updates_per_task
            if evaluated:
                self._evaluate(evaluator, position, rounds, steps, table.cast, also)
            for phase in last:  # after the evaluation: nothing it does can change the task's score
                position.state = self.end_phase(state, rounds, index, phase, table.cast)
            yield Progress(task, update, steps, metrics, evaluated), position

    def _evaluate(
        self,
        evaluator: Evaluator,
        position: Position,
        rounds: Round,
        steps: int,
        cast: Any,
        also: Sequence[AlsoEvaluate],
    ) -> None:
        """Evaluate all tasks and add the result to the record."""
        state, record = position.state, position.record
        keys = jnp.stack([evaluation_key(seed, len(record.steps)) for seed in record.seeds])
        result = evaluate(self, evaluator, state.learner, state.memory, rounds, keys, cast)
        record.steps.append(steps)
        add_evaluation(record, result, evaluator.consecutive)
        for number, more in enumerate(also, start=MORE_EVALUATIONS):
            of_its_own = jax.vmap(lambda key, n=number: jax.random.fold_in(key, n))(keys)
            more(self, position, rounds, of_its_own, cast)


# Called after every evaluation of all tasks with the trainer, the position, the rounds, a key per
# seed and the partners' parameters. It adds to the position's record.
AlsoEvaluate: TypeAlias = Callable[[Trainer, Position, Round, Key, Any], None]


@dataclass(frozen=True, eq=False)
class Table:
    """The learner's partners: their parameters, and the pairings of each seed and task."""

    cast: tuple[Any, ...] = ()  # parameters per group
    pairings: Sequence[Pairing] = ()  # per seed, leaves [num_tasks, ...]
    partner_names: tuple[str, ...] = ("self",)
    seat_names: tuple[str, ...] = ("all",)
    held_out_names: tuple[str, ...] = ()  # partners who are only met in evaluations
    params: Any = None  # parameters the learner starts from, instead of initial ones


def add_evaluation(record: Record, result: Evaluation, consecutive: int) -> None:
    """Record an evaluation of all seeds, leaves [seeds, tasks, partners, seats, episodes, ...]."""
    axes = (*SCORE_AXES, ROW_AXIS) if consecutive > 1 else SCORE_AXES
    seed = SCORE_AXES.index("seed")
    record.add("score", np.moveaxis(np.asarray(result.score), 0, seed), axes)
    record.add("returns", np.moveaxis(np.asarray(result.returns), 0, seed), axes)
    if record.event_names:
        episode_axes = (4, 5) if consecutive > 1 else 4
        events = np.asarray(result.events).mean(episode_axes)
        record.add("events", np.moveaxis(events, 0, EVENT_AXES.index("seed")), EVENT_AXES)


def updates_after(
    position: Position, num_tasks: int, updates_per_task: int
) -> Iterator[tuple[int, int]]:
    """The remaining (task, update) pairs."""
    for task in range(position.task, num_tasks):
        first = position.update + 1 if task == position.task else 1
        for update in range(first, updates_per_task + 1):
            yield task, update


def evaluation_key(seed: int, number: int) -> Key:
    """Evaluations have their own random stream, so their frequency does not affect training."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), EVALUATION), number)


def stack_sequences(sequences: Sequence[TaskSequence], pairings: Sequence[Pairing] = ()) -> Round:
    """The tasks and pairings of all seeds, leaves [seeds, num_tasks, ...]."""

    def stack(trees: Sequence[Any]) -> Any:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)

    pairing = stack(pairings) if pairings else None
    return Round(stack([sequence.tasks for sequence in sequences]), pairing)


def phase_ends(method: ContinualMethod, updates: int) -> dict[int, list[str]]:
    """The phases that end after each update of a task.

    If possible, every phase with a share has an update.
    """
    ends: dict[int, list[str]] = {}
    done = 0.0
    for place, (phase, share) in enumerate(method.phases, start=1):
        done += share
        latest = updates - sum(later > 0 for _, later in method.phases[place:])
        ends.setdefault(max(1, min(round(done * updates), latest)), []).append(phase)
    return ends


def pick(tree: Any, index: Array | int) -> Any:
    """One entry of stacked leaves."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def allocated(learner: Learner, state: LearnerState, traj: Trajectory) -> LearnerState:
    """The state with memory for rollouts such as `traj`, for learners with a replay buffer."""
    allocate = getattr(learner, "allocate", None)
    return state if allocate is None else allocate(state, traj)


def example_batch(trainer: Trainer, state: LearnerState, traj: Trajectory, key: Key) -> Any:
    """One minibatch of a rollout, in the form that methods get."""
    _, data, indices = trainer.learner.prepare(state, traj, key)
    first = trainer.learner.take(data, jax.tree.map(lambda x: x[0], indices))
    return trainer.learner.standalone(first)


def acting_with(
    trainer: Trainer, state: LearnerState, cast: Any, pairing: Pairing | None, key: Key
) -> Acting:
    """The parameters for the next rollout, and the seating if it may change now."""
    return Acting(
        state.params,
        partners_of(trainer.learner, state, cast),
        seating_for(trainer, state, pairing, key),
    )


def partners_of(learner: Learner, state: LearnerState, cast: Any) -> Any:
    """The parameters of the partners: those given, or the learner's own if it has `cast`."""
    own = getattr(learner, "cast", None)
    return cast if own is None else own(state, cast)


def seating_for(
    trainer: Trainer, state: LearnerState, pairing: Pairing | None, key: Key
) -> Seating | None:
    """A seating with all partners alike, or chosen by the learner if it has `seat`."""
    if pairing is None:
        return None
    tables, seats = trainer.source.tables, pairing.evaluation.own.shape[-1]
    seat = getattr(trainer.learner, "seat", None)
    seat_key = jax.random.fold_in(key, SEATS)
    if seat is not None:
        return seat(state, pairing, tables, seats, seat_key)
    constant = pairing.constant(tables)
    return pairing.sample(seat_key, tables, seats) if constant is None else constant


@partial(jax.jit, static_argnums=0)
def _init(trainer: Trainer, key: Key, rounds: Round, cast: Any, params: Any) -> TrainState:
    key, init_key, start_key, play_key, batch_key = jax.random.split(key, 5)
    first: Round = pick(rounds, jnp.int32(0))
    learner = trainer.learner.init(init_key)
    if params is not None:
        learner = learner.replace(params={**learner.params, **params})
    source = trainer.source.start(start_key, first.task)
    acting = acting_with(trainer, learner, cast, first.pairing, play_key)
    _, traj = trainer.source.next(source, acting, first.task, play_key)
    learner = allocated(trainer.learner, learner, traj)
    batch = example_batch(trainer, learner, traj, batch_key)
    memory = trainer.method.start(trainer.learner, learner.params, batch)
    return TrainState(learner, memory, source, key)


@partial(jit, static_argnums=0, donate_argnums=1)
def _begin_task(trainer: Trainer, state: TrainState, rounds: Round, index: Array) -> TrainState:
    def one_seed(index: Array, state: TrainState, rounds: Round) -> TrainState:
        key, start_key = jax.random.split(state.key)
        method_key = jax.random.fold_in(state.key, BEGIN_TASK)
        task = pick(rounds.task, index)
        source = trainer.source.start(start_key, task)
        learner = trainer.learner.begin_task(state.learner)
        memory, learner = trainer.method.begin_task(
            state.memory, learner, trainer.learner, task.id, method_key
        )
        return TrainState(learner, memory, source, key)

    return over_seeds(
        one_seed, index, state, rounds, devices=trainer.devices, in_turn=trainer.in_turn
    )


@partial(jit, static_argnums=0, donate_argnums=1)
def _step(
    trainer: Trainer, state: TrainState, rounds: Round, index: Array, cast: Any
) -> tuple[TrainState, Metrics]:
    def one_seed(
        shared: tuple[Array, Any], state: TrainState, rounds: Round
    ) -> tuple[TrainState, Metrics]:
        index, cast = shared
        key, play_key, learn_key = jax.random.split(state.key, 3)
        if trainer.method.mixes_tasks:
            task_key, start_key = jax.random.split(jax.random.fold_in(play_key, TASKS))
            index = jax.random.randint(task_key, (), 0, len(rounds.task.id))
            state = state.replace(source=trainer.source.start(start_key, pick(rounds.task, index)))
        now: Round = pick(rounds, index)
        acting = acting_with(trainer, state.learner, cast, now.pairing, play_key)
        source, traj = trainer.source.next(state.source, acting, now.task, play_key)
        learner, memory, metrics = learn_from(
            trainer.learner, trainer.method, state.learner, state.memory, traj, learn_key
        )
        metrics = metrics | rollout_metrics(traj)
        return TrainState(learner, memory, source, key), metrics

    return over_seeds(
        one_seed, (index, cast), state, rounds, devices=trainer.devices, in_turn=trainer.in_turn
    )


@partial(jit, static_argnums=(0, 1), donate_argnums=2)
def _end_phase(
    trainer: Trainer, phase: str, state: TrainState, rounds: Round, index: Array, cast: Any
) -> TrainState:
    def one_seed(shared: tuple[Array, Any], state: TrainState, rounds: Round) -> TrainState:
        index, cast = shared
        key, play_key, batch_key, method_key = jax.random.split(state.key, 4)
        now: Round = pick(rounds, index)
        # An extra rollout that does not advance the environments. If the method ignores the batch,
        # XLA removes it.
        acting = acting_with(trainer, state.learner, cast, now.pairing, play_key)
        _, traj = trainer.source.next(state.source, acting, now.task, play_key)
        batch = example_batch(trainer, state.learner, traj, batch_key)
        memory, learner = trainer.method.end_phase(
            state.memory, phase, state.learner, trainer.learner, batch, method_key
        )
        return state.replace(learner=learner, memory=memory, key=key)

    return over_seeds(
        one_seed, (index, cast), state, rounds, devices=trainer.devices, in_turn=trainer.in_turn
    )


@partial(jit, static_argnums=(0, 1))
def evaluate(
    trainer: Trainer,
    evaluator: Evaluator,
    learner: LearnerState,
    memory: Any,
    rounds: Round,
    keys: Key,
    cast: Any = (),
) -> Any:
    """Evaluate all tasks with every seed's parameters; leaves and keys are [seeds, ...]."""

    def one_seed(
        cast: Any, learner: LearnerState, memory: Any, rounds: Round, key: Key
    ) -> Evaluation:
        cast = partners_of(trainer.learner, learner, cast)
        return evaluator(learner.params, memory, rounds, key, cast)

    in_turn = slow_when_batched(evaluator.players.learner)
    arguments = (learner, memory, rounds, keys)
    return over_seeds(one_seed, cast, *arguments, devices=trainer.devices, in_turn=in_turn)


def slow_when_batched(policy: Policy) -> bool:
    """Whether a policy declares that seeds train faster one after another than in a batch."""
    return bool(getattr(policy, "slow_when_batched", False))


def rollout_metrics(traj: Trajectory) -> Metrics:
    """Reward per step and seat, and the mean score of finished episodes (NaN if there are none)."""
    ended = (traj.terminated | traj.truncated).astype(jnp.float32)
    score = jnp.sum(traj.info["score"] * ended) / ended.sum()
    played = traj.valid[..., None].astype(jnp.float32)
    reward = jnp.sum(traj.reward * played) / jnp.maximum(played.sum() * traj.reward.shape[-1], 1.0)
    return {"reward": reward, "score": score, "episodes": ended.sum()}

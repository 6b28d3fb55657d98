"""The training loop: tasks, phases, updates and evaluations, for several seeds in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

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
    Matchmaker,
    Metrics,
    Pairing,
    Round,
    Source,
    TaskSequence,
    Trajectory,
)
from brigade.core.checks import at_least
from brigade.core.compile import jit
from brigade.core.streams import (
    AFTER_ROLLOUT,
    BEGIN_TASK,
    EVALUATION,
    MATCHES,
    MORE_EVALUATIONS,
    SEATS,
    TASKS,
)
from brigade.metrics.record import EVENT_AXES, ROW_AXIS, SCORE_AXES, Record
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.members import for_each, split
from brigade.train.seeds import over_seeds
from brigade.train.update import update as learn_from


class TrainState(struct.PyTreeNode):
    """The training state. Leaves [seeds, ...]."""

    learner: LearnerState  # leaves [seeds, policies, ...] if there are several, as of `memory`
    memory: Any  # the method's state
    matches: Any  # the matchmaker's state
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
    """Trains a learner with a method, and with whom a matchmaker says, on streams of tasks.

    Seeds run in parallel; each has its own tasks, parameters and random keys. The task index and
    the partners' parameters are arguments of the compiled step, so one program serves them all.
    """

    source: Source
    learner: Learner
    method: ContinualMethod
    matchmaker: Matchmaker = field(default_factory=Matchmaker)
    devices: int | None = None  # maximum number of devices; None for all

    @property
    def in_turn(self) -> bool:
        """Whether a device trains seeds one after another instead of in a batch."""
        return self.learner.policy.slow_when_batched

    @property
    def policies(self) -> int:
        """How many policies are trained."""
        return self.matchmaker.policies

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
        lineup: Lineup | None = None,
        also: Sequence[AlsoEvaluate] = (),
    ) -> Iterator[tuple[Progress, Position]]:
        """Train one sequence per seed, from the start or from a position, one update at a time.

        `repetitions` is how often the sequence is trained, with the same tasks and heads. `lineup`
        holds the learner's partners, if it has any. `also` are more evaluations, each time.

        Evaluations take place before the first update of the run, after every `eval_every` updates
        and at the end of every task. A yielded position is valid until the generator continues.
        """
        at_least("updates_per_task", updates_per_task, 1)
        at_least("eval_every", eval_every, 1)
        at_least("repetitions", repetitions, 1)
        lineup = lineup or Lineup()
        rounds = stack_sequences(sequences, lineup.pairings)
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
                partner_names=lineup.partner_names,
                seat_names=lineup.seat_names,
                held_out_names=lineup.held_out_names,
            )
            state = self.init(seeds, rounds, lineup.cast, lineup.params)
            position = Position(0, 0, state, record)
            self._evaluate(evaluator, position, rounds, 0, lineup.cast, also)
            yield Progress(0, 0, 0, {}, evaluated=True), position
        ends = phase_ends(self.method, updates_per_task)
        num_tasks = len(sequences[0])
        for task, update in updates_after(position, repetitions * num_tasks, updates_per_task):
            state, index = position.state, task % num_tasks
            if update == 1 and not (task > 0 and self.method.mixes_tasks):
                state = self.begin_task(state, rounds, index)
            state, metrics = self.step(state, rounds, index, lineup.cast)
            ended = ends.get(update, [])
            last = ended[-1:] if update == updates_per_task else []
            for phase in ended[: len(ended) - len(last)]:
                state = self.end_phase(state, rounds, index, phase, lineup.cast)
            position = Position(task, update, state, position.record)
            steps = position.record.start_of(task) + update * steps_per_update
            evaluated = update % eval_every == 0 or update == updates_per_task
            if evaluated:
                self._evaluate(evaluator, position, rounds, steps, lineup.cast, also)
            for phase in last:  # after the evaluation: nothing it does can change the task's score
                position.state = self.end_phase(state, rounds, index, phase, lineup.cast)
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
        result = evaluate(self, evaluator, state, rounds, keys, cast)
        record.steps.append(steps)
        add_evaluation(record, result, evaluator.consecutive)
        for number, more in enumerate(also, start=MORE_EVALUATIONS):
            of_its_own = jax.vmap(lambda key, n=number: jax.random.fold_in(key, n))(keys)
            more(self, position, rounds, of_its_own, cast)


class AlsoEvaluate:
    """An evaluation beside that of all tasks, and after each of them."""

    @property
    def clones(self) -> Trainer | None:
        """The trainer of clones that adapt first, if there are any."""
        return None

    def __call__(
        self, trainer: Trainer, position: Position, rounds: Round, keys: Key, cast: Any
    ) -> None:
        """Add to the position's record; a key per seed, and the partners' parameters."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Lineup:
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


def example_batch(learner: Learner, key: Key, state: LearnerState, traj: Trajectory) -> Any:
    """One minibatch of a rollout, in the form that methods get."""
    _, data, indices = learner.prepare(state, traj, key)
    first = learner.take(data, jax.tree.map(lambda x: x[0], indices))
    return learner.standalone(first)


def acting_with(
    trainer: Trainer, params: Any, matches: Any, cast: Any, pairing: Pairing | None, key: Key
) -> Acting:
    """The parameters for the next rollout, and the seating if it may change now."""
    seating, matchmaker = None, trainer.matchmaker
    if pairing is not None:
        tables, seats = trainer.source.tables, pairing.evaluation.own.shape[-1]
        seat_key = jax.random.fold_in(key, SEATS)
        seating = matchmaker.seat(matches, pairing, tables, seats, seat_key)
    return Acting(params, matchmaker.partners(matches, params, cast), seating)


def of_each_policy(trainer: Trainer, params: Any, matches: Any, traj: Trajectory) -> Trajectory:
    """The rollout that is learned from: paid by the matchmaker, and split if policies are many."""
    learner, matchmaker = trainer.learner, trainer.matchmaker
    if matchmaker.policies == 1:
        return matchmaker.reward(matches, learner, params, traj)
    shared = traj if learner.joins_seats else learner.per_seat(traj)
    paid = matchmaker.reward(matches, learner, params, shared)
    assert traj.seating is not None
    seats_per_table = matchmaker.seats_per_table(traj.seating.own.shape[1])
    return split(paid, learner, matchmaker.policies, seats_per_table)


@partial(jax.jit, static_argnums=0)
def _init(trainer: Trainer, key: Key, rounds: Round, cast: Any, params: Any) -> TrainState:
    key, init_key, start_key, play_key, batch_key = jax.random.split(key, 5)
    first: Round = pick(rounds, jnp.int32(0))
    learner = init_policies(trainer, init_key)
    if params is not None:
        learner = learner.replace(params={**learner.params, **params})
    matches_key = jax.random.fold_in(init_key, MATCHES)
    matches = trainer.matchmaker.init(learner.params, trainer.learner.policy, matches_key)
    source = trainer.source.start(start_key, first.task)
    acting = acting_with(trainer, learner.params, matches, cast, first.pairing, play_key)
    _, traj = trainer.source.next(source, acting, first.task, play_key)
    each = of_each_policy(trainer, learner.params, matches, traj)

    def start(key: Key, state: LearnerState, traj: Trajectory) -> tuple[LearnerState, Any]:
        state = trainer.learner.allocate(state, traj)
        batch = example_batch(trainer.learner, key, state, traj)
        return state, trainer.method.start(trainer.learner, state.params, batch)

    learner, memory = for_each(trainer.policies, start, batch_key, learner, each)
    return TrainState(learner, memory, matches, source, key)


def init_policies(trainer: Trainer, key: Key) -> LearnerState:
    """The initial state of the learner, leaves [policies, ...] if there are several."""
    if trainer.policies == 1:
        return trainer.learner.init(key)
    # In turn: XLA's batched QR (for orthogonal weights) can deadlock on two cores.
    return jax.lax.map(trainer.learner.init, jax.random.split(key, trainer.policies))


@partial(jit, static_argnums=0, donate_argnums=1)
def _begin_task(trainer: Trainer, state: TrainState, rounds: Round, index: Array) -> TrainState:
    def one_seed(index: Array, state: TrainState, rounds: Round) -> TrainState:
        key, start_key = jax.random.split(state.key)
        method_key = jax.random.fold_in(state.key, BEGIN_TASK)
        task = pick(rounds.task, index)
        source = trainer.source.start(start_key, task)

        def begin(key: Key, learner: LearnerState, memory: Any) -> tuple[Any, LearnerState]:
            learner = trainer.learner.begin_task(learner)
            return trainer.method.begin_task(memory, learner, trainer.learner, task.id, key)

        memory, learner = for_each(trainer.policies, begin, method_key, state.learner, state.memory)
        return TrainState(learner, memory, state.matches, source, key)

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
        params, matches = state.learner.params, state.matches
        acting = acting_with(trainer, params, matches, cast, now.pairing, play_key)
        source, traj = trainer.source.next(state.source, acting, now.task, play_key)
        each = of_each_policy(trainer, params, matches, traj)
        learn = partial(learn_from, trainer.learner, trainer.method)
        learner, memory, metrics = for_each(
            trainer.policies, learn, learn_key, state.learner, state.memory, each
        )
        after_key = jax.random.fold_in(learn_key, AFTER_ROLLOUT)
        matches = trainer.matchmaker.after(matches, learner.params, traj, after_key)
        metrics = jax.tree.map(jnp.mean, metrics) | rollout_metrics(traj)
        return TrainState(learner, memory, matches, source, key), metrics

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
        params, matches = state.learner.params, state.matches
        acting = acting_with(trainer, params, matches, cast, now.pairing, play_key)
        _, traj = trainer.source.next(state.source, acting, now.task, play_key)
        each = of_each_policy(trainer, params, matches, traj)

        def end(
            key: Key, batch_key: Key, learner: LearnerState, memory: Any, traj: Trajectory
        ) -> tuple[Any, LearnerState]:
            batch = example_batch(trainer.learner, batch_key, learner, traj)
            return trainer.method.end_phase(memory, phase, learner, trainer.learner, batch, key)

        several = trainer.policies > 1
        batch_keys = jax.random.split(batch_key, trainer.policies) if several else batch_key
        memory, learner = for_each(
            trainer.policies, end, method_key, batch_keys, state.learner, state.memory, each
        )
        return state.replace(learner=learner, memory=memory, key=key)

    return over_seeds(
        one_seed, (index, cast), state, rounds, devices=trainer.devices, in_turn=trainer.in_turn
    )


@partial(jit, static_argnums=(0, 1))
def evaluate(
    trainer: Trainer,
    evaluator: Evaluator,
    state: TrainState,
    rounds: Round,
    keys: Key,
    cast: Any = (),
) -> Any:
    """Evaluate all tasks with every seed's parameters; leaves and keys are [seeds, ...]."""

    def one_seed(
        cast: Any, params: Any, memory: Any, matches: Any, rounds: Round, key: Key
    ) -> Evaluation:
        cast = trainer.matchmaker.partners(matches, params, cast)
        return evaluator(params, memory, rounds, key, cast)

    in_turn = evaluator.players.learner.slow_when_batched
    arguments = (state.learner.params, state.memory, state.matches, rounds, keys)
    return over_seeds(one_seed, cast, *arguments, devices=trainer.devices, in_turn=in_turn)


def rollout_metrics(traj: Trajectory) -> Metrics:
    """Reward per step and seat, and the mean score of finished episodes (NaN if there are none)."""
    ended = (traj.terminated | traj.truncated).astype(jnp.float32)
    score = jnp.sum(traj.info["score"] * ended) / ended.sum()
    played = traj.valid[..., None].astype(jnp.float32)
    reward = jnp.sum(traj.reward * played) / jnp.maximum(played.sum() * traj.reward.shape[-1], 1.0)
    return {"reward": reward, "score": score, "episodes": ended.sum()}

"""The training loop: tasks, phases, updates and evaluations, for several seeds in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import (
    Array,
    ContinualMethod,
    Key,
    Learner,
    Matchmaker,
    Metrics,
    Pairing,
    Round,
    Source,
    TaskSequence,
)
from brigade.core.checks import at_least
from brigade.core.streams import EVALUATION, MORE_EVALUATIONS, TASKS
from brigade.core.trees import pick, stack
from brigade.metrics.record import EVENT_AXES, ROW_AXIS, SCORE_AXES, Record
from brigade.train import programs
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.programs import TrainState


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
    the partners' parameters are arguments of the compiled step, so one program serves all tasks of
    a game. With simulators on the host, seeds run in turn.
    """

    source: Source
    learner: Learner
    method: ContinualMethod
    matchmaker: Matchmaker = field(default_factory=Matchmaker)
    devices: int | None = None  # maximum number of devices; None for all
    # Of a stream of different games: the source of each game, and the game of each task.
    sources: tuple[Source, ...] = ()
    games: tuple[int, ...] = ()

    def on_task(self, index: int) -> Trainer:
        """The trainer with the source of a task's game."""
        return replace(self, source=self.sources[self.games[index]]) if self.games else self

    @property
    def in_turn(self) -> bool:
        """Whether a device trains seeds one after another instead of in a batch."""
        return self.learner.policy.slow_when_batched

    @property
    def policies(self) -> int:
        """How many policies are trained."""
        return self.matchmaker.policies

    def init(
        self,
        seeds: Sequence[int],
        rounds: Round,
        cast: Any = (),
        params: Any = None,
        index: int = 0,
    ) -> TrainState:
        """The initial state of every seed; `rounds` has leaves [seeds, num_tasks, ...].

        `params` replace initial parameters with the same names, for all seeds. The source's state
        is that of the game of task `index`.
        """
        keys = [jax.random.key(seed) for seed in seeds]
        return self.init_with([params] * len(keys), keys, rounds, cast, index)

    def init_with(
        self, params: Sequence[Any], keys: Sequence[Key], rounds: Round, cast: Any, index: int = 0
    ) -> TrainState:
        """The same for keys, and parameters of each; None for initial ones."""
        # One seed after another: XLA's batched QR (for orthogonal weights) can deadlock on a
        # machine with two cores.
        trainer = self.on_task(index)
        states = [
            programs.init(trainer, key, pick(rounds, row), cast, given)
            for row, (key, given) in enumerate(zip(keys, params, strict=True))
        ]
        state: TrainState = stack(states)
        return state

    def begin_task(self, state: TrainState, rounds: Round, index: int) -> TrainState:
        """Start new episodes of the task, restart schedules and call the method's `begin_task`."""
        before = state.replace(source=())  # it may be of another game
        return programs.begin_task(self.on_task(index), before, rounds, jnp.int32(index))

    def step(
        self, state: TrainState, rounds: Round, index: int, cast: Any = ()
    ) -> tuple[TrainState, Metrics]:
        """Collect a rollout and learn from it. Donates `state`: use the returned one."""
        if self.games and self.method.mixes_tasks:  # the task decides which program it is
            index = int(
                jax.random.randint(jax.random.fold_in(state.key[0], TASKS), (), 0, len(self.games))
            )
            before = state.replace(source=())
            state = programs.start_episodes(self.on_task(index), before, rounds, jnp.int32(index))
        trainer = self.on_task(index)
        if trainer.source.traced:
            return programs.step(trainer, state, rounds, jnp.int32(index), cast)
        return trainer._on_host(state, rounds, index, cast)

    def end_phase(
        self, state: TrainState, rounds: Round, index: int, phase: str, cast: Any = ()
    ) -> TrainState:
        """Call the method's `end_phase` with a new batch of samples."""
        trainer = self.on_task(index)
        if trainer.source.traced:
            return programs.end_phase(trainer, phase, state, rounds, jnp.int32(index), cast)
        if not self.method.ends_matter:
            return state
        return trainer._on_host(state, rounds, index, cast, phase)[0]

    def _on_host(
        self, state: TrainState, rounds: Round, index: int, cast: Any, phase: str | None = None
    ) -> tuple[TrainState, Metrics]:
        """Play a rollout of each seed in turn and learn from it, or end a phase with it: simulators
        cannot go back, so these steps were played."""
        metrics, splits = [], 3 if phase is None else 4
        for row in range(len(state.key)):
            turn = programs.turn_of_seed(self, state, rounds, (row, index), cast, splits)
            source, traj = self.source.next(*turn)
            state, of_seed = programs.after_rollout(self, phase, state, row, source, traj)
            restarts = jnp.float32(self.source.restarts())
            metrics.append({**of_seed, "simulator_restarts": restarts})
        return state, stack(metrics)

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
        result = programs.evaluate(self, evaluator, state, rounds, keys, cast)
        record.steps.append(steps)
        add_evaluation(record, result)
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


def add_evaluation(record: Record, result: Evaluation) -> None:
    """Record an evaluation of all seeds, leaves [seeds, tasks, partners, seats, episodes, ...]."""
    add_scores(record, "", SCORE_AXES, result.score, result.returns)
    if record.event_names:
        events = np.asarray(result.events)
        episodes = tuple(range(SCORE_AXES.index("episode"), events.ndim - 2))
        record.add(
            "events", np.moveaxis(events.mean(episodes), 0, EVENT_AXES.index("seed")), EVENT_AXES
        )


def add_scores(
    record: Record, prefix: str, axes: tuple[str, ...], score: Any, returns: Any
) -> None:
    """Record scores and returns of all seeds, leaves [seeds, ...]; `axes` lack that of consecutive
    episodes, which are the last if there are any."""
    for name, values in (("score", score), ("returns", returns)):
        of_seeds = np.moveaxis(np.asarray(values), 0, axes.index("seed"))
        all_axes = axes if of_seeds.ndim == len(axes) else (*axes, ROW_AXIS)
        record.add(f"{prefix}{name}", of_seeds, all_axes)


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

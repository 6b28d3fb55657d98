"""The compiled programs of training and evaluation, for all seeds.

Where games are part of the program, a step is one program. Simulators on the host play between two:
one that says who acts, and one that learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import (
    Acting,
    Array,
    Key,
    Learner,
    LearnerState,
    Metrics,
    Pairing,
    Round,
    Trajectory,
)
from brigade.core.compile import jit
from brigade.core.streams import AFTER_ROLLOUT, BEGIN_TASK, MATCHES, SEATS, TASKS
from brigade.core.trees import pick, put
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.host import play_episodes
from brigade.train.members import for_each, split
from brigade.train.seeds import over_seeds
from brigade.train.update import update as learn_from

if TYPE_CHECKING:
    from brigade.train.trainer import Trainer


class TrainState(struct.PyTreeNode):
    """The training state. Leaves [seeds, ...]."""

    learner: LearnerState  # leaves [seeds, policies, ...] if there are several, as of `memory`
    memory: Any  # the method's state
    matches: Any  # the matchmaker's state
    source: Any  # the source's state
    key: Key


def example_batch(learner: Learner, key: Key, state: LearnerState, traj: Trajectory) -> Any:
    """One minibatch of a rollout, in the form that methods get."""
    _, data, indices = learner.prepare(state, traj, key)
    first = learner.take(data, pick(indices, 0))
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
def init(trainer: Trainer, key: Key, rounds: Round, cast: Any, params: Any) -> TrainState:
    key, init_key, start_key, play_key, batch_key = jax.random.split(key, 5)
    first: Round = pick(rounds, jnp.int32(0))
    learner = init_policies(trainer, init_key)
    if params is not None:
        learner = learner.replace(params={**learner.params, **params})
    matches_key = jax.random.fold_in(init_key, MATCHES)
    matches = trainer.matchmaker.init(learner.params, trainer.learner.policy, matches_key)
    source = trainer.source.start(start_key, first.task)
    acting = acting_with(trainer, learner.params, matches, cast, first.pairing, play_key)
    traj = trainer.source.example(source, acting, first.task, play_key)
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
def begin_task(trainer: Trainer, state: TrainState, rounds: Round, index: Array) -> TrainState:
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


@partial(jit, static_argnums=0)
def start_episodes(trainer: Trainer, state: TrainState, rounds: Round, index: Array) -> TrainState:
    """The state with new episodes of a task, and nothing else changed."""

    def one_seed(index: Array, key: Key, rounds: Round) -> Any:
        return trainer.source.start(jax.random.fold_in(key, TASKS), pick(rounds.task, index))

    return state.replace(
        source=over_seeds(one_seed, index, state.key, rounds, devices=trainer.devices)
    )


@partial(jit, static_argnums=0, donate_argnums=1)
def step(
    trainer: Trainer, state: TrainState, rounds: Round, index: Array, cast: Any
) -> tuple[TrainState, Metrics]:
    """Collect a rollout and learn from it."""

    def one_seed(
        shared: tuple[Array, Any], state: TrainState, rounds: Round
    ) -> tuple[TrainState, Metrics]:
        index, cast = shared
        if trainer.method.mixes_tasks and not trainer.games:
            play_key = jax.random.split(state.key, 3)[1]
            task_key, start_key = jax.random.split(jax.random.fold_in(play_key, TASKS))
            index = jax.random.randint(task_key, (), 0, len(rounds.task.id))
            state = state.replace(source=trainer.source.start(start_key, pick(rounds.task, index)))
        turn = next_turn(trainer, state, pick(rounds, index), cast)
        source, traj = trainer.source.next(*turn)
        return learned(trainer, state, source, traj)

    return over_seeds(
        one_seed, (index, cast), state, rounds, devices=trainer.devices, in_turn=trainer.in_turn
    )


@partial(jit, static_argnums=(0, 1), donate_argnums=2)
def end_phase(
    trainer: Trainer, phase: str, state: TrainState, rounds: Round, index: Array, cast: Any
) -> TrainState:
    """Call the method's `end_phase` with samples of an extra rollout, which leaves games as they
    were. If the method ignores the batch, XLA removes it."""

    def one_seed(shared: tuple[Array, Any], state: TrainState, rounds: Round) -> TrainState:
        index, cast = shared
        turn = next_turn(trainer, state, pick(rounds, index), cast, splits=4)
        _, traj = trainer.source.next(*turn)
        return ended(trainer, phase, state, state.source, traj)

    return over_seeds(
        one_seed, (index, cast), state, rounds, devices=trainer.devices, in_turn=trainer.in_turn
    )


def next_turn(
    trainer: Trainer, state: TrainState, now: Round, cast: Any, splits: int = 3
) -> tuple[Any, Acting, Any, Key]:
    """What the source needs for a rollout of one seed: its state, who acts, the task, a key."""
    key = jax.random.split(state.key, splits)[1]
    acting = acting_with(trainer, state.learner.params, state.matches, cast, now.pairing, key)
    return state.source, acting, now.task, key


def learned(
    trainer: Trainer, state: TrainState, source: Any, traj: Trajectory
) -> tuple[TrainState, Metrics]:
    """The state of one seed after learning from a rollout, with the source's new state."""
    key, _, learn_key = jax.random.split(state.key, 3)
    each = of_each_policy(trainer, state.learner.params, state.matches, traj)
    learn = partial(learn_from, trainer.learner, trainer.method)
    learner, memory, metrics = for_each(
        trainer.policies, learn, learn_key, state.learner, state.memory, each
    )
    after_key = jax.random.fold_in(learn_key, AFTER_ROLLOUT)
    matches = trainer.matchmaker.after(state.matches, learner.params, traj, after_key)
    metrics = jax.tree.map(jnp.mean, metrics) | rollout_metrics(traj)
    return TrainState(learner, memory, matches, source, key), metrics


def ended(
    trainer: Trainer, phase: str, state: TrainState, source: Any, traj: Trajectory
) -> TrainState:
    """The state of one seed after `end_phase` has seen a batch of a rollout."""
    key, _, batch_key, method_key = jax.random.split(state.key, 4)
    each = of_each_policy(trainer, state.learner.params, state.matches, traj)

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
    return state.replace(learner=learner, memory=memory, source=source, key=key)


# With simulators on the host: the programs before and after a rollout of one seed, the `row`-th.


@partial(jit, static_argnums=(0, 5))
def turn_of_seed(
    trainer: Trainer,
    states: TrainState,
    rounds: Round,
    place: tuple[Any, Any],
    cast: Any,
    splits: int,
) -> tuple[Any, Acting, Any, Key]:
    """`next_turn` of a seed; `place` is its row and the index of the task."""
    row, index = place
    return next_turn(trainer, pick(states, row), pick(pick(rounds, row), index), cast, splits)


@partial(jit, static_argnums=(0, 1), donate_argnums=2)
def after_rollout(
    trainer: Trainer,
    phase: str | None,
    states: TrainState,
    row: int,
    source: Any,
    traj: Trajectory,
) -> tuple[TrainState, Metrics]:
    """The states after a seed has learned from its rollout or, if a phase has ended, after
    `end_phase` has seen a batch of it."""
    state, metrics = (
        learned(trainer, pick(states, row), source, traj)
        if phase is None
        else (ended(trainer, phase, pick(states, row), source, traj), {})
    )
    return put(states, row, state), metrics


def evaluate(
    trainer: Trainer,
    evaluator: Evaluator,
    state: TrainState,
    rounds: Round,
    keys: Key,
    cast: Any = (),
    tasks: Sequence[int] | None = None,
) -> Evaluation:
    """Evaluate all tasks with every seed's parameters; leaves and keys are [seeds, ...].

    `tasks` says which tasks of the stream `rounds` has, if not all. Tasks of one game are evaluated
    together.
    """
    policies = (state.learner.params, state.memory, state.matches)
    numbers = range(rounds.task.id.shape[1]) if tasks is None else tasks
    games = np.array([evaluator.game(task) for task in numbers])
    parts, places = [], []
    for game in np.unique(games):
        (place,) = np.nonzero(games == game)
        chosen = rounds
        if len(place) < len(games):
            chosen = jax.tree.map(lambda x, place=place: x[:, place], rounds)
        player = evaluator.of_game(int(game))
        play = evaluate_compiled if player.env.traced else evaluate_on_host
        parts.append(play(trainer, player, policies, chosen, keys, cast))
        places.append(place)
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(places))
    joined: Evaluation = jax.tree.map(
        lambda *leaves: np.concatenate(leaves, axis=1)[:, order], *parts
    )
    return joined


@partial(jit, static_argnums=(0, 1))
def evaluate_compiled(
    trainer: Trainer, evaluator: Evaluator, policies: Any, rounds: Round, keys: Key, cast: Any
) -> Any:
    """Evaluate tasks of a game on the device, all of them at once."""

    def one_seed(
        cast: Any, params: Any, memory: Any, matches: Any, rounds: Round, key: Key
    ) -> Evaluation:
        cast = trainer.matchmaker.partners(matches, params, cast)
        return evaluator(params, memory, rounds, key, cast)

    in_turn = evaluator.players.learner.slow_when_batched
    arguments = (*policies, rounds, keys)
    return over_seeds(one_seed, cast, *arguments, devices=trainer.devices, in_turn=in_turn)


def evaluate_on_host(
    trainer: Trainer, evaluator: Evaluator, policies: Any, rounds: Round, keys: Key, cast: Any
) -> Evaluation:
    """Evaluate tasks of a simulator, one after another."""

    def of_seed(row: int, key: Key) -> Evaluation:
        task_keys = jax.random.split(key, rounds.task.id.shape[1])
        played = []
        for n, task_key in enumerate(task_keys):
            acting, now = acting_on(trainer, evaluator, policies, rounds, row, n, cast)
            played.append(play_episodes(evaluator, acting, now, task_key))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *played)

    by_seed = [of_seed(row, key) for row, key in enumerate(keys)]
    evaluation: Evaluation = jax.tree.map(lambda *leaves: np.stack(leaves), *by_seed)
    return evaluation


@partial(jit, static_argnums=(0, 1))
def acting_on(
    trainer: Trainer,
    evaluator: Evaluator,
    policies: Any,
    rounds: Round,
    row: int,
    index: int,
    cast: Any,
) -> tuple[Acting, Round]:
    """Who acts when a seed is evaluated on a task."""
    (params, memory, matches), now = pick(policies, row), pick(pick(rounds, row), index)
    cast = trainer.matchmaker.partners(matches, params, cast)
    return evaluator.acting(params, memory, now, cast), now


def rollout_metrics(traj: Trajectory) -> Metrics:
    """Reward per step and seat, and the mean score of finished episodes (NaN if there are none)."""
    ended = (traj.terminated | traj.truncated).astype(jnp.float32)
    score = jnp.sum(traj.info["score"] * ended) / ended.sum()
    played = traj.valid[..., None].astype(jnp.float32)
    reward = jnp.sum(traj.reward * played) / jnp.maximum(played.sum() * traj.reward.shape[-1], 1.0)
    return {"reward": reward, "score": score, "episodes": ended.sum()}

"""What a run needs: memory and disk counted from shapes, time measured on a small rollout."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Key, Round, Trajectory
from brigade.runs.assemble import Parts, abstract_state, assemble
from brigade.runs.config import Experiment
from brigade.train import TrainState
from brigade.train.trainer import acting_with, pick, stack_sequences

MEASURED_STEPS = 6400  # a rollout of about this size is timed and scaled up


@dataclass(frozen=True)
class Speed:
    """Environment steps per second, and what tracing and compiling cost."""

    steps_per_second: float
    compile_seconds: float


def experiment_speed(experiment: Experiment) -> Speed:
    """Whole updates of a small rollout with the experiment's network and settings, one seed."""
    small = shrunk(experiment)
    parts = assemble(small)
    rounds, cast = stack_sequences(parts.sequences, parts.table.companies), parts.table.cast
    state = parts.trainer.begin_task(parts.trainer.init(parts.seeds, rounds, cast), rounds, 0)

    def step(_: int) -> Any:
        nonlocal state
        state, metrics = parts.trainer.step(state, rounds, 0, cast)
        return metrics

    return speed_of(step, small.config.steps_per_update, repetitions=3)


def shrunk(experiment: Experiment) -> Experiment:
    """The same experiment with one seed and few environments: quick to time."""
    config = experiment.config
    tables = experiment.generator.tables if experiment.generator else 1
    envs = max(1, min(config.num_envs, -(-MEASURED_STEPS // config.num_steps)))
    envs = -(-envs // tables) * tables
    return dataclasses.replace(
        experiment, config=dataclasses.replace(config, seeds=1, num_envs=envs)
    )


def speed_of(call: Callable[[int], Any], steps: int, repetitions: int = 5) -> Speed:
    """A first call that compiles, then the median of some more."""
    seconds = []
    for number in range(repetitions + 1):
        began = time.perf_counter()
        jax.block_until_ready(call(number))
        seconds.append(time.perf_counter() - began)
    median = statistics.median(seconds[1:])
    return Speed(steps / median, seconds[0] - median)


@dataclass(frozen=True)
class Cost:
    """What a run needs."""

    steps: int
    updates: int
    evaluations: int
    rollout_bytes: int
    state_bytes: int
    parameters: int
    disk_bytes: int


def cost(experiment: Experiment, parts: Parts) -> Cost:
    """Counted from shapes alone."""
    config, trainer = experiment.config, parts.trainer
    updates = config.tasks_in_all * config.updates_per_task
    per_task = -(-config.updates_per_task // config.eval_every)
    evaluations = 1 + config.tasks_in_all * per_task
    state = abstract_state(parts)
    rounds = stack_sequences(parts.sequences, parts.table.companies)
    one_seed = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape[1:], s.dtype), state)

    def rollout(state: TrainState, now: Round, key: Key) -> Trajectory:
        acting = acting_with(trainer, state.learner, parts.table.cast, now.company, key)
        return trainer.source.next(state.source, acting, now.task, key)[1]

    traj = jax.eval_shape(rollout, one_seed, pick(pick(rounds, 0), 0), one_seed.key)
    state_bytes = size_of(state)
    games = config.eval_episodes * config.eval_consecutive
    games *= len(parts.table.partner_names) * len(parts.table.seat_names)
    record = 8 * evaluations * config.tasks * config.seeds * games
    return Cost(
        steps=updates * config.steps_per_update * config.seeds,
        updates=updates,
        evaluations=evaluations,
        rollout_bytes=config.seeds * size_of((traj.view, traj.action, traj.reward, traj.extras)),
        state_bytes=state_bytes,
        parameters=sum(x.size for x in jax.tree.leaves(one_seed.learner.params)),
        disk_bytes=2 * state_bytes + record + 300 * updates,
    )


def size_of(tree: Any) -> int:
    """Bytes of a tree of arrays or shapes."""
    return sum(
        x.size * (8 if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else np.dtype(x.dtype).itemsize)
        for x in jax.tree.leaves(tree)
    )

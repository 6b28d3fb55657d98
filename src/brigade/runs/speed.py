"""The cost of a run: memory and disk from shapes, speed by timing a small rollout."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from brigade.core import Round, Trajectory
from brigade.core.trees import pick
from brigade.runs.assemble import Parts, assemble
from brigade.runs.config import Experiment
from brigade.runs.limits import size_of
from brigade.train import TrainState
from brigade.train.programs import next_turn

TIMED_STEPS = 6400  # a rollout of about this size is timed; the time is then extrapolated


@dataclass(frozen=True)
class Speed:
    """Environment steps per second, and the time to trace and compile."""

    steps_per_second: float
    compile_seconds: float


def experiment_speed(experiment: Experiment) -> Speed:
    """Time whole updates on a small rollout, with the experiment's settings and one seed."""
    small = shrunk(experiment)
    parts = assemble(small)
    rounds, cast = parts.rounds, parts.lineup.cast
    state = parts.trainer.begin_task(parts.trainer.init(parts.seeds, rounds, cast), rounds, 0)

    def step(_: int) -> Any:
        nonlocal state
        state, metrics = parts.trainer.step(state, rounds, 0, cast)
        return metrics

    return speed_of(step, small.config.steps_per_update, repetitions=3)


def shrunk(experiment: Experiment) -> Experiment:
    """The experiment with one seed and few environments, which is quick to time."""
    config = experiment.config
    tables = 1 if experiment.generator is None else experiment.generator.tables
    envs = max(1, min(config.num_envs, -(-TIMED_STEPS // config.num_steps)))
    envs = -(-envs // tables) * tables
    met = config.partners_of_seed[:1]
    small = dataclasses.replace(config, seeds=1, num_envs=envs, partners_of_seed=met)
    return dataclasses.replace(experiment, config=small)


def speed_of(call: Callable[[int], Any], steps: int, repetitions: int = 5) -> Speed:
    """Time a first call, which compiles, then take the median of `repetitions` more."""
    seconds = []
    for number in range(repetitions + 1):
        start = time.perf_counter()
        jax.block_until_ready(call(number))
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[1:])
    return Speed(steps / median, seconds[0] - median)


@dataclass(frozen=True)
class Cost:
    """What a run needs, summed over its seeds; `parameters` are per seed."""

    steps: int
    updates: int
    evaluations: int
    rollout_bytes: int
    state_bytes: int
    parameters: int
    disk_bytes: int


def cost(experiment: Experiment, parts: Parts) -> Cost:
    """Computed from shapes; nothing is run."""
    config, trainer = experiment.config, parts.trainer
    updates = config.total_tasks * config.updates_per_task
    per_task = -(-config.updates_per_task // config.eval_every)
    evaluations = 1 + config.total_tasks * per_task
    state, rounds = parts.abstract_state(), parts.rounds
    one_seed = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape[1:], s.dtype), state)

    def rollout(state: TrainState, now: Round) -> Trajectory:
        return trainer.source.example(*next_turn(trainer, state, now, parts.lineup.cast))

    traj = jax.eval_shape(rollout, one_seed, pick(pick(rounds, 0), 0))
    state_bytes = size_of(state)
    episodes = config.eval_episodes * config.eval_consecutive
    episodes *= len(parts.lineup.partner_names) * len(parts.lineup.seat_names)
    record = 8 * evaluations * config.tasks * config.seeds * episodes
    return Cost(
        steps=updates * config.steps_per_update * config.seeds,
        updates=updates,
        evaluations=evaluations,
        rollout_bytes=config.seeds * size_of((traj.view, traj.action, traj.reward, traj.extras)),
        state_bytes=state_bytes,
        parameters=sum(x.size for x in jax.tree.leaves(one_seed.learner.params)),
        disk_bytes=2 * state_bytes + record + 300 * updates,
    )

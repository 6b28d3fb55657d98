"""Evaluations beside that of all tasks: with held-out partners, and of clones that adapt first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Key, Pairing, Round
from brigade.metrics.record import FEW_SHOT, HELD_OUT, HELD_OUT_AXES, ROW_AXIS, SCORE_AXES
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.trainer import Position, Trainer, TrainState, evaluate, pick


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Plays the task in training with partners that no task has."""

    evaluator: Evaluator
    pairing: Pairing  # leaves [1, ...]
    params: tuple[Any, ...]  # of the held-out partners, per group

    def __call__(
        self, trainer: Trainer, position: Position, rounds: Round, keys: Key, cast: Any
    ) -> None:
        """Add scores and returns with every held-out partner to the record."""
        state, record = position.state, position.record
        seeds, index = len(record.seeds), position.task % len(record.task_names)
        task = jax.tree.map(lambda x: x[:, index : index + 1], rounds.task)
        pairing = jax.tree.map(lambda x: jnp.broadcast_to(x, (seeds, *x.shape)), self.pairing)
        now = Round(task, pairing)
        played = evaluate(
            trainer, self.evaluator, state.learner, state.memory, now, keys, self.params
        )
        seed = HELD_OUT_AXES.index("seed")
        for name, values in (("score", played.score), ("returns", played.returns)):
            by_partner = np.moveaxis(np.asarray(values)[:, 0], 0, seed)
            axes = with_attempts(HELD_OUT_AXES, by_partner.ndim)
            record.add(f"{HELD_OUT}_{name}", by_partner, axes)


@dataclass(frozen=True, eq=False)
class FewShot:
    """Evaluates clones of the learner, each trained on one task for a few updates.

    A clone has a new optimiser and no continual method. It is thrown away afterwards.
    """

    trainer: Trainer  # of the clones
    evaluator: Evaluator
    updates: int

    def __call__(
        self, trainer: Trainer, position: Position, rounds: Round, keys: Key, cast: Any
    ) -> None:
        """Add the scores and returns of all tasks to the record."""
        state, record = position.state, position.record
        tasks, by_task = len(record.task_names), []
        keys = jax.vmap(lambda key: jax.random.split(key, (tasks, 2)))(keys)
        for index in range(tasks):
            task_keys = keys[:, index]
            params = acting_params(trainer, state, rounds, index)
            clone = self.adapted(params, task_keys[:, 0], rounds, index, cast)
            one_task = jax.tree.map(lambda x, n=index: x[:, n : n + 1], rounds)
            played: Evaluation = evaluate(
                self.trainer,
                self.evaluator,
                clone.learner,
                clone.memory,
                one_task,
                task_keys[:, 1],
                cast,
            )
            by_task.append(played)
        seed = SCORE_AXES.index("seed")
        for name in ("score", "returns"):
            values = np.concatenate([getattr(played, name) for played in by_task], axis=1)
            axes = with_attempts(SCORE_AXES, values.ndim)
            record.add(f"{FEW_SHOT}_{name}", np.moveaxis(values, 0, seed), axes)

    def adapted(self, params: Any, keys: Key, rounds: Round, index: int, cast: Any) -> TrainState:
        """Clones of all seeds after some updates on a task."""
        seeds = range(len(keys))
        state = self.trainer.init_with([pick(params, n) for n in seeds], list(keys), rounds, cast)
        state = self.trainer.begin_task(state, rounds, index)
        for _ in range(self.updates):
            state, _ = self.trainer.step(state, rounds, index, cast)
        return state


def with_attempts(axes: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The axes, with that of consecutive episodes if there is one more."""
    return axes if len(axes) == number else (*axes, ROW_AXIS)


def acting_params(trainer: Trainer, state: TrainState, rounds: Round, index: int) -> Any:
    """The parameters of every seed that act on a task, leaves [seeds, ...]."""

    def of_seed(params: Any, memory: Any, task_id: Array) -> Any:
        return trainer.method.acting_params(memory, params, task_id)

    ids = rounds.task.id[:, index]
    return jax.vmap(of_seed)(state.learner.params, state.memory, ids)

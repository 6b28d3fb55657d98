"""Evaluations beside that of all tasks: with held-out partners, and of clones that adapt first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Key, Matchmaker, Pairing, Round
from brigade.metrics.record import FEW_SHOT, HELD_OUT, HELD_OUT_AXES, ROW_AXIS, SCORE_AXES
from brigade.train.evaluate import Evaluation, Evaluator, acting_params
from brigade.train.programs import TrainState, evaluate, pick
from brigade.train.trainer import AlsoEvaluate, Position, Trainer


@dataclass(frozen=True, eq=False)
class HeldOut(AlsoEvaluate):
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
        # The partners are those given, never the matchmaker's own, such as copies of the learner.
        as_given = replace(trainer, matchmaker=Matchmaker())
        played = evaluate(as_given, self.evaluator, state, now, keys, self.params, [index])
        seed = HELD_OUT_AXES.index("seed")
        for name, values in (("score", played.score), ("returns", played.returns)):
            by_partner = np.moveaxis(np.asarray(values)[:, 0], 0, seed)
            axes = with_attempts(HELD_OUT_AXES, by_partner.ndim)
            record.add(f"{HELD_OUT}_{name}", by_partner, axes)


@dataclass(frozen=True, eq=False)
class FewShot(AlsoEvaluate):
    """Evaluates clones of the learner, each trained on one task for a few updates.

    A clone has a new optimiser and no continual method. It is thrown away afterwards.
    """

    trainer: Trainer  # of the clones
    evaluator: Evaluator
    updates: int

    @property
    def clones(self) -> Trainer:
        return self.trainer

    def __call__(
        self, trainer: Trainer, position: Position, rounds: Round, keys: Key, cast: Any
    ) -> None:
        """Add the scores and returns of all tasks to the record."""
        state, record = position.state, position.record
        tasks, by_task = len(record.task_names), []
        keys = jax.vmap(lambda key: jax.random.split(key, (tasks, 2)))(keys)
        for index in range(tasks):
            task_keys = keys[:, index]
            clone = self.adapted(trainer, state, task_keys[:, 0], rounds, index, cast)
            one_task = jax.tree.map(lambda x, n=index: x[:, n : n + 1], rounds)
            played: Evaluation = evaluate(
                self.trainer, self.evaluator, clone, one_task, task_keys[:, 1], cast, [index]
            )
            by_task.append(played)
        seed = SCORE_AXES.index("seed")
        found = {
            "score": [played.score for played in by_task],
            "returns": [played.returns for played in by_task],
        }
        for name, parts in found.items():
            values = np.concatenate(parts, axis=1)
            axes = with_attempts(SCORE_AXES, values.ndim)
            record.add(f"{FEW_SHOT}_{name}", np.moveaxis(values, 0, seed), axes)

    def adapted(
        self,
        trainer: Trainer,
        state: TrainState,
        keys: Key,
        rounds: Round,
        index: int,
        cast: Any,
    ) -> TrainState:
        """Clones of all seeds after some updates. They meet whom the learner meets now."""

        def of_seed(params: Any, memory: Any, task_id: Any) -> Any:
            return acting_params(trainer.method, trainer.policies, memory, params, task_id)

        ids = rounds.task.id[:, index]
        params = jax.vmap(of_seed)(state.learner.params, state.memory, ids)
        seeds = range(len(keys))
        clone = self.trainer.init_with(
            [pick(params, n) for n in seeds], list(keys), rounds, cast, index
        )
        clone = self.trainer.begin_task(clone, rounds, index)
        for _ in range(self.updates):
            clone = clone.replace(matches=jax.tree.map(jnp.copy, state.matches))
            clone, _ = self.trainer.step(clone, rounds, index, cast)
        return clone


def with_attempts(axes: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The axes, with that of consecutive episodes if there is one more."""
    return axes if len(axes) == number else (*axes, ROW_AXIS)

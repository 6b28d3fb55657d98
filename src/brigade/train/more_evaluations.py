"""Evaluations beside that of all tasks: with held-out partners, and of clones that adapt first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Key, Matchmaker, Pairing, Round
from brigade.core.trees import pick
from brigade.metrics.record import FEW_SHOT, HELD_OUT, HELD_OUT_AXES, SCORE_AXES
from brigade.train.evaluate import Evaluation, Evaluator, acting_params
from brigade.train.programs import TrainState, evaluate
from brigade.train.trainer import AlsoEvaluate, Position, Trainer, add_scores


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
        score, returns = played.score[:, 0], played.returns[:, 0]
        add_scores(record, f"{HELD_OUT}_", HELD_OUT_AXES, score, returns)


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
        score, returns = (
            np.concatenate(parts, axis=1)
            for parts in zip(*((played.score, played.returns) for played in by_task), strict=True)
        )
        add_scores(record, f"{FEW_SHOT}_", SCORE_AXES, score, returns)

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

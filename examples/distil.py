"""Distillation on current data: on what it sees now, keep doing what it would have done before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from brigade.core import Array, ContinualMethod, Key, Learner, LearnerState, LossOf, Metrics


class State(NamedTuple):
    """The policy after the last task, and which task that was."""

    teacher: Any  # parameters
    last_task: Array  # id, whose head the teacher is asked with
    task: Array  # id of the task in training
    active: Array  # 0 until a task has ended


@dataclass(frozen=True)
class Distil(ContinualMethod):
    """Penalises the divergence from the last task's policy, on the observations of this task."""

    weight: float = 1.0
    """Weight of the Kullback-Leibler divergence."""

    def init(self, params: Any, batch: Any) -> State:
        nothing = jnp.int32(0)
        return State(params, nothing, nothing, jnp.float32(0.0))

    def begin_task(
        self, mem: State, state: LearnerState, learner: Learner, task_id: Array, key: Key
    ) -> tuple[State, LearnerState]:
        return mem._replace(task=task_id), state

    def loss(
        self, mem: State, base: LossOf, params: Any, learner: Learner, key: Key
    ) -> tuple[Array, Metrics]:
        loss, metrics = base(params)
        # The head of the last task: that of this one is new, and its teacher knows nothing.
        batch: Any = base.batch
        task_id = jnp.full_like(batch.inputs.task_id, mem.last_task)
        asked = batch.replace(inputs=batch.inputs.replace(task_id=task_id))
        now, before = (learner.outputs(p, asked).logits for p in (params, mem.teacher))
        penalty = self.weight * mem.active * divergence(before, now)
        return loss + penalty, metrics | {"distillation": penalty}

    def end_phase(
        self, mem: State, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[State, LearnerState]:
        return State(state.params, mem.task, mem.task, jnp.float32(1.0)), state


def divergence(before: Array, now: Array) -> Array:
    """Mean Kullback-Leibler divergence of two policies, from their logits."""
    old, new = jax.nn.log_softmax(before), jax.nn.log_softmax(now)
    return jnp.mean(jnp.sum(jnp.exp(old) * (old - new), axis=-1))

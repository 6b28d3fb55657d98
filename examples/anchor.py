"""A continual method in one file: stay close to the parameters at the end of the last task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from brigade.core import Array, ContinualMethod, Key, Learner, LearnerState, LossOf, Metrics


class State(NamedTuple):
    """The parameters to stay close to; `active` is 0 until a task has ended."""

    params: Any
    active: Array


@dataclass(frozen=True)
class Anchor(ContinualMethod):
    """Penalises the distance to the last task's parameters, except for heads and critic."""

    strength: float = 0.01
    """Weight of the squared distance to the parameters at the end of the last task."""

    def init(self, params: Any, batch: Any) -> State:
        return State(params, jnp.float32(0.0))

    def loss(
        self, mem: State, base: LossOf, params: Any, learner: Learner, key: Key
    ) -> tuple[Array, Metrics]:
        loss, metrics = base(params)
        now, then = regularised(learner, params), regularised(learner, mem.params)
        distances = jax.tree.map(lambda p, a: jnp.sum((p - a) ** 2), now, then)
        penalty = self.strength * mem.active * sum(jax.tree.leaves(distances))
        return loss + penalty, metrics | {"penalty": penalty}

    def end_phase(
        self, mem: State, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[State, LearnerState]:
        return State(state.params, jnp.float32(1.0)), state


def regularised(learner: Learner, params: Any) -> Any:
    """The parameters that the penalty applies to: all but the critic and the heads."""
    groups = learner.groups(params)
    free = {*groups.critic, *groups.heads, *groups.exploration}
    return {name: part for name, part in params.items() if name not in free}

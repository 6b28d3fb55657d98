"""A continual method in one file: stay near the parameters at which the last task ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from brigade.core import Array, ContinualMethod, Key, Learner, LearnerState, LossOf, Metrics


class Memory(NamedTuple):
    """The parameters to stay near; `active` is 0 until a task has ended."""

    params: Any
    active: Array


@dataclass(frozen=True)
class Anchor(ContinualMethod):
    """A penalty on the way from where the last task ended; heads and critic are free."""

    strength: float = 0.01
    """Weight of the squared distance to the parameters at the end of the last task."""

    def init(self, params: Any, batch: Any) -> Memory:
        return Memory(params, jnp.float32(0.0))

    def loss(
        self, mem: Memory, base: LossOf, params: Any, learner: Learner, key: Key
    ) -> tuple[Array, Metrics]:
        loss, metrics = base(params)
        ways = jax.tree.map(lambda p, a: jnp.sum((p - a) ** 2), kept(params), kept(mem.params))
        penalty = self.strength * mem.active * sum(jax.tree.leaves(ways))
        return loss + penalty, metrics | {"penalty": penalty}

    def end_phase(
        self, mem: Memory, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Memory, LearnerState]:
        return Memory(state.params, jnp.float32(1.0)), state


def kept(params: Any) -> Any:
    """What the penalty holds: all but the critic and the heads, by name."""
    free = [name for name in params if name.startswith("critic") or name.endswith("_head")]
    return {name: part for name, part in params.items() if name not in free}

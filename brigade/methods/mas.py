"""Memory-aware synapses: what the outputs are sensitive to stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Key, Learner, LearnerState
from brigade.core.checks import at_least, within
from brigade.methods.importance import (
    TINY,
    Hold,
    QuadraticPenalty,
    decayed,
    num_entries,
    sensitivity,
)


@dataclass(frozen=True)
class MAS(QuadraticPenalty):
    """Importance is the slope of the squared length of the outputs, 1 on average per task."""

    coefficient: float = 1e9
    """Weight of the penalty; the penalty is half of it times importance times squared way."""
    decay: float = 0.9
    """What is left of earlier importance when a task's is added: 0 nothing, 1 all."""
    samples: int = 2500
    """Samples to estimate importance from at the end of a task, at most one minibatch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within("decay", self.decay, 0.0, 1.0)
        at_least("samples", self.samples, 1)

    def end_phase(
        self, mem: Hold, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Hold, LearnerState]:
        held = self.held(state.params)
        slope = sensitivity(learner, state.params, held, batch, self.samples, self.critic, key)
        importance = decayed(mem.importance, with_mean_one(slope), self.decay)
        return Hold(held, importance, mem.rest), state


def with_mean_one(tree: Any) -> Any:
    """Scale a tree of non-negative numbers to mean 1 over all of them; zeros stay zeros."""
    mean = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree)) / num_entries(tree)
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(mean, TINY), tree)

"""Elastic weight consolidation: what mattered for earlier tasks, by the Fisher information, stays.

One anchor per earlier task, merged exactly: a sum of squares with weights is one square around the
weighted mean plus a rest that no parameter changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Learner, LearnerState
from brigade.core.checks import at_least
from brigade.methods.importance import TINY, Hold, QuadraticPenalty, fisher


@dataclass(frozen=True)
class EWC(QuadraticPenalty):
    """A pull to the end of every earlier task."""

    coefficient: float = 1e11
    """Weight of the penalty; the penalty is half of it times importance times squared way."""
    samples: int = 2500
    """Samples to estimate importance from at the end of a task, at most one minibatch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("samples", self.samples, 1)

    def end_phase(
        self, mem: Hold, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Hold, LearnerState]:
        held = self.held(state.params)
        importance = fisher(learner, state.params, held, batch, self.samples, self.critic, key)
        return with_anchor(mem, held, importance), state


def with_anchor(mem: Hold, anchor: Any, importance: Any) -> Hold:
    """Add one more anchor."""
    total = jax.tree.map(jnp.add, mem.importance, importance)
    # The newcomer's weight in the mean; all of it where nothing mattered so far.
    share = jax.tree.map(
        lambda new, all: jnp.where(all > TINY, new / jnp.maximum(all, TINY), 1.0),
        importance,
        total,
    )
    mean = jax.tree.map(lambda m, a, s: m + s * (a - m), mem.anchor, anchor, share)
    rests = jax.tree.map(_rest, mem.importance, mem.anchor, anchor, share)
    return Hold(mean, total, mem.rest + sum(jax.tree.leaves(rests)))


def _rest(importance: Array, mean: Array, anchor: Array, share: Array) -> Array:
    return jnp.sum(importance * share * jnp.square(anchor - mean))

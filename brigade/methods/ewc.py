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
from brigade.methods.importance import TINY, EstimatedPenalty, Hold


@dataclass(frozen=True)
class EWC(EstimatedPenalty):
    """A pull to the end of every earlier task."""

    coefficient: float = 1e7
    """Weight of the penalty; the penalty is half of it times importance times squared way."""

    def end_phase(
        self, mem: Hold, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Hold, LearnerState]:
        importance = self.estimate(learner, state.params, batch, key)
        return with_anchor(mem, self.held(state.params), importance), state


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

"""Elastic weight consolidation: a penalty weighted by the Fisher information of earlier tasks.

There is one anchor per earlier task, and all are merged exactly: a weighted sum of squares is one
square around the weighted mean plus a constant.

Reference: J. Kirkpatrick and others, *Overcoming catastrophic forgetting in neural networks*, PNAS
2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Learner, LearnerState
from brigade.methods.importance import TINY, EstimatedPenalty, Penalty, part_of


@dataclass(frozen=True)
class EWC(EstimatedPenalty):
    """Pulls parameters back to earlier tasks, by Fisher information."""

    display_name = "EWC"
    coefficient: float = 1e7
    """Weight of the penalty, coefficient / 2 * importance * squared distance to the anchor."""

    def end_phase(
        self, mem: Penalty, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Penalty, LearnerState]:
        anchor = part_of(state.params, mem.anchor)
        importance = self.estimate(learner, state.params, anchor, batch, key)
        return with_anchor(mem, anchor, importance), state


def with_anchor(mem: Penalty, anchor: Any, importance: Any) -> Penalty:
    """Add an anchor to the penalty."""
    total = jax.tree.map(jnp.add, mem.importance, importance)
    # The new anchor's weight in the mean; 1 where there was no importance so far.
    share = jax.tree.map(
        lambda new, both: jnp.where(both > TINY, new / jnp.maximum(both, TINY), 1.0),
        importance,
        total,
    )
    mean = jax.tree.map(lambda m, a, s: m + s * (a - m), mem.anchor, anchor, share)
    rests = jax.tree.map(_rest, mem.importance, mem.anchor, anchor, share)
    return Penalty(mean, total, mem.rest + sum(jax.tree.leaves(rests)))


def _rest(importance: Array, mean: Array, anchor: Array, share: Array) -> Array:
    return jnp.sum(importance * share * jnp.square(anchor - mean))

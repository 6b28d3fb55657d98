"""L2: a penalty on the distance of all parameters to where the last task ended.

Reference: J. Kirkpatrick and others, *Overcoming catastrophic forgetting in neural networks*, PNAS
2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Key, Learner, LearnerState
from brigade.methods.importance import Penalty, QuadraticPenalty, part_of


@dataclass(frozen=True)
class L2(QuadraticPenalty):
    """Pulls all parameters equally towards where the last task ended."""

    display_name = "L2"
    coefficient: float = 1e6
    """Weight of the penalty, coefficient / 2 * squared distance to the anchor."""
    first_task: bool = False
    """Regularise the first task towards the initial parameters, as the MEAL release does."""

    def init(self, params: Any, batch: Any) -> Penalty:
        return equal_penalty(params, 1.0 if self.first_task else 0.0)

    def end_phase(
        self, mem: Penalty, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Penalty, LearnerState]:
        return equal_penalty(part_of(state.params, mem.anchor), 1.0), state


def equal_penalty(anchor: Any, importance: float) -> Penalty:
    """A penalty with the same importance for every parameter."""
    equal = jax.tree.map(lambda p: jnp.full_like(p, importance), anchor)
    return Penalty(anchor, equal, jnp.float32(0.0))

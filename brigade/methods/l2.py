"""L2: every parameter is pulled back to where the last task left it, all equally hard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Key, Learner, LearnerState
from brigade.methods.importance import Hold, QuadraticPenalty


@dataclass(frozen=True)
class L2(QuadraticPenalty):
    """Importance 1 for all parameters."""

    coefficient: float = 1e6
    """Weight of the penalty; the penalty is half of it times the squared way."""
    first_task: bool = False
    """Hold the first task to the initial parameters, as the MEAL release does."""

    def init(self, params: Any, batch: Any) -> Hold:
        return held_equally(self.held(params), 1.0 if self.first_task else 0.0)

    def end_phase(
        self, mem: Hold, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Hold, LearnerState]:
        return held_equally(self.held(state.params), 1.0), state


def held_equally(anchor: Any, importance: float) -> Hold:
    """The same importance for every parameter."""
    equal = jax.tree.map(lambda p: jnp.full_like(p, importance), anchor)
    return Hold(anchor, equal, jnp.float32(0.0))

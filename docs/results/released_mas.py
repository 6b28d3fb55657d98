"""MAS as the MEAL release computes it, to see where the distance to the published row comes from.

    brigade run meal/level-1 --method docs/results/released_mas.py:ReleasedMAS

Three things differ from `brigade.methods.mas`: slopes are squared instead of taken by size; the
value counts among the outputs although the critic is not held, so that its slopes rule the mean
everything is scaled by; importance is a running mean instead of a fading sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Learner, LearnerState
from brigade.methods.importance import Penalty, mean_over_samples
from brigade.methods.mas import MAS, with_mean_one


@dataclass(frozen=True)
class ReleasedMAS(MAS):
    """Squared slopes, the value among the outputs, a running mean."""

    def estimate(self, learner: Learner, params: Any, batch: Any, key: Key) -> Any:
        return self.held(with_mean_one(self.squared_slopes(learner, params, batch, key)))

    def squared_slopes(self, learner: Learner, params: Any, batch: Any, key: Key) -> Any:
        """Of half the squared length of all outputs, in all parameters."""

        def squared_slope(row: Any, key: Key) -> Any:
            def squared_length(params: Any) -> Array:
                out = learner.outputs(params, row)
                length: Array = jnp.sum(jnp.square(out.logits)) + jnp.sum(jnp.square(out.value))
                return 0.5 * length

            return jax.tree.map(jnp.square, jax.grad(squared_length)(params))

        return mean_over_samples(squared_slope, params, batch, self.samples, key)

    def end_phase(
        self, mem: Penalty, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Penalty, LearnerState]:
        new = self.estimate(learner, state.params, batch, key)
        importance = jax.tree.map(
            lambda o, n: self.decay * o + (1.0 - self.decay) * n, mem.importance, new
        )
        return Penalty(self.held(state.params), importance, mem.rest), state


@dataclass(frozen=True)
class EarlierMAS(ReleasedMAS):
    """As an earlier state of the release has it: the last task alone counts, at its own scale."""

    def estimate(self, learner: Learner, params: Any, batch: Any, key: Key) -> Any:
        return self.held(self.squared_slopes(learner, params, batch, key))

    def end_phase(
        self, mem: Penalty, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Penalty, LearnerState]:
        new = self.estimate(learner, state.params, batch, key)
        return Penalty(self.held(state.params), new, mem.rest), state

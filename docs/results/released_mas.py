"""MAS as the MEAL release computes it, to see where the distance to the published row comes from.

    brigade run meal/level-1 --method docs/results/released_mas.py:ReleasedMAS

Three things differ from `brigade.methods.mas`: importance is the squared gradient instead of its
absolute value; the value is one of the outputs although the critic is not penalised, so the critic
dominates the mean that importance is divided by; importance is a running mean, not a decaying sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Learner, LearnerState
from brigade.methods.importance import Penalty, mean_over_samples, part_of
from brigade.methods.mas import MAS, with_mean_one


@dataclass(frozen=True)
class ReleasedMAS(MAS):
    """Squared gradients, the value among the outputs, a running mean."""

    def estimate(self, learner: Learner, params: Any, penalised: Any, batch: Any, key: Key) -> Any:
        gradients = squared_gradients(learner, params, batch, self.samples, key)
        return part_of(with_mean_one(gradients), penalised)

    def end_phase(
        self, mem: Penalty, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Penalty, LearnerState]:
        penalised = part_of(state.params, mem.anchor)
        new = self.estimate(learner, state.params, penalised, batch, key)
        importance = jax.tree.map(
            lambda o, n: self.decay * o + (1.0 - self.decay) * n, mem.importance, new
        )
        return Penalty(penalised, importance, mem.rest), state


@dataclass(frozen=True)
class EarlierMAS(ReleasedMAS):
    """As an earlier state of the release has it: only the last task counts, without scaling."""

    def end_phase(
        self, mem: Penalty, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Penalty, LearnerState]:
        new = squared_gradients(learner, state.params, batch, self.samples, key)
        penalised = part_of(state.params, mem.anchor)
        return Penalty(penalised, part_of(new, mem.anchor), mem.rest), state


def squared_gradients(learner: Learner, params: Any, batch: Any, samples: int, key: Key) -> Any:
    """Of half the squared norm of all outputs, for all parameters; feed-forward learners only."""

    def squared_gradient(row: Any, key: Key) -> Any:
        def squared_norm(params: Any) -> Array:
            out = learner.outputs(params, row)
            norm: Array = jnp.sum(jnp.square(out.logits)) + jnp.sum(jnp.square(out.value))
            return 0.5 * norm

        return jax.tree.map(jnp.square, jax.grad(squared_norm)(params))

    return mean_over_samples(squared_gradient, params, batch, samples, timesteps=1, key=key)

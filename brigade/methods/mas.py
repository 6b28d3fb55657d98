"""Memory-aware synapses: what the outputs are sensitive to stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Key, Learner
from brigade.methods.importance import TINY, FadingPenalty, num_entries, sensitivity


@dataclass(frozen=True)
class MAS(FadingPenalty):
    """Importance is the slope of the squared length of the outputs, 1 on average per task."""

    coefficient: float = 1e5
    """Weight of the penalty; the penalty is half of it times importance times squared way."""

    def estimate(self, learner: Learner, params: Any, batch: Any, key: Key) -> Any:
        held = self.held(params)
        slope = sensitivity(learner, params, held, batch, self.samples, self.critic, key)
        return with_mean_one(slope)


def with_mean_one(tree: Any) -> Any:
    """Scale a tree of non-negative numbers to mean 1 over all of them; zeros stay zeros."""
    mean = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree)) / num_entries(tree)
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(mean, TINY), tree)

"""Memory-aware synapses: importance is how sensitive the network's outputs are to a parameter.

Reference: R. Aljundi and others, *Memory aware synapses: learning what (not) to forget*, ECCV 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Key, Learner
from brigade.methods.importance import TINY, FadingPenalty, num_entries, sensitivity


@dataclass(frozen=True)
class MAS(FadingPenalty):
    """Like Online EWC, by how much the outputs depend on a parameter."""

    display_name = "MAS"
    coefficient: float = 1e5
    """Weight of the penalty, coefficient / 2 * importance * squared distance to the anchor."""

    def estimate(self, learner: Learner, params: Any, penalised: Any, batch: Any, key: Key) -> Any:
        gradient = sensitivity(learner, params, penalised, batch, self.samples, self.critic, key)
        return with_mean_one(gradient)


def with_mean_one(tree: Any) -> Any:
    """Scale a tree of non-negative numbers to mean 1; all zeros stay zeros."""
    mean = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree)) / num_entries(tree)
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(mean, TINY), tree)

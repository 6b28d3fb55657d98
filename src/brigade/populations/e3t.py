"""E3T: end-to-end training with a noisy copy (Yan and others, NeurIPS 2023).

Reference: X. Yan and others, *An efficient end-to-end training approach for zero-shot human-AI
coordination*, NeurIPS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Cast, Key, Policy, Trajectory
from brigade.core.checks import each, within
from brigade.partners.wrappers import Noisy
from brigade.populations.ego import ITSELF, EgoGenerator, group_of_copies, stacked_once

COPY = "noisy copy"


@dataclass(frozen=True)
class E3T(EgoGenerator):
    """Learns with a slow copy of itself that often acts at random.

    Randomness keeps the ego from relying on conventions; the copy keeps the partner competent. The
    module that predicts the partner's actions is left out.
    """

    epsilon: float = 0.5
    """Probability that the partner takes a random action: 0.5 in the paper, 0.25 in ZSC-Eval's
    script."""
    copy_rate: float = 0.1
    """How far the copy moves towards the ego after every rollout."""
    masked: bool = True
    """Random actions are available ones; ZSC-Eval samples among all actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        each(within, self, "epsilon copy_rate", 0.0, 1.0)

    def cast(self, policy: Policy) -> Cast:
        noisy = group_of_copies(Noisy(policy, self.epsilon, self.masked), policy, (COPY,))
        return noisy + group_of_copies(policy, policy, (ITSELF,))

    def init(self, params: Any, policy: Policy, key: Key) -> Any:
        """The copy's parameters."""
        return params

    def weights(self, state: Any, weights: Array) -> Array:
        return jnp.array([1.0, 0.0])

    def partners(self, state: Any, params: Any, given: Any) -> Any:
        return stacked_once(state), stacked_once(params)

    def after(self, state: Any, params: Any, traj: Trajectory, key: Key) -> Any:
        return moved_towards(state, params, self.copy_rate)


def moved_towards(copy: Any, params: Any, rate: float) -> Any:
    """The copy, moved by `rate` of the distance to the parameters."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), copy, params)

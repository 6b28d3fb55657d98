"""MEP: maximum entropy population-based training (Zhao and others, AAAI 2023).

Reference: R. Zhao and others, *Maximum entropy population-based training for zero-shot human-AI
coordination*, AAAI 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Array, Learner, Trajectory
from brigade.core.checks import at_least
from brigade.populations.tables import Compared, log_probs_of_all


@dataclass(frozen=True)
class MEP(Compared):
    """Self-play policies paid for actions that others rarely take.

    The bonus is `entropy` times -log of the mean probability of the action over all policies.
    """

    entropy: float = 0.01
    """Weight of the population entropy."""

    prefix: ClassVar[str] = "mep"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("entropy", self.entropy, 0.0)

    def reward(self, state: Any, learner: Learner, params: Any, traj: Trajectory) -> Trajectory:
        bonus = population_surprise(log_probs_of_all(learner, params, traj))
        return traj.replace(reward=traj.reward + self.entropy * bonus)


def population_surprise(log_probs: Array) -> Array:
    """-log of the mean probability over policies; `log_probs` [policies, ...] -> [...]."""
    return jnp.log(len(log_probs)) - jax.nn.logsumexp(log_probs, axis=0)

"""MEP: maximum entropy population-based training (Zhao and others, AAAI 2023).

Reference: R. Zhao and others, *Maximum entropy population-based training for zero-shot human-AI
coordination*, AAAI 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Array, Environment, Learner, Trajectory
from brigade.core.checks import at_least
from brigade.populations.sp import SelfPlay
from brigade.populations.tables import check_no_memory, log_probs_of_all


@dataclass(frozen=True)
class MEP(SelfPlay):
    """Self-play policies paid for actions that others rarely take.

    The bonus is `entropy` times -log of the mean probability of the action over all policies.
    """

    entropy: float = 0.01
    """Weight of the population entropy."""

    stages: ClassVar[tuple[str, ...]] = ("init", "mid", "final")
    defaults: ClassVar[Mapping[str, Any]] = {"snapshots": 10}

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("entropy", self.entropy, 0.0)

    def names(self) -> list[str]:
        return [f"mep-{number}" for number in range(1, self.members + 1)]

    def check(self, env: Environment, learner: Learner) -> None:
        super().check(env, learner)
        check_no_memory("mep", learner)

    def reward(self, state: Any, learner: Learner, params: Any, traj: Trajectory) -> Trajectory:
        bonus = population_surprise(log_probs_of_all(learner, params, traj))
        return traj.replace(reward=traj.reward + self.entropy * bonus)


def population_surprise(log_probs: Array) -> Array:
    """-log of the mean probability over policies; `log_probs` [policies, ...] -> [...]."""
    return jnp.log(len(log_probs)) - jax.nn.logsumexp(log_probs, axis=0)

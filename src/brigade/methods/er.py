"""Experience replay: every gradient step also trains on samples of earlier tasks.

Reference: D. Rolnick and others, *Experience replay for continual learning*, NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from brigade.core import Key, LossOn
from brigade.core.checks import at_least
from brigade.methods.replay import Rehearsal, ReplayBuffer


@dataclass(frozen=True)
class ER(Rehearsal):
    """Experience replay: also trains on samples of earlier tasks."""

    display_name = "ER"
    coefficient: float = 1.0
    """Weight of the loss on replayed samples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("coefficient", self.coefficient, 0.0)

    def edit_grads(
        self, mem: ReplayBuffer, grads: Any, params: Any, loss_on: LossOn, key: Key
    ) -> Any:
        # Adding gradients is the same as adding losses.
        def with_replay() -> Any:
            replayed = self.replay_gradient(mem, params, loss_on, key)
            return jax.tree.map(lambda g, r: g + self.coefficient * r, grads, replayed)

        return jax.lax.cond(mem.done > 0, with_replay, lambda: grads)

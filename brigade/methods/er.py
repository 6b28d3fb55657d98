"""Experience replay: samples of earlier tasks are learned from beside the current ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from brigade.core import Key, LossOn
from brigade.core.checks import at_least
from brigade.methods.memory import Rehearsal, Replay


@dataclass(frozen=True)
class ER(Rehearsal):
    """The loss on a batch of the memory is added to that on the current batch."""

    coefficient: float = 1.0
    """Weight of the loss on the memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("coefficient", self.coefficient, 0.0)

    def edit_grads(self, mem: Replay, grads: Any, params: Any, loss_on: LossOn, key: Key) -> Any:
        # The gradient of a sum is the sum of gradients: the same as adding to the loss.
        def replayed() -> Any:
            more = self.remembered(mem, params, loss_on, key)
            return jax.tree.map(lambda g, m: g + self.coefficient * m, grads, more)

        return jax.lax.cond(mem.done > 0, replayed, lambda: grads)

"""Online EWC: one anchor, the end of the last task, and importance that fades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from brigade.core import Key, Learner, LearnerState
from brigade.core.checks import at_least, within
from brigade.methods.importance import Hold, QuadraticPenalty, decayed, fisher


@dataclass(frozen=True)
class OnlineEWC(QuadraticPenalty):
    """The Fisher information of earlier tasks counts less with every task."""

    coefficient: float = 1e11
    """Weight of the penalty; the penalty is half of it times importance times squared way."""
    decay: float = 0.9
    """What is left of earlier importance when a task's is added: 0 nothing, 1 all."""
    samples: int = 2500
    """Samples to estimate importance from at the end of a task, at most one minibatch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within("decay", self.decay, 0.0, 1.0)
        at_least("samples", self.samples, 1)

    def end_phase(
        self, mem: Hold, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Hold, LearnerState]:
        held = self.held(state.params)
        new = fisher(learner, state.params, held, batch, self.samples, self.critic, key)
        return Hold(held, decayed(mem.importance, new, self.decay), mem.rest), state

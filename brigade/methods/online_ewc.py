"""Online EWC: one anchor, the end of the last task, and importance that fades."""

from __future__ import annotations

from dataclasses import dataclass

from brigade.methods.importance import FadingPenalty


@dataclass(frozen=True)
class OnlineEWC(FadingPenalty):
    """The Fisher information of earlier tasks counts less with every task."""

    coefficient: float = 1e8
    """Weight of the penalty; the penalty is half of it times importance times squared way."""

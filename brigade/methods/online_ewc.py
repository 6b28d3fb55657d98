"""Online EWC: one anchor, the end of the last task, and importance that decays."""

from __future__ import annotations

from dataclasses import dataclass

from brigade.methods.importance import FadingPenalty


@dataclass(frozen=True)
class OnlineEWC(FadingPenalty):
    """EWC with one anchor; the Fisher information of earlier tasks decays with every task."""

    display_name = "Online EWC"
    coefficient: float = 1e8
    """Weight of the penalty, coefficient / 2 * importance * squared distance to the anchor."""

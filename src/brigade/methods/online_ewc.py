"""Online EWC: one anchor, the end of the last task, and importance that decays.

Reference: J. Schwarz and others, *Progress & Compress: a scalable framework for continual
learning*, ICML 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

from brigade.methods.importance import FadingPenalty


@dataclass(frozen=True)
class OnlineEWC(FadingPenalty):
    """EWC with one anchor and importance that decays with every task."""

    display_name = "Online EWC"
    coefficient: float = 1e8
    """Weight of the penalty, coefficient / 2 * importance * squared distance to the anchor."""

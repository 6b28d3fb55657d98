"""Multi-task learning: all tasks at once, an upper bound for continual methods.

Reference: the upper bound of Lifelong Hanabi (Nekoei and others, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from brigade.core import ContinualMethod


@dataclass(frozen=True)
class MultiTask(ContinualMethod):
    """Multi-task learning: trains on all tasks at once, the upper bound."""

    display_name = "MTL"
    ends_matter: ClassVar[bool] = False
    mixes_tasks: ClassVar[bool] = True

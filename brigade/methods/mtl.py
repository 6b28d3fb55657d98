"""Multi-task learning: all tasks at once, an upper bound for continual methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from brigade.core import ContinualMethod


@dataclass(frozen=True)
class MultiTask(ContinualMethod):
    """Every rollout is of a task sampled from the whole stream."""

    display_name = "MTL"
    mixes_tasks: ClassVar[bool] = True

"""Fine-tuning: training on without protection against forgetting, the baseline for all methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from brigade.core import ContinualMethod


@dataclass(frozen=True)
class FineTuning(ContinualMethod):
    """Fine-tuning: trains on without protection, the baseline."""

    display_name = "FT"
    ends_matter: ClassVar[bool] = False

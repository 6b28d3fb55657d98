"""Fine-tuning: learn on, keep nothing. The baseline every method is measured against."""

from __future__ import annotations

from dataclasses import dataclass

from brigade.core import ContinualMethod


@dataclass(frozen=True)
class FineTuning(ContinualMethod):
    """Every hook as it comes."""

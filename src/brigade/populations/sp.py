"""Self-play: every policy is trained with copies of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from brigade.populations.generator import Generator


@dataclass(frozen=True)
class SelfPlay(Generator):
    """Self-play: independent policies that differ only in their seed."""

    prefix: ClassVar[str] = "sp"

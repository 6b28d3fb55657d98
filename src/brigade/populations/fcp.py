"""FCP: fictitious co-play (Strouse and others, NeurIPS 2021).

Reference: D. Strouse and others, *Collaborating with humans without human data*, NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from brigade.populations.sp import SelfPlay


@dataclass(frozen=True)
class FCP(SelfPlay):
    """Fictitious co-play: self-play policies at three stages of training.

    Half-way is the snapshot whose return is nearest to half of the final one.
    """

    prefix: ClassVar[str] = "fcp"
    stages: ClassVar[tuple[str, ...]] = ("init", "mid", "final")
    defaults: ClassVar[Mapping[str, Any]] = {"snapshots": 10}

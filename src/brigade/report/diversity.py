"""How much policies differ, as a picture (ICRL4AHT, appendix F.2)."""

from __future__ import annotations

from collections.abc import Sequence

from brigade.metrics.result import Floats
from brigade.report.crossplay import square


def distance_map(names: Sequence[str], distances: Floats, where: str) -> bytes:
    """Hamming distances [policy, policy], of policies or families, as a PNG."""
    title = f"Share of states with different actions in {where}"
    return square(names, distances, (0.0, 1.0), ("", "", title, "Hamming distance"))

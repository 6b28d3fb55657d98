"""Self-play: every policy learns with copies of itself alone."""

from __future__ import annotations

from dataclasses import dataclass

from brigade.populations.generator import Generator


@dataclass(frozen=True)
class SelfPlay(Generator):
    """Independent policies that differ by their seed."""

    def names(self) -> list[str]:
        return [f"sp-{number}" for number in range(1, self.members + 1)]

"""Self-play: every policy is trained with copies of itself."""

from __future__ import annotations

from dataclasses import dataclass

from brigade.populations.generator import Generator


@dataclass(frozen=True)
class SelfPlay(Generator):
    """Self-play: independent policies that differ only in their seed."""

    def names(self) -> list[str]:
        return [f"sp-{number}" for number in range(1, self.members + 1)]

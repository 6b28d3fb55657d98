"""Partners that were trained in a smaller kitchen than the one they play in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from brigade.core import Array, Key, Policy, View


@dataclass(frozen=True)
class Cropped:
    """A policy that sees only the upper left part of an observation, the size it was trained with.

    Kitchens are padded with counters on the right and below, so this is the kitchen itself.
    """

    policy: Policy
    height: int
    width: int

    @property
    def always_samples(self) -> bool:
        """Whether the policy has no greedy actions."""
        return bool(getattr(self.policy, "always_samples", False))

    def init(self, key: Key) -> Any:
        """The policy's parameters."""
        return self.policy.init(key)

    def initial_carry(self, batch: tuple[int, ...]) -> Any:
        """The policy's recurrent state."""
        return self.policy.initial_carry(batch)

    def act(
        self, params: Any, carry: Any, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Any, dict[str, Array]]:
        """One action per seat."""
        obs = view.obs[..., : self.height, : self.width, :]
        return self.policy.act(params, carry, view.replace(obs=obs), key, greedy)

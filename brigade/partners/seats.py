"""Who sits where: a policy that fills each seat from the learner or from a fixed partner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Memories, Policy, View


@dataclass(frozen=True)
class SeatedPolicy:
    """The learner on its seats, a partner on the others; itself a policy.

    Rollouts need no change: `extras["own"]` tells the learner's loss which moves were its own.
    """

    learner: Policy
    partner: Policy
    partner_params: Any
    learner_seats: tuple[bool, ...]

    def init(self, key: Key) -> Any:
        """The learner's parameters; the partner's are fixed."""
        return self.learner.init(key)

    def initial_carry(self, batch: tuple[int, ...]) -> Memories:
        """Both memories."""
        return Memories(self.learner.initial_carry(batch), self.partner.initial_carry(batch))

    def act(
        self, params: Any, carry: Memories, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Memories, dict[str, Array]]:
        """Both choose for every seat; each seat's owner is heard."""
        learner_key, partner_key = jax.random.split(key)
        mine, own, extras = self.learner.act(params, carry.learner, view, learner_key, greedy)
        theirs, others, _ = self.partner.act(
            self.partner_params, carry.partner, view, partner_key, greedy
        )
        is_own = jnp.broadcast_to(jnp.asarray(self.learner_seats), mine.shape)
        action = jnp.where(is_own, mine, theirs)
        return action, Memories(own, others), extras | {"own": is_own}

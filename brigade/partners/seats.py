"""Who sits where: a policy that fills each seat from the learner or from a fixed partner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Policy, View


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

    def initial_carry(self, batch: tuple[int, ...]) -> tuple[Any, Any]:
        """Both memories."""
        return self.learner.initial_carry(batch), self.partner.initial_carry(batch)

    def act(
        self, params: Any, carry: tuple[Any, Any], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[Any, Any], dict[str, Array]]:
        """Both choose for every seat; each seat's owner is heard."""
        learner_key, partner_key = jax.random.split(key)
        mine, own_carry, extras = self.learner.act(params, carry[0], view, learner_key, greedy)
        theirs, partner_carry, _ = self.partner.act(
            self.partner_params, carry[1], view, partner_key, greedy
        )
        own = jnp.broadcast_to(jnp.asarray(self.learner_seats), mine.shape)
        return jnp.where(own, mine, theirs), (own_carry, partner_carry), extras | {"own": own}

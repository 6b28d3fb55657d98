"""Policies that wrap another one and have its parameters and recurrent state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Policy, View
from brigade.partners.scripted import Random


@dataclass(frozen=True)
class Wrapper(Policy):
    """All of a policy but its actions; a subclass adds `act`."""

    policy: Policy

    @property
    def always_samples(self) -> bool:
        """Whether there are no greedy actions."""
        return self.policy.always_samples

    @property
    def sees_state(self) -> bool:
        """Whether the policy does."""
        return self.policy.sees_state

    def init(self, key: Key) -> Any:
        """The policy's parameters."""
        return self.policy.init(key)

    def initial_carry(self, batch: tuple[int, ...]) -> Any:
        """The policy's recurrent state."""
        return self.policy.initial_carry(batch)


@dataclass(frozen=True)
class Noisy(Wrapper):
    """Takes a random action with probability `epsilon`: an available one, if `masked`."""

    epsilon: float
    masked: bool = True

    @property
    def always_samples(self) -> bool:
        """True: without its random actions it would be another partner."""
        return True

    def act(
        self, params: Any, carry: Any, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Any, dict[str, Array]]:
        """One action per seat."""
        policy_key, random_key, choice_key = jax.random.split(key, 3)
        action, carry, extras = self.policy.act(params, carry, view, policy_key, greedy)
        seen = view if self.masked else view.replace(avail=jnp.ones_like(view.avail))
        at_random, _, _ = Random().act((), (), seen, random_key)
        is_random = jax.random.bernoulli(choice_key, self.epsilon, action.shape)
        return jnp.where(is_random, at_random, action), carry, extras

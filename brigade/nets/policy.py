"""The policy of an actor-critic network without memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array, Key, Outputs, View

FORBIDDEN = -1e9  # a logit no forbidden action survives


@dataclass(frozen=True)
class ActorCriticPolicy:
    """Sample from the network's logits, or take the best. `extras` hold what PPO needs."""

    network: nn.Module
    obs_shape: tuple[int, ...]

    def init(self, key: Key) -> Any:
        """Fresh parameters."""
        obs = jnp.zeros((1, *self.obs_shape), jnp.uint8)
        return self.network.init(key, obs, jnp.zeros(1, jnp.int32))["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> tuple[()]:
        """No memory."""
        return ()

    def outputs(self, params: Any, obs: Array, task_id: Array, avail: Array) -> Outputs:
        """Logits with forbidden actions masked, and the value."""
        out: Any = self.network.apply({"params": params}, obs, task_id)
        return Outputs(jnp.where(avail, out.logits, FORBIDDEN), out.value)

    def act(
        self, params: Any, carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """One action per seat."""
        out = self.outputs(params, view.obs, view.task_id, view.avail)
        action = out.logits.argmax(-1) if greedy else jax.random.categorical(key, out.logits)
        assert out.value is not None
        extras = {"log_prob": log_prob(out.logits, action), "value": out.value}
        return action.astype(jnp.int32), carry, extras


def log_prob(logits: Array, action: Array) -> Array:
    """Log-probability of `action` [...] under `logits` [..., num_actions]."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]

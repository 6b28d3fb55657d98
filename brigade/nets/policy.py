"""The policy of an actor-critic network without memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Outputs, View
from brigade.nets.actor_critic import ActorCritic
from brigade.nets.inputs import ChangingInputs

FORBIDDEN = -1e9  # a logit no forbidden action survives


@dataclass(frozen=True)
class ActorCriticPolicy:
    """Sample from the network's logits, or take the best.

    It records nothing: without a memory, what a learner needs can be worked out afterwards.
    """

    network: ActorCritic
    obs_shape: tuple[int, ...]

    def init(self, key: Key) -> Any:
        """Fresh parameters."""
        obs = jnp.zeros((1, *self.obs_shape), jnp.uint8)
        return self.network.init(key, obs, jnp.zeros(1, jnp.int32))["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> tuple[()]:
        """No memory."""
        return ()

    def outputs(
        self, params: Any, obs: Array | ChangingInputs, task_id: Array, avail: Array
    ) -> Outputs:
        """Logits with forbidden actions masked, and the value. One `task_id` may serve all."""
        out: Any = self.network.apply({"params": params}, obs, task_id)
        return Outputs(jnp.where(avail, out.logits, FORBIDDEN), out.value)

    def act(
        self, params: Any, carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """One action per seat."""
        out = self.outputs(params, view.obs, view.task_id, view.avail)
        action = out.logits.argmax(-1) if greedy else jax.random.categorical(key, out.logits)
        return action.astype(jnp.int32), carry, {}


def log_prob(logits: Array, action: Array) -> Array:
    """Log-probability of `action` [...] under `logits` [..., num_actions].

    A mask and a sum: picking by index would make the gradient a slow scatter.
    """
    chosen = action[..., None] == jnp.arange(logits.shape[-1])
    return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(logits), 0.0), axis=-1)

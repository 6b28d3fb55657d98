"""A-GEM: gradient steps must not, to first order, raise the loss on samples of earlier tasks.

Reference: A. Chaudhry and others, *Efficient lifelong learning with A-GEM*, ICLR 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Key, Learner, LossOn
from brigade.methods.replay import Rehearsal, ReplayBuffer

TINY = 1e-30


class AGEMState(ReplayBuffer):
    """The replay buffer, and the critic's parameters if they are projected separately."""

    critic: tuple[str, ...] = struct.field(pytree_node=False, default=())


@dataclass(frozen=True)
class AGEM(Rehearsal):
    """A-GEM: projects out gradients that raise the loss on earlier tasks."""

    display_name = "A-GEM"
    separate_critic: bool = False
    """Project the gradients of actor and critic separately, instead of as one vector."""

    def start(self, learner: Learner, params: Any, batch: Any) -> ReplayBuffer:
        critic = learner.groups(params).critic if self.separate_critic else ()
        mem = super().start(learner, params, batch)
        return mem.replace(critic=critic)

    def init(self, params: Any, batch: Any) -> AGEMState:
        buffer = super().init(params, batch)
        return AGEMState(buffer.samples, buffer.done, buffer.written)

    def edit_grads(self, mem: AGEMState, grads: Any, params: Any, loss_on: LossOn, key: Key) -> Any:
        def constrained() -> Any:
            reference = self.replay_gradient(mem, params, loss_on, key)
            return projected_separately(grads, reference, mem.critic)

        return jax.lax.cond(mem.done > 0, constrained, lambda: grads)


def projected_separately(
    grads: Mapping[str, Any], reference: Mapping[str, Any], names: tuple[str, ...]
) -> Any:
    """Project the entries called `names` as one vector and all others as another."""
    if not names:
        return projected(grads, reference)

    def split(tree: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        rest = {name: part for name, part in tree.items() if name not in names}
        return rest, {name: tree[name] for name in names}

    rest, named = map(projected, split(grads), split(reference))
    return rest | named


def projected(grads: Any, reference: Any) -> Any:
    """`grads` without its component against `reference`, with all parameters as one vector."""
    conflict = jnp.minimum(dot(grads, reference), 0.0)
    scale = conflict / jnp.maximum(dot(reference, reference), TINY)
    return jax.tree.map(lambda g, r: g - scale * r, grads, reference)


def dot(a: Any, b: Any) -> Array:
    """The dot product of two trees."""
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    total: Array = jax.tree.reduce(jnp.add, products)
    return total

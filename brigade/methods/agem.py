"""A-GEM: no step may, to first order, raise the loss on samples of earlier tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, LossOn
from brigade.methods.memory import Rehearsal, Replay

TINY = 1e-30


@dataclass(frozen=True)
class AGEM(Rehearsal):
    """A gradient that points against the memory's loses the part that does."""

    def edit_grads(self, mem: Replay, grads: Any, params: Any, loss_on: LossOn, key: Key) -> Any:
        def compared() -> Any:
            return projected(grads, self.remembered(mem, params, loss_on, key))

        return jax.lax.cond(mem.done > 0, compared, lambda: grads)


def projected(grads: Any, reference: Any) -> Any:
    """`grads` without its part against `reference`, all parameters seen as one vector."""
    against = jnp.minimum(dot(grads, reference), 0.0)
    share = against / jnp.maximum(dot(reference, reference), TINY)
    return jax.tree.map(lambda g, r: g - share * r, grads, reference)


def dot(a: Any, b: Any) -> Array:
    """The product of two trees as vectors."""
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    total: Array = jax.tree.reduce(jnp.add, products)
    return total

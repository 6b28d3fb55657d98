"""Trees of arrays with common axes in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core.types import Array


def pick(tree: Any, index: Any) -> Any:
    """One entry of stacked leaves, or several."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(trees: Sequence[Any]) -> Any:
    """Trees of the same structure as one, leaves [number of trees, ...]."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def put(trees: Any, index: Array | int, tree: Any) -> Any:
    """Stacked leaves with one entry replaced."""
    return jax.tree.map(lambda leaves, leaf: leaves.at[index].set(leaf), trees, tree)


def choose(mask: Array, new: Any, old: Any) -> Any:
    """Leaves [*mask, ...] of `new` where the mask is True, else of `old`."""

    def chosen(new: Array, old: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (old.ndim - mask.ndim)), new, old)

    return jax.tree.map(chosen, new, old)

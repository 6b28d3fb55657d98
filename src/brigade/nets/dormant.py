"""Dormant units: hidden units whose mean activation is tiny compared with their layer's mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array
from brigade.nets.layers import Hidden

THRESHOLD = 0.01
EPSILON = 1e-9  # avoids 0 / 0 in a layer of zeros, which counts as dormant


@contextmanager
def recorded_activations() -> Iterator[list[Array]]:
    """Record the activations of the policy's hidden layers during network calls in this context."""
    layers: list[Array] = []

    def record(
        call: Any, arguments: Any, keywords: Any, context: nn.module.InterceptorContext
    ) -> Any:
        outputs = call(*arguments, **keywords)
        is_hidden = isinstance(context.module, Hidden) and context.method_name == "activated"
        if is_hidden and not _of_critic(context.module):
            layers.append(outputs)
        return outputs

    with nn.intercept_methods(record):
        yield layers


def _of_critic(layer: nn.Module) -> bool:
    return any(name.startswith("critic_") for name in layer.path)


def dormant_share(layers: list[Array], threshold: float = THRESHOLD) -> Array:
    """Share of units with mean |activation| at most `threshold` x the layer's; mean over layers."""
    shares = []
    for layer in layers:
        unit = jnp.abs(layer.astype(jnp.float32)).reshape(-1, layer.shape[-1]).mean(0)
        shares.append((unit / (unit.mean() + EPSILON) <= threshold).mean())
    return jnp.stack(shares).mean()

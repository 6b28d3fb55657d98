"""Action distributions: categorical over discrete actions, Gaussian over continuous ones.

Both are functions of the actor head's outputs, so importance estimates and distillation need only
that one array.
"""

from __future__ import annotations

import math
from typing import Protocol

import jax
import jax.numpy as jnp

from brigade.core.types import Array, Key

FORBIDDEN = -1e9  # logit of an unavailable action, whose probability is then 0


class Sampled(Protocol):
    """Samples of a policy's outputs, and their log-likelihood; methods need no more."""

    @staticmethod
    def sample(key: Key, outputs: Array, /) -> Array: ...
    @staticmethod
    def log_prob(outputs: Array, action: Array, /) -> Array: ...


class Distribution(Sampled, Protocol):
    """Functions of the actor head's outputs [..., size]."""

    @staticmethod
    def mask(outputs: Array, avail: Array, /) -> Array: ...
    @staticmethod
    def mode(outputs: Array, /) -> Array: ...
    @staticmethod
    def entropy(outputs: Array, /) -> Array: ...


class Categorical:
    """A distribution over discrete actions, given by logits [..., actions]."""

    @staticmethod
    def mask(logits: Array, avail: Array) -> Array:
        """Logits that exclude unavailable actions; `avail` is [..., actions]."""
        return jnp.where(avail, logits, FORBIDDEN)

    @staticmethod
    def sample(key: Key, logits: Array) -> Array:
        """[...] int32."""
        return jax.random.categorical(key, logits).astype(jnp.int32)

    @staticmethod
    def mode(logits: Array) -> Array:
        """The greedy action [...] int32."""
        return logits.argmax(-1).astype(jnp.int32)

    @staticmethod
    def log_prob(logits: Array, action: Array) -> Array:
        """A mask and a sum: with indexing, the gradient would be a slow scatter."""
        chosen = action[..., None] == jnp.arange(logits.shape[-1])
        return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(logits), 0.0), axis=-1)

    @staticmethod
    def entropy(logits: Array) -> Array:
        """[...], in nats."""
        log_probs = jax.nn.log_softmax(logits)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


class Gaussian:
    """Independent components, given by their means and then their log standard deviations."""

    @staticmethod
    def mask(outputs: Array, avail: Array) -> Array:
        """Unchanged: all continuous actions are available."""
        return outputs

    @staticmethod
    def sample(key: Key, outputs: Array) -> Array:
        """[..., components] float32."""
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)

    @staticmethod
    def mode(outputs: Array) -> Array:
        """The means."""
        return jnp.split(outputs, 2, axis=-1)[0]

    @staticmethod
    def log_prob(outputs: Array, action: Array) -> Array:
        """[...]: the sum over components."""
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        distance = (action - mean) * jnp.exp(-log_std)
        each = -0.5 * distance**2 - log_std - 0.5 * math.log(2 * math.pi)
        return each.sum(-1)

    @staticmethod
    def entropy(outputs: Array) -> Array:
        """[...]: the sum over components."""
        _, log_std = jnp.split(outputs, 2, axis=-1)
        return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

"""What a network's answer means: a choice among actions, or a Gaussian over their components.

Both are functions of the head's output, so that importance weights and distillation see one array.
"""

from __future__ import annotations

import math
from typing import Protocol

import jax
import jax.numpy as jnp

from brigade.core import Array, Key

FORBIDDEN = -1e9  # a logit no forbidden action survives


class Distribution(Protocol):
    """A policy's answer [..., size]."""

    @staticmethod
    def mask(answer: Array, avail: Array) -> Array: ...
    @staticmethod
    def sample(key: Key, answer: Array) -> Array: ...
    @staticmethod
    def best(answer: Array) -> Array: ...
    @staticmethod
    def log_prob(answer: Array, action: Array) -> Array: ...
    @staticmethod
    def entropy(answer: Array) -> Array: ...


class Categorical:
    """One of a few actions; the answer is their logits."""

    @staticmethod
    def mask(answer: Array, avail: Array) -> Array:
        """Logits that leave only what `avail` [..., actions] allows."""
        return jnp.where(avail, answer, FORBIDDEN)

    @staticmethod
    def sample(key: Key, answer: Array) -> Array:
        """[...] int32."""
        return jax.random.categorical(key, answer).astype(jnp.int32)

    @staticmethod
    def best(answer: Array) -> Array:
        """The likeliest."""
        return answer.argmax(-1).astype(jnp.int32)

    @staticmethod
    def log_prob(answer: Array, action: Array) -> Array:
        """A mask and a sum: picking by index would make the gradient a slow scatter."""
        chosen = action[..., None] == jnp.arange(answer.shape[-1])
        return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(answer), 0.0), axis=-1)

    @staticmethod
    def entropy(answer: Array) -> Array:
        """Of the distribution, in nats."""
        log_probs = jax.nn.log_softmax(answer)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


class Gaussian:
    """Independent components; the answer is their means, then the logs of their deviations."""

    @staticmethod
    def mask(answer: Array, avail: Array) -> Array:
        """Nothing is forbidden."""
        return answer

    @staticmethod
    def sample(key: Key, answer: Array) -> Array:
        """[..., components] float32."""
        mean, log_deviation = jnp.split(answer, 2, axis=-1)
        return mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape)

    @staticmethod
    def best(answer: Array) -> Array:
        """The means."""
        return jnp.split(answer, 2, axis=-1)[0]

    @staticmethod
    def log_prob(answer: Array, action: Array) -> Array:
        """Summed over components."""
        mean, log_deviation = jnp.split(answer, 2, axis=-1)
        distance = (action - mean) * jnp.exp(-log_deviation)
        each = -0.5 * distance**2 - log_deviation - 0.5 * math.log(2 * math.pi)
        return each.sum(-1)

    @staticmethod
    def entropy(answer: Array) -> Array:
        """Summed over components."""
        _, log_deviation = jnp.split(answer, 2, axis=-1)
        return (log_deviation + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

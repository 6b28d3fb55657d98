"""Prioritised replay on the device: a ring buffer whose entries are sampled by their priorities.

An entry is sampled with probability proportional to its priority to the power `exponent` (Schaul et
al., 2016).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Key


class Buffer(struct.PyTreeNode):
    """Entries and their priorities; 0 marks a slot that was never written."""

    entries: Any  # leaves [size, ...]
    priority: Array  # [size] f32
    written: Array  # int32: entries added so far, overwritten ones included

    @property
    def size(self) -> int:
        """The number of slots."""
        return int(self.priority.shape[0])

    @property
    def filled(self) -> Array:
        """The number of slots with an entry."""
        return jnp.minimum(self.written, self.size)


def empty(like: Any, size: int) -> Buffer:
    """An empty buffer for entries with the shapes and types of `like`, leaves [any, ...]."""
    slots = jax.tree.map(lambda x: jnp.zeros((size, *x.shape[1:]), x.dtype), like)
    return Buffer(slots, jnp.zeros(size), jnp.int32(0))


def cleared(buffer: Buffer) -> Buffer:
    """The buffer without entries; their memory is kept."""
    return buffer.replace(priority=jnp.zeros_like(buffer.priority), written=jnp.int32(0))


def add(buffer: Buffer, entries: Any, priority: Array | None = None) -> Buffer:
    """Add entries over the oldest ones, with the highest priority there is unless one is given."""
    number = jax.tree.leaves(entries)[0].shape[0]
    slots = (buffer.written + jnp.arange(number)) % buffer.size
    if priority is None:
        priority = jnp.where(buffer.written > 0, buffer.priority.max(), 1.0)
    return Buffer(
        jax.tree.map(lambda old, new: old.at[slots].set(new), buffer.entries, entries),
        buffer.priority.at[slots].set(priority),
        buffer.written + number,
    )


def sample(buffer: Buffer, number: int, exponent: float, key: Key) -> tuple[Array, Array]:
    """Slots [number], and the probabilities with which they were sampled.

    The total is cut into `number` equal parts, and one entry is sampled from each.
    """
    weights = jnp.where(buffer.priority > 0, buffer.priority**exponent, 0.0)
    upto = jnp.cumsum(weights)
    places = (jnp.arange(number) + jax.random.uniform(key, (number,))) / number * upto[-1]
    slots = jnp.clip(jnp.searchsorted(upto, places, side="right"), 0, buffer.filled - 1)
    return slots, weights[slots] / jnp.maximum(upto[-1], 1e-12)


def importance_weights(probability: Array, filled: Array, exponent: float) -> Array:
    """Weights that make up for sampling by priority, at most 1."""
    weights = (jnp.maximum(probability, 1e-12) * jnp.maximum(filled, 1)) ** -exponent
    return weights / weights.max()


def reprioritise(buffer: Buffer, slots: Array, priority: Array) -> Buffer:
    """Set the priorities of sampled entries."""
    return buffer.replace(priority=buffer.priority.at[slots].set(jnp.maximum(priority, 1e-6)))

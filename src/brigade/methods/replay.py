"""A replay buffer of fixed size with equally many samples of every task.

During task number k, each of the k tasks has size // k slots: finished tasks first, in order, then
the latest samples of the current task, as a ring buffer. When a task ends, all tasks give up slots
for the next one.

A learner with a replay buffer of its own (`keep`) provides the samples of a task at its end
instead, with the weights by which each is sampled from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, Batch, ContinualMethod, Key, Learner, LearnerState, LossOn
from brigade.core.checks import at_least


class ReplayBuffer(struct.PyTreeNode):
    """The stored samples, and how many there are."""

    samples: Any  # leaves [size, ...]
    done: Array  # int32: finished tasks
    written: Array  # int32: samples of the current task added so far, overwritten ones included
    # [size] f32: how often a sample is replayed, relative to the others of its task. None: all
    # alike, and the samples are those of `observe`.
    weight: Array | None = None

    @property
    def size(self) -> int:
        """The number of slots."""
        slots: int = jax.tree.leaves(self.samples)[0].shape[0]
        return slots

    @property
    def share(self) -> Array:
        """Slots per task. With fewer slots than tasks, the last tasks are not stored."""
        return jnp.maximum(self.size // (self.done + 1), 1)


@dataclass(frozen=True)
class Rehearsal(ContinualMethod):
    """Base class of methods with a replay buffer."""

    memory_size: int = 100_000
    """Samples in the replay buffer, equally many per task; a sequence counts with its length."""
    sample_size: int = 1024
    """Replayed samples per gradient step, equally many of every earlier task."""

    def __post_init__(self) -> None:
        at_least("memory_size", self.memory_size, 2)
        at_least("sample_size", self.sample_size, 1)

    @property
    def replayed(self) -> int:
        return self.sample_size

    def init(self, params: Any, batch: Batch) -> ReplayBuffer:
        return empty(batch, max(2, self.memory_size // batch.timesteps))

    def start(self, learner: Learner, params: Any, batch: Any) -> ReplayBuffer:
        mem = self.init(params, batch)
        return mem.replace(weight=jnp.zeros(mem.size)) if learner.keeps_samples else mem

    def observe(self, mem: ReplayBuffer, batch: Any, key: Key) -> ReplayBuffer:
        return add(mem, batch) if mem.weight is None else mem

    def end_phase(
        self,
        mem: ReplayBuffer,
        phase: str,
        state: LearnerState,
        learner: Learner,
        batch: Any,
        key: Key,
    ) -> tuple[ReplayBuffer, LearnerState]:
        if mem.weight is not None:
            keep_key, key = jax.random.split(key)
            samples, weight = learner.keep(state, mem.size, keep_key)
            mem = keep(mem, samples, weight)
        return finish_task(mem, key), state

    def replay_gradient(self, mem: ReplayBuffer, params: Any, loss_on: LossOn, key: Key) -> Any:
        """The gradient of the loss on samples of the buffer."""
        slots, probability = choose(mem, -(-self.sample_size // mem.samples.timesteps), key)
        batch = gather(mem.samples, slots)
        return jax.grad(lambda p: loss_on(p, batch, probability)[0])(params)


def empty(batch: Any, size: int) -> ReplayBuffer:
    """An empty buffer for samples with the shapes and types of `batch`."""
    slots = jax.tree.map(lambda x: jnp.zeros((size, *x.shape[1:]), x.dtype), batch)
    return ReplayBuffer(slots, jnp.int32(0), jnp.int32(0))


def add(mem: ReplayBuffer, batch: Any) -> ReplayBuffer:
    """Add samples of the current task, overwriting its oldest ones."""
    number = min(jax.tree.leaves(batch)[0].shape[0], mem.size)
    order = jnp.arange(number)
    slots = mem.done * mem.share + (mem.written + order) % mem.share
    slots = jnp.where(order < mem.share, slots, mem.size)  # out of range: not written
    samples = jax.tree.map(
        lambda old, new: old.at[slots].set(new[:number], mode="drop"), mem.samples, batch
    )
    return mem.replace(samples=samples, written=mem.written + jnp.minimum(number, mem.share))


def keep(mem: ReplayBuffer, samples: Any, weight: Array) -> ReplayBuffer:
    """Store the samples of the current task all at once, as many as it has slots.

    Samples without weight repeat others, and do not count.
    """
    order = jnp.arange(len(weight))
    slots = jnp.where(order < mem.share, mem.done * mem.share + order, mem.size)
    stored, weights = jax.tree.map(
        lambda old, new: old.at[slots].set(new, mode="drop"),
        (mem.samples, mem.weight),
        (samples, weight),
    )
    written = jnp.minimum((weight > 0).sum(), mem.share).astype(jnp.int32)
    return mem.replace(samples=stored, weight=weights, written=written)


def finish_task(mem: ReplayBuffer, key: Key) -> ReplayBuffer:
    """Finish the current task and make room for the next one.

    A task with fewer samples than its share repeats them. Its samples are shuffled, so that those
    it gives up later are a random subset.
    """
    slots, before = jnp.arange(mem.size), mem.share
    after = mem.replace(done=mem.done + 1, written=jnp.int32(0))
    filled = jnp.clip(mem.written, 1, before)
    ranks = jnp.where(slots < filled, jax.random.uniform(key, (mem.size,)), 1.0)
    shuffled = jnp.argsort(ranks)
    task, place = slots // after.share, slots % after.share
    place = jnp.where(task == mem.done, shuffled[place % filled], place)
    source = task * before + place
    weight = None if mem.weight is None else gather(mem.weight, source)
    return after.replace(samples=gather(mem.samples, source), weight=weight)


def choose(mem: ReplayBuffer, number: int, key: Key) -> tuple[Array, Array | None]:
    """Slots of finished tasks, equally many of each up to one, and with which probability each was
    sampled from its task, times the samples of a task; None if all alike."""
    task_key, place_key = jax.random.split(key)
    tasks = jnp.maximum(mem.done, 1)
    task = (jnp.arange(number) + jax.random.randint(task_key, (), 0, tasks)) % tasks
    if mem.weight is None:
        place = jax.random.randint(place_key, (number,), 0, mem.share)
        return task * mem.share + place, None
    upto = jnp.concatenate([jnp.zeros(1), jnp.cumsum(mem.weight)])
    first, last = upto[task * mem.share], upto[(task + 1) * mem.share]
    quantile = first + jax.random.uniform(place_key, (number,)) * (last - first)
    found = jnp.searchsorted(upto, quantile, side="right") - 1
    slots = jnp.clip(found, task * mem.share, (task + 1) * mem.share - 1)
    return slots, mem.weight[slots] * mem.share / jnp.maximum(last - first, 1e-12)


def gather(samples: Any, index: Array) -> Any:
    """The samples at `index`."""
    return jax.tree.map(lambda x: jnp.take(x, index, axis=0, mode="clip"), samples)

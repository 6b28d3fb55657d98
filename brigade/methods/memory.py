"""Samples of earlier tasks, an equal share of each, in a fixed number of slots.

While task number k is learned, every task has size // k slots, this one too: finished tasks come
first, in order, then the latest samples of the current one, as a ring. When it is finished, all
give up slots for the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, ContinualMethod, Key, Learner, LearnerState, LossOn
from brigade.core.checks import at_least


class Replay(struct.PyTreeNode):
    """The slots and how they are used."""

    samples: Any  # leaves [size, ...]
    done: Array  # int32: tasks finished
    written: Array  # int32: samples of the current task written so far, overwritten ones too

    @property
    def size(self) -> int:
        """The number of slots."""
        slots: int = jax.tree.leaves(self.samples)[0].shape[0]
        return slots

    @property
    def share(self) -> Array:
        """Slots per task. With fewer slots than tasks, the last tasks find no place."""
        return jnp.maximum(self.size // (self.done + 1), 1)


@dataclass(frozen=True)
class Rehearsal(ContinualMethod):
    """A method that keeps samples of every task."""

    memory_size: int = 100_000
    """Samples kept in all, an equal share of every task; sequences count by their length."""
    sample_size: int = 1024
    """Samples of the memory that go into each gradient, equally many of every earlier task."""

    def __post_init__(self) -> None:
        at_least("memory_size", self.memory_size, 2)
        at_least("sample_size", self.sample_size, 1)

    def init(self, params: Any, batch: Any) -> Replay:
        return empty(batch, max(2, self.memory_size // moments(batch)))

    def observe(self, mem: Replay, batch: Any, key: Key) -> Replay:
        return add(mem, batch)

    def end_phase(
        self, mem: Replay, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Replay, LearnerState]:
        return finish_task(mem, key), state

    def remembered(self, mem: Replay, params: Any, loss_on: LossOn, key: Key) -> Any:
        """The gradient of the loss on some of the memory."""
        batch = draw(mem, max(1, self.sample_size // moments(mem.samples)), key)
        return jax.grad(lambda p: loss_on(p, batch)[0])(params)


def moments(samples: Any) -> int:
    """How many moments an entry holds: more than one where a learner with memory sees sequences."""
    return int(getattr(samples, "moments", 1))


def empty(batch: Any, size: int) -> Replay:
    """No samples yet, of the shapes and types of those in `batch`."""
    slots = jax.tree.map(lambda x: jnp.zeros((size, *x.shape[1:]), x.dtype), batch)
    return Replay(slots, jnp.int32(0), jnp.int32(0))


def add(mem: Replay, batch: Any) -> Replay:
    """Write samples of the current task over its oldest ones."""
    number = min(jax.tree.leaves(batch)[0].shape[0], mem.size)
    order = jnp.arange(number)
    slots = mem.done * mem.share + (mem.written + order) % mem.share
    slots = jnp.where(order < mem.share, slots, mem.size)  # out of range: not written
    samples = jax.tree.map(
        lambda kept, new: kept.at[slots].set(new[:number], mode="drop"), mem.samples, batch
    )
    return mem.replace(samples=samples, written=mem.written + jnp.minimum(number, mem.share))


def finish_task(mem: Replay, key: Key) -> Replay:
    """Count the current task among the finished ones and make room for the next.

    A task that brought fewer samples than its share repeats them. Samples are shuffled within
    their task, so that those given up later are any of them.
    """
    slots, before = jnp.arange(mem.size), mem.share
    after = mem.replace(done=mem.done + 1, written=jnp.int32(0))
    filled = jnp.clip(mem.written, 1, before)
    lots = jnp.where(slots < filled, jax.random.uniform(key, (mem.size,)), 1.0)
    shuffled = jnp.argsort(lots)
    task, place = slots // after.share, slots % after.share
    place = jnp.where(task == mem.done, shuffled[place % filled], place)
    source = task * before + place
    return after.replace(samples=take(mem.samples, source))


def draw(mem: Replay, number: int, key: Key) -> Any:
    """Samples of finished tasks, equally many of each up to one."""
    task_key, place_key = jax.random.split(key)
    tasks = jnp.maximum(mem.done, 1)
    task = (jnp.arange(number) + jax.random.randint(task_key, (), 0, tasks)) % tasks
    place = jax.random.randint(place_key, (number,), 0, mem.share)
    return take(mem.samples, task * mem.share + place)


def take(samples: Any, index: Array) -> Any:
    """Some of the samples."""
    return jax.tree.map(lambda x: jnp.take(x, index, axis=0, mode="clip"), samples)

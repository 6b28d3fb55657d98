"""PackNet: every task gets weights of its own, and those of earlier tasks never change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, ContinualMethod, Key, Learner, LearnerState, LossOn
from brigade.core.checks import positive, within
from brigade.methods.importance import held_part


class Packed(struct.PyTreeNode):
    """Which task owns which weight."""

    owner: Any  # int32 like the packed parameters: the number of a task from 1, 0 for nobody
    task: Array  # int32: the number of the task being learned
    pruned: Array  # bool: it has chosen its weights


@dataclass(frozen=True)
class PackNet(ContinualMethod):
    """Learn with all free weights, keep the largest, learn on with those, free the others."""

    phases: ClassVar[tuple[tuple[str, float], ...]] = (("train", 0.75), ("retrain", 0.25))

    keep: float | None = None
    """Share of every layer's free weights that a task keeps; the others are for later tasks. None
    is an equal share for each of the tasks left, this one included: the last takes the rest."""
    heads: bool = False
    """Pack heads too: the actor's, and the critic's if that is packed. One per task need none."""
    critic: bool = False
    """Pack the critic too; it is not used to act."""

    def __post_init__(self) -> None:
        if self.keep is not None:
            positive("keep", self.keep)
            within("keep", self.keep, 0.0, 1.0)

    def check(self, learner: Learner, repetitions: int) -> None:
        if repetitions > 1:
            raise ValueError("PackNet gives a task its weights once; leave --repetitions out")
        if self.keep is None:
            number_of_tasks(learner)
        network = getattr(learner.policy, "network", None)
        shared = getattr(network, "num_tasks", 1) > 1 and not getattr(network, "multi_head", True)
        if shared and not self.heads:
            raise ValueError(
                "PackNet cannot keep one head for all tasks from changing; "
                "give --network.multi-head or --method-settings.heads"
            )

    def init(self, params: Any, batch: Any) -> Packed:
        packed = held_part(params, self.heads, self.critic)
        packed.pop("actor_log_deviation", None)  # noise, not knowledge: the first task would own it
        if all(leaf.ndim < 2 for leaf in jax.tree.leaves(packed)):
            raise ValueError(
                f"PackNet finds no kernel to divide in {', '.join(packed)}: "
                "it needs parameters of two or more dimensions"
            )
        owner = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.int32), packed)
        return Packed(owner, jnp.int32(1), jnp.bool_(False))

    def edit_grads(self, mem: Packed, grads: Any, params: Any, loss_on: LossOn, key: Key) -> Any:
        return edited(grads, lambda g, owner: jnp.where(learns(mem, owner), g, 0.0), mem.owner)

    def after_update(self, mem: Packed, old: Any, new: Any, grads: Any) -> tuple[Packed, Any]:
        # A masked gradient is not enough: the optimiser's momentum moves weights without one.
        def kept(new: Array, owner: Array, old: Array) -> Array:
            return jnp.where(learns(mem, owner), new, old)

        def unmoved(new: Array, old: Array, grad: Array) -> Array:
            return jnp.where(grad == 0.0, old, new)

        packed = edited(new, kept, mem.owner, {name: old[name] for name in mem.owner})
        # Nor may it move the heads of other tasks, which have no gradient.
        heads = {
            name: jax.tree.map(unmoved, new[name], old[name], grads[name])
            for name in new
            if name.endswith("_head") and name not in mem.owner
        }
        return mem, packed | heads

    def end_phase(
        self, mem: Packed, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Packed, LearnerState]:
        if phase == "retrain":
            return mem.replace(task=mem.task + 1, pruned=jnp.bool_(False)), state
        packed = {name: state.params[name] for name in mem.owner}
        keep = equal_share(mem.task, number_of_tasks(learner)) if self.keep is None else self.keep
        owner = jax.tree.map(lambda p, o: claimed(p, o, mem.task, keep), packed, mem.owner)
        params = edited(state.params, lambda p, o: jnp.where(o > 0, p, 0.0), owner)
        return mem.replace(owner=owner, pruned=jnp.bool_(True)), state.replace(params=params)

    def acting_params(self, mem: Packed, params: Any, task_id: Array) -> Any:
        number = task_id + 1  # tasks are numbered in the order they are learned
        unfinished = number >= mem.task

        def seen_by(p: Array, owner: Array) -> Array:
            return jnp.where(jnp.where(owner > 0, owner <= number, unfinished), p, 0.0)

        return edited(params, seen_by, mem.owner)


def learns(mem: Packed, owner: Array) -> Array:
    """Free weights learn until the task has chosen its own; then these do."""
    return owner == jnp.where(mem.pruned, mem.task, 0)


def number_of_tasks(learner: Learner) -> int:
    """How many tasks there will be, as the learner's network knows."""
    network = getattr(getattr(learner, "policy", None), "network", None)
    number: int | None = getattr(network, "num_tasks", None)
    if number is None:
        raise ValueError(
            "PackNet cannot see how many tasks this learner has; give keep, the share of the free "
            "weights that a task takes: --method-settings.keep 0.25"
        )
    return number


def equal_share(task: Array, tasks: int) -> Array:
    """What a task, numbered from 1, may take of what is free if those after it take as much."""
    return 1.0 / jnp.maximum(tasks - task + 1, 1)


def claimed(weights: Array, owner: Array, task: Array, keep: float | Array) -> Array:
    """The owners after `task` took the largest free weights; of a vector it takes all there are."""
    free = owner == 0
    if weights.ndim < 2:
        return jnp.where(free, task, owner)
    size = jnp.where(free, jnp.abs(weights), -1.0).reshape(-1)
    rank = jnp.argsort(jnp.argsort(-size)).reshape(weights.shape)
    return jnp.where(rank < jnp.round(keep * free.sum()), task, owner)


def edited(params: Any, edit: Callable[..., Array], *packed: Any) -> Any:
    """The parameters with the packed ones edited, leaf by leaf."""
    part = {name: params[name] for name in packed[0]}
    return params | jax.tree.map(edit, part, *packed)

"""PackNet: every task gets its own weights, and those of earlier tasks never change.

Reference: A. Mallya and S. Lazebnik, *PackNet: adding multiple tasks to a single network by
iterative pruning*, CVPR 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, ContinualMethod, Key, Learner, LearnerState, LossOn
from brigade.core.checks import positive, within
from brigade.methods.importance import part_of, regularised


class Packed(struct.PyTreeNode):
    """Which weight belongs to which task."""

    owner: Any  # int32, shaped like the packed parameters: task number from 1, 0 for free weights
    task: Array  # int32: number of the current task
    pruned: Array  # bool: whether the current task has chosen its weights
    heads: tuple[str, ...] = struct.field(pytree_node=False, default=())  # heads not packed


@dataclass(frozen=True)
class PackNet(ContinualMethod):
    """Gives every task its own weights: trains, prunes, then retrains."""

    display_name = "PackNet"
    phases: ClassVar[tuple[tuple[str, float], ...]] = (("train", 0.75), ("retrain", 0.25))
    tasks_may_recur: ClassVar[bool] = False

    keep: float | None = None
    """Share of every layer's free weights that a task keeps; the others are for later tasks.
    None gives all tasks equally many weights of a layer."""
    heads: bool = False
    """Pack the heads too: the actor's, and the critic's if the critic is packed.
    Not needed with one head per task."""
    critic: bool = False
    """Pack the critic too."""

    def __post_init__(self) -> None:
        if self.keep is not None:
            positive("keep", self.keep)
            within("keep", self.keep, 0.0, 1.0)

    def check(self, learner: Learner, repetitions: int) -> None:
        if repetitions > 1:
            raise ValueError("PackNet trains every task once; leave out --repetitions")
        if self.keep is None:
            number_of_tasks(learner)

    def check_longer(self, more_tasks: bool) -> None:
        if more_tasks and self.keep is None:
            raise ValueError(
                "PackNet has divided all weights between the tasks it was started with; only runs "
                "with --method-settings.keep can get more tasks"
            )

    def start(self, learner: Learner, params: Any, batch: Any) -> Packed:
        groups = learner.groups(params)
        if groups.shared_heads and not self.heads:
            raise ValueError(
                "PackNet would let later tasks change a head that all tasks share; "
                "use --network.multi-head or --method-settings.heads"
            )
        packed = regularised(params, groups, self.heads, self.critic)
        heads = tuple(name for name in groups.heads if name not in packed)
        return self.init(packed, batch).replace(heads=heads)

    def init(self, params: Any, batch: Any) -> Packed:
        """All `params` are packed."""
        if all(leaf.ndim < 2 for leaf in jax.tree.leaves(params)):
            raise ValueError(
                f"PackNet finds no kernel to divide in {', '.join(params)}; "
                "it needs parameters of two or more dimensions"
            )
        owner = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.int32), params)
        return Packed(owner, jnp.int32(1), jnp.bool_(False))

    def edit_grads(self, mem: Packed, grads: Any, params: Any, loss_on: LossOn, key: Key) -> Any:
        return edited(grads, lambda g, owner: jnp.where(trainable(mem, owner), g, 0.0), mem.owner)

    def after_update(self, mem: Packed, old: Any, new: Any, grads: Any) -> tuple[Packed, Any]:
        # Masking gradients is not enough: Adam's momentum also moves weights without a gradient.
        def only_trainable(new: Array, owner: Array, old: Array) -> Array:
            return jnp.where(trainable(mem, owner), new, old)

        def only_with_gradient(new: Array, old: Array, grad: Array) -> Array:
            return jnp.where(grad == 0.0, old, new)

        packed = edited(new, only_trainable, mem.owner, part_of(old, mem.owner))
        # The same holds for the heads of other tasks.
        heads = {
            name: jax.tree.map(only_with_gradient, new[name], old[name], grads[name])
            for name in mem.heads
        }
        return mem, packed | heads

    def end_phase(
        self, mem: Packed, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Packed, LearnerState]:
        if phase == "retrain":
            return mem.replace(task=mem.task + 1, pruned=jnp.bool_(False)), state
        packed = part_of(state.params, mem.owner)
        keep = equal_share(mem.task, number_of_tasks(learner)) if self.keep is None else self.keep
        owner = jax.tree.map(lambda p, o: claimed(p, o, mem.task, keep), packed, mem.owner)
        params = edited(state.params, lambda p, o: jnp.where(o > 0, p, 0.0), owner)
        return mem.replace(owner=owner, pruned=jnp.bool_(True)), state.replace(params=params)

    def acting_params(self, mem: Packed, params: Any, task_id: Array) -> Any:
        number = task_id + 1  # tasks are numbered in training order
        unfinished = number >= mem.task

        def used_by_task(p: Array, owner: Array) -> Array:
            return jnp.where(jnp.where(owner > 0, owner <= number, unfinished), p, 0.0)

        return edited(params, used_by_task, mem.owner)


def trainable(mem: Packed, owner: Array) -> Array:
    """Which weights are trained: free ones before pruning, the task's own ones after it."""
    return owner == jnp.where(mem.pruned, mem.task, 0)


def number_of_tasks(learner: Learner) -> int:
    """The number of tasks that the learner was built for."""
    if learner.num_tasks is None:
        raise ValueError(
            "PackNet cannot tell how many tasks this learner has; give keep, the share of the free "
            "weights that a task keeps: --method-settings.keep 0.25"
        )
    return learner.num_tasks


def equal_share(task: Array, tasks: int) -> Array:
    """The share of the free weights for `task`, from 1, so that all tasks get equally many."""
    return 1.0 / jnp.maximum(tasks - task + 1, 1)


def claimed(weights: Array, owner: Array, task: Array, keep: float | Array) -> Array:
    """The owners after `task` took the largest free weights of a kernel, or all of a vector."""
    free = owner == 0
    if weights.ndim < 2:
        return jnp.where(free, task, owner)
    size = jnp.where(free, jnp.abs(weights), -1.0).reshape(-1)
    rank = jnp.argsort(jnp.argsort(-size)).reshape(weights.shape)
    return jnp.where(rank < jnp.round(keep * free.sum()), task, owner)


def edited(params: Any, edit: Callable[..., Array], *packed: Any) -> Any:
    """The parameters after `edit` of every packed leaf."""
    part = {name: params[name] for name in packed[0]}
    return params | jax.tree.map(edit, part, *packed)

"""The data that flows between the parts of Brigade.

Everything here is a pytree of arrays. `seats` counts the places at the table, `T` the steps of
a rollout, `B` the environments that run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core.seating import Company, Seating

Array = jax.Array
Key = jax.Array
Metrics = dict[str, Array]
# Opaque to everyone but their owner.
Params: TypeAlias = Any
Carry: TypeAlias = Any
State: TypeAlias = Any
Task: TypeAlias = Any
Data: TypeAlias = Any
Batch: TypeAlias = Any
Index: TypeAlias = Any
Memory: TypeAlias = Any
SourceState: TypeAlias = Any


class View(struct.PyTreeNode):
    """What the seats see at one moment. Leaves [seats, ...], more axes in front when batched."""

    obs: Array  # [seats, *observation]
    avail: Array  # [seats, num_actions] bool
    prev_action: Array  # [seats] int32, -1 before the first move
    prev_reward: Array  # [seats] f32
    first: Array  # [seats] bool: memory restarts here
    active: Array  # [seats] bool: this seat moves now
    task_id: Array  # [seats] int32: which task this is, for heads and one-hots
    state: Any = None  # privileged: what central critics and scripts may see beside it


class Everyone(struct.PyTreeNode):
    """What a critic is shown beside the view of a seat (`View.state`)."""

    obs: Any  # [..., all seats, *observation]; None where it sees no more than the seat does
    seat: Array  # [..., seats] int32: which seat this is; without `obs`, whom it plays with


class TimeStep(struct.PyTreeNode):
    """What an environment answers to one joint action."""

    view: View
    reward: Array  # [seats] f32
    terminated: Array  # [] bool: the game is over
    truncated: Array  # [] bool: the time limit cut it
    info: dict[str, Array]  # fixed keys per environment, among them `score`


class Trajectory(struct.PyTreeNode):
    """A rollout, as the learner's seats saw it: moves of partners are not in it.

    Leaves [T, B, ...]; the last ones are [B, ...]. `seats` counts the learner's.
    """

    view: View
    action: Array  # [T, B, seats] int32
    reward: Array  # [T, B, seats] f32
    terminated: Array  # [T, B] bool
    truncated: Array  # [T, B] bool
    valid: Array  # [T, B] bool: False where a finished game was put away instead of played
    info: dict[str, Array]  # of all seats of the game
    extras: dict[str, Any]  # what the policy returned beside the action
    last_view: Any  # View one step past the end: the value there bootstraps the last advantages
    last: dict[str, Array]  # the policy's extras there
    seating: Seating | None = None  # who sat where; None where the learner had every seat
    seat: Array | None = None  # [B, seats] int32: the learner's; None where it had every seat


class Memories(NamedTuple):
    """What everybody at the tables remembers."""

    learner: Carry
    cast: tuple[Carry, ...]  # per group


class Outputs(NamedTuple):
    """What a network says of a batch: importance weights and distillation need no more."""

    logits: Array  # [..., num_actions]
    value: Array | None  # [...]


class LearnerState(struct.PyTreeNode):
    """What a learner changes while it learns."""

    params: Params
    opt_state: Any
    updates: Array  # int32: rollouts learned from since the task began
    aux: Any = None  # replay, target networks


class TaskSequence(struct.PyTreeNode):
    """Tasks in the order they are met, as data: one compiled program serves them all."""

    tasks: Task  # leaves [num_tasks, ...]
    names: tuple[str, ...] = struct.field(pytree_node=False)
    steps: int = struct.field(pytree_node=False)  # environment steps per task
    # Names of the partners met in each task; empty where everybody of the cast is.
    partners: tuple[tuple[str, ...], ...] = struct.field(pytree_node=False, default=())

    @classmethod
    def from_tasks(
        cls,
        tasks: Sequence[Task],
        names: Sequence[str],
        steps: int,
        ids: Sequence[int] | None = None,
        partners: Sequence[Sequence[str]] = (),
    ) -> TaskSequence:
        """Stack `tasks`. Their `id` becomes their place, or `ids` where a task comes back."""
        if not tasks or len(tasks) != len(names):
            raise ValueError(f"{len(tasks)} tasks with {len(names)} names: give one name per task")
        if partners and len(partners) != len(tasks):
            raise ValueError(f"{len(tasks)} tasks with partners for {len(partners)}: name all")
        numbers = jnp.asarray(range(len(tasks)) if ids is None else ids, jnp.int32)
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
        met = tuple(tuple(each) for each in partners)
        return cls(stacked.replace(id=numbers), tuple(names), steps, met)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Task:
        return jax.tree.map(lambda leaf: leaf[index], self.tasks)


class Round(struct.PyTreeNode):
    """A task and who is met in it; leaves [seeds, num_tasks, ...] when stacked."""

    task: Task
    company: Company | None = None

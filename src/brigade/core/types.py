"""The data that flows between the parts of Brigade, all of it pytrees of arrays.

In shapes, `seats` is the number of seats, `T` the timesteps of a rollout and `B` the number of
parallel environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core.seating import Pairing, Seating

Array = jax.Array
Key = jax.Array
Metrics = dict[str, Array]
# Opaque: only the part that creates one knows what is in it.
Params: TypeAlias = Any
Carry: TypeAlias = Any
State: TypeAlias = Any
Data: TypeAlias = Any
Index: TypeAlias = Any
MethodState: TypeAlias = Any
SourceState: TypeAlias = Any


class Task(Protocol):
    """One task, as data: a `flax.struct.PyTreeNode` with the arrays its environment needs."""

    @property
    def id(self) -> Array:
        """[] int32: index in the sequence, for heads and one-hots; `TaskSequence` sets it."""

    def replace(self, **changes: Any) -> Any:
        """A copy with some fields changed, as for any PyTreeNode."""


class PlainTask(struct.PyTreeNode):
    """A task of a game that needs no data."""

    id: Any = 0


class View(struct.PyTreeNode):
    """What the seats observe at one timestep: leaves [seats, ...], with batch axes in front."""

    obs: Array  # [seats, *observation]
    avail: Array  # [seats, num_actions] bool: available actions
    prev_action: Array  # [seats] int32, -1 at the first timestep; as `action` if continuous
    prev_reward: Array  # [seats] f32
    first: Array  # [seats] bool: first timestep of an episode
    active: Array  # [seats] bool: False if the seat's action has no effect
    task_id: Array  # [seats] int32: the task's id, for heads and one-hots
    state: Any = None  # privileged: the game's state, an Everyone for the critic, or a FromSeat
    forget: Array | None = None  # [seats] bool: recurrent states are reset; None: where `first`
    # [seats, other seats] int32: their previous actions, from the next seat on; for policies that
    # see them (`Policy.sees_actions`).
    others: Array | None = None

    @property
    def resets(self) -> Array:
        """[seats] bool: where recurrent states are reset before acting."""
        return self.first if self.forget is None else self.forget

    def with_state(self, state: Any, seat: Array) -> View:
        """The same, with the game's state for each of its seats; `seat` is [..., seats]."""
        axis = seat.ndim - 1

        def for_seats(x: Array) -> Array:
            whole = jnp.expand_dims(jnp.asarray(x), axis)
            return jnp.broadcast_to(whole, (*seat.shape, *whole.shape[axis + 1 :]))

        return self.replace(state=FromSeat(jax.tree.map(for_seats, state), seat))


class Everyone(struct.PyTreeNode):
    """Extra input of a critic (in `View.state`): all observations, or the partner's id."""

    obs: Any  # [..., all seats, *observation]; None for a critic that gets a partner id instead
    seat: Array  # [..., seats] int32: index of the seat; without `obs`, the id of its partner


class FromSeat(struct.PyTreeNode):
    """What a policy that sees the state gets (in `View.state`): the game's, and where it sits."""

    state: Any  # leaves [..., seats, ...]: that of the environment's view, the same for every seat
    seat: Array  # [..., seats] int32


class TimeStep(struct.PyTreeNode):
    """What an environment returns for one joint action."""

    view: View
    reward: Array  # [seats] f32
    terminated: Array  # [] bool: the episode is over
    truncated: Array  # [] bool: the time limit ended the episode
    info: dict[str, Array]  # fixed keys per environment, among them `score`


class Trajectory(struct.PyTreeNode):
    """A rollout of the learner's seats; partners' actions are not in it.

    Leaves are [T, B, ...], those of `last_view` and `last` [B, ...]. `seats` are the learner's.
    """

    view: View
    action: Array  # [T, B, seats] int32, or [T, B, seats, num_actions] f32 if continuous
    reward: Array  # [T, B, seats] f32
    terminated: Array  # [T, B] bool
    truncated: Array  # [T, B] bool
    valid: Array  # [T, B] bool: False for a slot without a step, after a truncation
    info: dict[str, Array]  # the environment's, for all seats
    extras: dict[str, Any]  # what the policy recorded with the actions
    last_view: Any  # the View after the last step; its value bootstraps the advantages
    last: dict[str, Array]  # the policy's extras there
    seating: Seating | None = None  # None: the learner has every seat
    seat: Array | None = None  # [B, seats] int32: the learner's seats; None: it has every seat
    carry: Any = ()  # recurrent states before every n-th timestep [T / n, B, seats, ...]
    # Environment steps of one policy of a population, whose rows are seats; None: T * B.
    env_steps: int | None = struct.field(pytree_node=False, default=None)

    @property
    def steps(self) -> int:
        """Environment steps, for schedules that are counted in them."""
        return self.env_steps or self.valid.size

    def carry_at(self, length: int) -> Carry:
        """The recurrent states at the first timestep of every sequence of this length."""
        steps = len(self.valid)
        return jax.tree.map(lambda x: x[:: length * len(x) // steps], self.carry)


class Batch(struct.PyTreeNode):
    """Samples of a minibatch, leaves [samples, ...]: what methods may read of them.

    A sample is a timestep of a seat, or a sequence of them.
    """

    @property
    def weights(self) -> Array | None:
        """[samples, ...] f32, an entry per timestep: 0 where it does not count. None: all count."""
        return None

    @property
    def timesteps(self) -> int:
        """Timesteps per sample, counted for every seat in it."""
        return 1


@dataclass(frozen=True, eq=False)  # compared by identity, to be a static argument
class Symmetries:
    """Renamings that leave a game as it is, as indices; the first one changes nothing.

    Renamed observations are `obs[observation[k]]`, renamed available actions `avail[action[k]]`;
    the renamed action `a` is the original `action[k, a]`.
    """

    observation: np.ndarray  # [symmetries, entries] int16
    action: np.ndarray  # [symmetries, actions] int16


class Memories(NamedTuple):
    """Recurrent states of all policies at the tables."""

    learner: Carry
    cast: tuple[Carry, ...]  # per group of partners


class Outputs(NamedTuple):
    """Outputs of a network on a batch, which is all that importance and distillation need."""

    logits: Array  # [..., num_actions]; Gaussian: means and log standard deviations
    value: Array | None  # [...]


Path: TypeAlias = tuple[str, ...]  # to a leaf of a tree of parameters


class HiddenLayer(NamedTuple):
    """Paths to the parameters of a fully connected hidden layer."""

    kernel: Path  # incoming weights [inputs, units]
    feeds: tuple[Path, ...]  # kernels whose first rows are the layer's outgoing weights
    fresh: tuple[tuple[Path, float], ...] = ()  # other parameters [units], with initial values


class ParameterGroups(NamedTuple):
    """The roles of a network's parameters, as names of entries of the outermost dict.

    Entries in no group belong to the policy's trunk, or to a trunk it shares with the critic.
    """

    critic: tuple[str, ...] = ()  # the critic's parameters; its head is also in `heads`
    heads: tuple[str, ...] = ()  # the last layers
    exploration: tuple[str, ...] = ()  # standard deviations of continuous actions
    layers: tuple[HiddenLayer, ...] = ()  # hidden layers whose outgoing weights are known
    why_no_layers: str = ""  # why there are none, and what would be right
    shared_heads: bool = False  # whether the heads are shared by several tasks


class LearnerState(struct.PyTreeNode):
    """The state of a learner."""

    params: Params
    opt_state: Any
    updates: Array  # int32: rollouts learned from in this task
    aux: Any = None  # whatever else a learner keeps: target networks, a generator's state


class TaskSequence(struct.PyTreeNode):
    """Tasks in training order, as data: one compiled program serves them all."""

    tasks: Task  # leaves [num_tasks, ...]
    names: tuple[str, ...] = struct.field(pytree_node=False)
    steps: int = struct.field(pytree_node=False)  # environment steps per task
    # Names of each task's partners; empty: every task has the whole cast.
    partners: tuple[tuple[str, ...], ...] = struct.field(pytree_node=False, default=())
    # The game of each task, an index in `Benchmark.games`; empty: all are the same game.
    games: tuple[int, ...] = struct.field(pytree_node=False, default=())

    @classmethod
    def from_tasks(
        cls,
        tasks: Sequence[Task],
        names: Sequence[str],
        steps: int,
        ids: Sequence[int] | None = None,
        partners: Sequence[Sequence[str]] = (),
        games: Sequence[int] = (),
    ) -> TaskSequence:
        """Stack `tasks`. The `id` of a task is its index, or taken from `ids` if tasks recur."""
        if not tasks or len(tasks) != len(names):
            raise ValueError(f"{len(tasks)} tasks with {len(names)} names; give one name per task")
        if partners and len(partners) != len(tasks):
            raise ValueError(
                f"{len(tasks)} tasks with partners for {len(partners)}; name partners for each task"
            )
        numbers = jnp.asarray(range(len(tasks)) if ids is None else ids, jnp.int32)
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
        named = tuple(tuple(each) for each in partners)
        return cls(stacked.replace(id=numbers), tuple(names), steps, named, tuple(games))

    def game(self, index: int) -> int:
        """The game of a task."""
        return self.games[index] if self.games else 0

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Task:
        return jax.tree.map(lambda leaf: leaf[index], self.tasks)


class Round(struct.PyTreeNode):
    """A task and its partners; leaves [seeds, num_tasks, ...] when stacked."""

    task: Task
    pairing: Pairing | None = None

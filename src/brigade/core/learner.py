"""The interface of learners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from brigade.core.environment import Environment
from brigade.core.histories import Windows
from brigade.core.policy import Policy
from brigade.core.types import (
    Array,
    Batch,
    Data,
    Index,
    Key,
    LearnerState,
    Metrics,
    Outputs,
    ParameterGroups,
    Params,
    Trajectory,
)


class Learner:
    """An RL algorithm: it turns a rollout into minibatches and defines the loss on a minibatch.

    The base class of learners. Members without a default raise NotImplementedError. Trajectories
    hold the learner's own seats only. In a population, all members are called for each policy.
    """

    if TYPE_CHECKING:  # not at run time: subclasses may define it as a field

        @property
        def policy(self) -> Policy:
            """The policy that it trains."""

    @property
    def evaluates_greedily(self) -> bool:
        """Whether evaluations always take greedy actions."""
        return False

    @property
    def joins_seats(self) -> bool:
        """Whether it learns from the seats of a table together, such as from a sum of values."""
        return False

    @property
    def num_tasks(self) -> int | None:
        """The number of tasks it was built for; None if it does not know."""
        return None

    def carry_every(self, num_steps: int) -> int:
        """After how many timesteps of a rollout it needs the policy's recurrent states."""
        return num_steps

    @property
    def keeps_samples(self) -> bool:
        """Whether it has a replay buffer of its own, from which `keep` takes samples."""
        return False

    def groups(self, params: Params) -> ParameterGroups:
        """The roles of the parameters, for methods that treat them differently."""
        return ParameterGroups()

    def init(self, key: Key) -> LearnerState:
        """Initial parameters and optimiser state."""
        raise NotImplementedError

    def allocate(self, state: LearnerState, traj: Trajectory) -> LearnerState:
        """Reserve memory for rollouts such as `traj`. Called once, before training."""
        return state

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Restart schedules and reset whatever else belongs to one task."""
        return state.replace(updates=jnp.int32(0))

    def for_few_shot(self) -> Learner:
        """The learner of clones that adapt for a few updates before an evaluation."""
        return self

    def per_seat(self, traj: Trajectory) -> Trajectory:
        """The rollout after sharing out what seats share, so that it can be split by seat."""
        return traj

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Data, Index]:
        """Turn a rollout into data and indices [num_batches, ...], so that epochs copy nothing."""
        raise NotImplementedError

    def take(self, data: Data, index: Index) -> Batch:
        """The minibatch that `index`, one row of the indices, selects from `data`."""
        batch: Batch = jax.tree.map(lambda x: jnp.take(x, index, axis=0, mode="clip"), data)
        return batch

    def standalone(self, batch: Any) -> Batch:
        """The batch in a form that can be stored and mixed with other tasks: leaves [samples, ...].

        Methods get batches in this form; `loss` and `outputs` accept both forms.
        """
        return batch

    def loss(
        self, params: Params, state: LearnerState, batch: Any, key: Key
    ) -> tuple[Array, Metrics]:
        """A scalar and metrics, scalars or one number per sample (which `after_update` may use)."""
        raise NotImplementedError

    def keep(self, state: LearnerState, number: int, key: Key) -> tuple[Batch, Array]:
        """At most so many different samples of the task from the learner's own replay buffer, for a
        method to store, and how often each should be replayed; if `keeps_samples`."""
        raise NotImplementedError

    def rehearse(
        self,
        params: Params,
        state: LearnerState,
        batch: Any,
        probability: Array | None = None,
    ) -> tuple[Array, Metrics]:
        """The loss on replayed samples of earlier tasks; `loss` may only suit fresh samples.

        `probability` [samples], relative to all alike, is given for samples of `keep` only.
        """
        raise NotImplementedError

    def outputs(self, params: Params, batch: Any) -> Outputs:
        """Logits and values, which is all that importance and distillation need."""
        raise NotImplementedError

    def diagnose(self, params: Params, batch: Any) -> Metrics:
        """Extra metrics, computed once per update, such as the share of dormant units."""
        return {}

    def apply_gradients(self, state: LearnerState, grads: Params) -> LearnerState:
        """One step of the optimiser."""
        raise NotImplementedError

    def after_update(self, state: LearnerState, index: Index, metrics: Metrics) -> LearnerState:
        """Called after every gradient step."""
        return state


@dataclass(frozen=True)
class LearnerSettings:
    """A registered learner: a frozen dataclass of settings that builds the learner."""

    if TYPE_CHECKING:  # not at run time: subclasses may define it as a field

        @property
        def network(self) -> Any:
            """The settings of its network, `brigade.nets.settings`; None if it has none."""
    else:
        network = None

    def largest_matrix(self, inputs: int) -> int:
        """Parameters of its network's largest matrix, to refuse what no memory holds."""
        return 0 if self.network is None else int(self.network.largest_matrix(inputs))

    @property
    def dtype(self) -> Any:
        """The type of its network's hidden layers on this machine."""
        return jnp.float32 if self.network is None else self.network.dtype

    @property
    def windows(self) -> Windows | None:
        """What it sees of recorded histories; None: it learns from games that it plays."""
        return None

    @property
    def offline(self) -> bool:
        """Whether it learns from recorded histories of all tasks, and plays in evaluations only."""
        return self.windows is not None

    @property
    def epochs(self) -> int:
        """Passes over the samples of a rollout, whose indices must fit into memory."""
        return 1

    def build(
        self,
        env: Environment,
        *,
        num_tasks: int,
        updates_per_task: int,
        changing_inputs: int | None = None,
        critic_ids: int = 0,
    ) -> Learner:
        """`changing_inputs`: upper bound on the observation entries that change within a task.

        `critic_ids`: number of partner ids; the critic gets the partner's id, the actor does not.
        """
        raise NotImplementedError

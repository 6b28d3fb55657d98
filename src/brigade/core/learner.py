"""The interface of learners."""

from __future__ import annotations

from typing import Protocol

from brigade.core.environment import Environment
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


class Learner(Protocol):
    """An RL algorithm: it turns a rollout into minibatches and defines the loss on a minibatch.

    Trajectories hold the learner's own seats only.

    Optional members: `members`, the number of policies it trains in parallel, with parameters
    [members, ...]; `seat(state, pairing, tables, seats, key) -> Seating`, to choose the next
    seating instead of sampling it by the task's weights; `cast(state, cast) -> cast`, to supply the
    partners' parameters, such as snapshots of itself; `after_rollout(state, traj, key) ->
    LearnerState`, called after all gradient steps on a rollout; `allocate(state, traj) ->
    LearnerState`, to reserve memory for rollouts such as `traj`, once before training;
    `for_few_shot() -> Learner`, the learner of clones that adapt before an evaluation;
    `keep(state, number, key) -> (batch, weights)`, at most so many different samples of the task
    from a replay buffer of its own, for a method to store, and how often each should be replayed;
    its `rehearse` then takes the probability of every replayed sample as a fourth argument;
    `evaluates_greedily = True` if evaluations always take greedy actions.
    """

    @property
    def policy(self) -> Policy: ...

    def init(self, key: Key) -> LearnerState: ...

    def groups(self, params: Params) -> ParameterGroups:
        """The roles of the parameters, for methods that treat them differently."""
        ...

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Restart schedules and reset whatever else belongs to one task."""
        ...

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Data, Index]:
        """Turn a rollout into data and indices [num_batches, ...], so that epochs copy nothing."""
        ...

    def take(self, data: Data, index: Index) -> Batch:
        """The minibatch that `index`, one row of the indices, selects from `data`."""
        ...

    def standalone(self, batch: Batch) -> Batch:
        """The batch in a form that can be stored and mixed with other tasks: leaves [samples, ...].

        Methods get batches in this form; `loss` and `outputs` accept both forms.
        """
        ...

    def loss(
        self, params: Params, state: LearnerState, batch: Batch, key: Key
    ) -> tuple[Array, Metrics]:
        """A scalar and metrics, scalars or one number per sample (which `after_update` may use)."""
        ...

    def rehearse(self, params: Params, state: LearnerState, batch: Batch) -> tuple[Array, Metrics]:
        """The loss on replayed samples of earlier tasks; `loss` may only suit fresh samples."""
        ...

    def outputs(self, params: Params, batch: Batch) -> Outputs: ...

    def diagnose(self, params: Params, batch: Batch) -> Metrics:
        """Extra metrics, computed once per update, such as the share of dormant units."""
        ...

    def apply_gradients(self, state: LearnerState, grads: Params) -> LearnerState: ...

    def after_update(self, state: LearnerState, index: Index, metrics: Metrics) -> LearnerState:
        """Called after every gradient step."""
        ...


class LearnerSettings(Protocol):
    """A registered learner: a frozen dataclass of settings that builds the learner."""

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
        ...

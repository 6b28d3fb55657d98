"""The interface of continual-learning methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from brigade.core.learner import Learner
from brigade.core.types import Array, Batch, Key, LearnerState, MethodState, Metrics, Params


class LossOn(Protocol):
    """The learner's loss on replayed samples."""

    def __call__(
        self, params: Params, replayed: Batch, probability: Array | None = None
    ) -> tuple[Array, Metrics]:
        """`probability` [samples], relative to all alike, is given for samples of `keep` only."""
        ...


@dataclass(frozen=True)
class LossOf:
    """The learner's loss on the current minibatch, as a function of the parameters."""

    learner: Learner
    state: LearnerState
    minibatch: Batch  # as the learner made it
    key: Key

    def __call__(self, params: Params) -> tuple[Array, Metrics]:
        return self.learner.loss(params, self.state, self.minibatch, self.key)

    @property
    def batch(self) -> Batch:
        """The minibatch, for `learner.outputs(params, base.batch)`; leaves [samples, ...]."""
        return self.learner.standalone(self.minibatch)


@dataclass(frozen=True)
class ContinualMethod:
    """A continual-learning method. All default hooks do nothing, which is fine-tuning.

    A method is a frozen dataclass of settings that overrides the hooks it needs. Its state, the
    argument `mem` of the hooks, is a pytree. The order of a run:

        start
        for every task:
            begin_task
            for every update:
                collect a rollout
                for every minibatch: loss, edit_grads, after_update
                observe
                end_phase, if a phase other than the last ends here
                evaluate all tasks with acting_params, if due
            end_phase of the last phase, after the evaluation that is reported for the task
    """

    # The method's name in tables and legends; if empty, what the setting `method` says.
    display_name: ClassVar[str] = ""
    # Phases of a task and their shares of its updates; `end_phase` is called after each. What must
    # change the policy before the last evaluation of a task, such as pruning, belongs to the end of
    # a phase that is not the last: (("train", 1.0), ("done", 0.0)).
    phases: ClassVar[tuple[tuple[str, float], ...]] = (("train", 1.0),)
    # False: nothing happens at the end of a phase, so a run may be made longer in any of them.
    ends_matter: ClassVar[bool] = True
    # False: every task of a stream must be new, with its own id in training order.
    tasks_may_recur: ClassVar[bool] = True
    # True: every rollout is of a random task of the stream, and schedules last for all of it.
    mixes_tasks: ClassVar[bool] = False

    @property
    def replayed(self) -> int:
        """Timesteps of earlier tasks in a gradient step, which must fit into memory."""
        return 0

    def equip(self, learner: Learner) -> Learner:
        """The learner after the method has changed its policy's network, such as by adding columns.

        Once, when a run is put together, before any parameters exist.
        """
        return learner

    def check(self, learner: Learner, repetitions: int) -> None:
        """Raise a one-line ValueError if the method cannot be used.

        Once, before anything is trained or written.
        """

    def check_longer(self, more_tasks: bool) -> None:
        """Raise a one-line ValueError if a run that has begun cannot be made longer.

        Once, before `brigade resume` gives a run more steps, repetitions or tasks.
        """

    def start(self, learner: Learner, params: Params, batch: Batch) -> MethodState:
        """Create the method's state. Override this instead of `init` to use `learner.groups`.

        Once per seed, before the first task.
        """
        return self.init(params, batch)

    def init(self, params: Params, batch: Batch) -> MethodState:
        """Create the method's state. `batch` has the shapes that `observe` and `end_phase` get.

        Once per seed, before the first task.
        """
        return ()

    def begin_task(
        self,
        mem: MethodState,
        state: LearnerState,
        learner: Learner,
        task_id: Array,
        key: Key,
    ) -> tuple[MethodState, LearnerState]:
        """Prepare a task, such as by resetting a head.

        Before the first update of every task, the first one included, and after all evaluations of
        the task before. Once in a run whose method mixes tasks.
        """
        return mem, state

    def loss(
        self, mem: MethodState, base: LossOf, params: Params, learner: Learner, key: Key
    ) -> tuple[Array, Metrics]:
        """Edit the loss: `base(params)` is the learner's on the current minibatch, `base.batch`.

        In every gradient step, before the gradient is taken.
        """
        return base(params)

    def edit_grads(
        self, mem: MethodState, grads: Params, params: Params, loss_on: LossOn, key: Key
    ) -> Params:
        """Edit the gradient: `loss_on(params, batch)` is the learner's loss on replayed samples.

        In every gradient step, between the gradient and the optimiser's step.
        """
        return grads

    def after_update(
        self, mem: MethodState, old: Params, new: Params, grads: Params
    ) -> tuple[MethodState, Params]:
        """Edit the parameters after the optimiser's step from `old` to `new`.

        In every gradient step, last.
        """
        return mem, new

    def observe(self, mem: MethodState, batch: Batch, key: Key) -> MethodState:
        """See one minibatch of a rollout.

        In every update, after all its gradient steps.
        """
        return mem

    def end_phase(
        self,
        mem: MethodState,
        phase: str,
        state: LearnerState,
        learner: Learner,
        batch: Batch,
        key: Key,
    ) -> tuple[MethodState, LearnerState]:
        """A phase has ended. `batch` holds new samples of the task that are not trained on.

        After the last update of the phase. For the last phase of a task this is after the task's
        last evaluation, so it must not change what the policy does: the saved policy would not be
        the evaluated one. Prepare the next task in `begin_task`.
        """
        return mem, state

    def acting_params(self, mem: MethodState, params: Params, task_id: Array) -> Params:
        """The parameters to act with on task `task_id`.

        In evaluations, films and exports; rollouts act with the parameters in training.
        """
        return params

"""The interfaces of environments, policies, sources, learners, methods and benchmarks.

Everything is a pure function of its arguments, so it can be traced once, batched with `vmap` and
repeated from a key. `brigade.testing` checks these requirements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from brigade.core.seating import Acting, Cast
from brigade.core.types import (
    Array,
    Batch,
    Carry,
    Data,
    Index,
    Key,
    LearnerState,
    MethodState,
    Metrics,
    Outputs,
    ParameterGroups,
    Params,
    SourceState,
    State,
    Symmetries,
    Task,
    TaskSequence,
    TimeStep,
    Trajectory,
    View,
)

# The measures of a stream of tasks (MEAL).
CONTINUAL_MEASURES = (
    "average_score",
    "forgetting",
    "after_training",
    "forward_transfer",
    "area_gained",
)


class LossOn(Protocol):
    """The learner's loss on replayed samples."""

    def __call__(
        self, params: Params, replayed: Batch, *probability: Array
    ) -> tuple[Array, Metrics]:
        """`probability` [samples], relative to all alike, is given for samples of `keep` only."""
        ...


class Environment:
    """A game for a fixed number of seats: the base class of environments.

    It holds static shapes only. The task is an argument: a pytree with a field `id`. An environment
    never resets itself; the caller starts the next episode. Members with a default are optional.
    """

    if TYPE_CHECKING:  # not at run time: subclasses may define these as plain attributes

        @property
        def num_agents(self) -> int:
            """The number of seats."""

        @property
        def num_actions(self) -> int:
            """The number of discrete actions, or of components of a continuous action."""

        @property
        def obs_shape(self) -> tuple[int, ...]:
            """The shape of one seat's observation."""

        @property
        def horizon(self) -> int:
            """The maximum length of an episode in steps."""

    def reset(self, key: Key, task: Any) -> tuple[State, TimeStep]:
        """Start an episode."""
        raise NotImplementedError

    def step(self, key: Key, state: State, action: Array, task: Any) -> tuple[State, TimeStep]:
        """Play one joint action [seats], or [seats, num_actions] if actions are continuous."""
        raise NotImplementedError

    @property
    def continuous(self) -> bool:
        """Whether actions are continuous, with `num_actions` components."""
        return False

    @property
    def stay_action(self) -> int | tuple[float, ...] | None:
        """The action that does nothing, if there is one."""
        return None

    @property
    def variant_settings(self) -> dict[str, Any]:
        """Plain settings that policies depend on beyond shapes; {} if there are none."""
        return {}

    @property
    def partial_view(self) -> str:
        """What observations leave out, in words; empty if nothing. Policies depend on it."""
        return ""

    def targets(self, state: State, task: Any) -> dict[str, Array]:
        """Labels for auxiliary losses: classes [seats, items], -1 where there is none."""
        return {}

    @property
    def target_sizes(self) -> dict[str, tuple[int, int]]:
        """How many items and classes each of the `targets` has."""
        return {}

    @property
    def symmetries(self) -> Symmetries | None:
        """Renamings that leave the game as it is, if any are known."""
        return None

    @property
    def shown_moves(self) -> tuple[tuple[tuple[int, ...], ...], ...] | None:
        """For every action, which entries of an observation show that it was the last move: a
        choice of tuples of entries that are all 1. None: observations do not show it."""
        return None

    @property
    def events(self) -> tuple[str, ...]:
        """Names of the columns of `info["events"]` [seats, kinds], which evaluations count."""
        return ()

    @property
    def fixed_length(self) -> bool:
        """Whether every episode lasts exactly `horizon` steps; makes rollouts faster."""
        return False

    def changing_inputs(self, tasks: Any) -> int | None:
        """Upper bound on the observation entries that change within a task, over all `tasks`.

        The other entries are left out of rollouts and matrix products. None: unknown.
        """
        return None

    def picture(self, task: Any) -> Any:
        """RGB picture of a task [height, width, 3], or None."""
        return None

    @property
    def frames_per_second(self) -> int:
        """How fast films of episodes play."""
        return 8

    def frames(self, states: Any, task: Any) -> Any:
        """RGB pictures of an episode, or None; `states` has leaves [timesteps, ...]."""
        return None


class Policy(Protocol):
    """A function plus parameters. Views and recurrent states have leaves [*batch, ...], with one
    entry per seat that it acts for.

    Optional members: `always_samples = True` if it has no greedy actions;
    `slow_when_batched = True` if seeds train faster one after another than in a batch; `predicts`,
    names of the environment's `targets` that rollouts should hold, in `extras["targets"]`.
    """

    def init(self, key: Key) -> Params: ...
    def initial_carry(self, batch: tuple[int, ...]) -> Carry:
        """Initial recurrent states; () for a policy without one."""
        ...

    def act(
        self, params: Params, carry: Carry, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Carry, dict[str, Array]]:
        """Actions [*batch, ...], the next recurrent states and what to record for the learner.

        Recurrent states are reset where `view.first` is True.
        """
        ...


class Source(Protocol):
    """A source of rollouts: environments on the device, host simulators or recordings."""

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps per rollout."""
        ...

    @property
    def tables(self) -> int:
        """The number of tables: blocks of environments with the same policies."""
        ...

    def start(self, key: Key, task: Task) -> SourceState: ...
    def next(
        self, state: SourceState, acting: Acting, task: Task, key: Key
    ) -> tuple[SourceState, Trajectory]:
        """Collect a rollout; a new seating takes effect once the last one lasted an episode."""
        ...


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
    # False: every task of a stream must be new, with its own id in training order.
    tasks_may_recur: ClassVar[bool] = True
    # True: every rollout is of a random task of the stream, and schedules last for all of it.
    mixes_tasks: ClassVar[bool] = False

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


@dataclass(frozen=True)
class Benchmark:
    """The description of an experiment: the paper's numbers and choices, no loops."""

    id: str
    summary: str
    env: Environment
    sequence: Callable[[int, int, int], TaskSequence]  # (seed, num_tasks, steps per task)
    num_tasks: int
    steps_per_task: int
    num_seeds: int
    num_envs: int
    num_steps: int  # of a rollout
    eval_every: int  # updates between evaluations
    eval_episodes: int
    learner: str
    # Partners for the seats that are not the learner's; without any, the learner has every seat.
    # `seats` are the learner's: numbers from 0, or `random` once per sampled seat.
    cast: Cast = field(default_factory=Cast)
    seats: tuple[str, ...] = ("random",)
    # Partners that are only met in evaluations, and the policy file (FILE:NAME) with the parameters
    # that the learner starts from.
    held_out: Cast = field(default_factory=Cast)
    start_from: str = ""
    # The measures its reports and tables show (`brigade list measures`).
    measures: tuple[str, ...] = CONTINUAL_MEASURES
    # Named settings that differ from the paper's, in the form of a config file.
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The same for populations, by the name of their generator.
    generators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The same for continual methods, by their names.
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Settings of the environment, a frozen dataclass (`--env.*` on the command line), and the
    # function that builds the benchmark from other settings.
    settings: Any = None
    configure: Callable[[Any], Benchmark] | None = None

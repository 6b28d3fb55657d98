"""What an environment, a policy, a source, a learner, a method and a benchmark promise.

Everything is a pure function of its arguments, so that it can be traced once, batched with
`vmap` and repeated from a key. `brigade.testing` checks these promises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from brigade.core.seating import Acting, Cast
from brigade.core.types import (
    Array,
    Batch,
    Carry,
    Data,
    Index,
    Key,
    LearnerState,
    Memory,
    Metrics,
    Outputs,
    Params,
    SourceState,
    State,
    Task,
    TaskSequence,
    TimeStep,
    Trajectory,
    View,
)

# Of a stream of tasks (MEAL): what is kept, what is lost, what is gained.
CONTINUAL_MEASURES = (
    "average_score",
    "forgetting",
    "after_training",
    "forward_transfer",
    "area_gained",
)

LossOf = Callable[[Params], tuple[Array, Metrics]]
LossOn = Callable[[Params, Batch], tuple[Array, Metrics]]


class Environment(Protocol):
    """A game for a fixed number of seats. Holds static shape only; the task is an argument.

    It never resets itself: whoever plays decides what follows the end of a game.

    More members are optional. For speed: `fixed_length = True` says that no game ends before its
    horizon; `changing_inputs(tasks) -> int` bounds how many entries of an observation change within
    a game of any of `tasks`. `continuous = True`: actions are [seats, num_actions] numbers.
    `stay_action` is the action of a seat that does nothing.
    `events` names what `info["events"]` [seats, kinds] tells of, for evaluations to count.
    `picture(task)` and `frames(states, task)` draw.
    """

    @property
    def num_agents(self) -> int: ...
    @property
    def num_actions(self) -> int: ...
    @property
    def obs_shape(self) -> tuple[int, ...]: ...
    @property
    def horizon(self) -> int:
        """Steps after which every game has ended."""
        ...

    def reset(self, key: Key, task: Task) -> tuple[State, TimeStep]: ...
    def step(self, key: Key, state: State, action: Array, task: Task) -> tuple[State, TimeStep]: ...


class Policy(Protocol):
    """A function plus parameters. It acts for whatever seats it is shown: views and memories have
    leaves [*batch, ...], one entry per seat.

    A member is optional: `always_samples = True` for one that has no greedy actions.
    """

    def init(self, key: Key) -> Params: ...
    def initial_carry(self, batch: tuple[int, ...]) -> Carry:
        """An empty memory for every entry of `batch`."""
        ...

    def act(
        self, params: Params, carry: Carry, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Carry, dict[str, Array]]:
        """Return actions [*batch], the next memory and whatever a learner wants recorded.

        Memory restarts where `view.first` is True.
        """
        ...


class Source(Protocol):
    """Where experience comes from: environments on the device, host simulators, recordings."""

    @property
    def steps_per_rollout(self) -> int:
        """Environment steps in one trajectory."""
        ...

    @property
    def tables(self) -> int:
        """Blocks of environments, each with people of its own."""
        ...

    def start(self, key: Key, task: Task) -> SourceState: ...
    def next(
        self, state: SourceState, acting: Acting, task: Task, key: Key
    ) -> tuple[SourceState, Trajectory]:
        """Go on playing; a new seating in `acting` holds once games of the last one are over."""
        ...


class Learner(Protocol):
    """An algorithm: which batches follow from experience, and the loss on one of them.

    Trajectories hold the learner's own seats only, whoever sits on the others.

    More members are optional. `members`: how many policies it trains side by side, leaves of its
    parameters being [members, ...]. `seat(state, company, tables, seats, key) -> Seating`: who
    meets whom in the next games, if not drawn by the task's weights. `after_rollout(state, traj,
    key) -> LearnerState`: what follows when a rollout has been learned from.
    """

    @property
    def policy(self) -> Policy: ...

    def init(self, key: Key) -> LearnerState: ...

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Restart schedules, and whatever else does not outlive a task."""
        ...

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Data, Index]:
        """Turn experience into data and [num_batches, ...] indices, so that epochs copy nothing."""
        ...

    def take(self, data: Data, index: Index) -> Batch: ...

    def standalone(self, batch: Batch) -> Batch:
        """The batch in a form that can be kept and mixed with other tasks': leaves [samples, ...].

        What methods see is in this form; `loss` and `outputs` accept both.
        """
        ...

    def loss(
        self, params: Params, state: LearnerState, batch: Batch, key: Key
    ) -> tuple[Array, Metrics]: ...

    def rehearse(self, params: Params, batch: Batch) -> tuple[Array, Metrics]:
        """The loss on samples of earlier tasks; `loss` may be about what the learner does now."""
        ...

    def outputs(self, params: Params, batch: Batch) -> Outputs: ...

    def diagnose(self, params: Params, batch: Batch) -> Metrics:
        """What to log once per update beside the loss: the health of the network."""
        ...

    def apply_gradients(self, state: LearnerState, grads: Params) -> LearnerState: ...

    def after_update(self, state: LearnerState, index: Index, metrics: Metrics) -> LearnerState: ...


@dataclass(frozen=True)
class ContinualMethod:
    """How a learner is kept from forgetting. Every default does nothing: that is fine-tuning.

    A method is one small file that overrides the hooks it needs, a frozen dataclass of its
    settings; what it remembers is `Memory`, a pytree of its own.
    """

    # Parts of a task's budget, by name; `end_phase` is called after each.
    phases: ClassVar[tuple[tuple[str, float], ...]] = (("train", 1.0),)

    def check(self, learner: Learner, repetitions: int) -> None:
        """Raise a ValueError of one line where method and learner do not fit; before training."""

    def wrap_policy(self, policy: Policy) -> Policy:
        """Change how the learner acts, while learning and when evaluated."""
        return policy

    def init(self, params: Params, batch: Batch) -> Memory:
        """Make the memory. `batch` shows the shapes of what `observe` and `end_phase` get."""
        return ()

    def loss(
        self, mem: Memory, base: LossOf, params: Params, learner: Learner, key: Key
    ) -> tuple[Array, Metrics]:
        """Edit the loss: `base(params)` is the learner's own on the current batch."""
        return base(params)

    def edit_grads(
        self, mem: Memory, grads: Params, params: Params, loss_on: LossOn, key: Key
    ) -> Params:
        """Edit the gradient: `loss_on(params, batch)` is the loss on kept samples."""
        return grads

    def after_update(
        self, mem: Memory, old: Params, new: Params, grads: Params
    ) -> tuple[Memory, Params]:
        """Edit the parameters after the optimiser's step from `old` to `new`."""
        return mem, new

    def observe(self, mem: Memory, batch: Batch, key: Key) -> Memory:
        """See one batch of every rollout, after it was learned from."""
        return mem

    def end_phase(
        self,
        mem: Memory,
        phase: str,
        state: LearnerState,
        learner: Learner,
        batch: Batch,
        key: Key,
    ) -> tuple[Memory, LearnerState]:
        """A phase ended. `batch` is fresh experience of the task, not learned from."""
        return mem, state

    def acting_params(self, mem: Memory, params: Params, task_id: Array) -> Params:
        """The parameters to act with on `task_id` when evaluated."""
        return params


class LearnerSettings(Protocol):
    """A registered learner: a frozen dataclass of settings that builds it."""

    def build(
        self,
        env: Environment,
        *,
        num_tasks: int,
        updates_per_task: int,
        changing_inputs: int | None = None,
        critic_ids: int = 0,
    ) -> Learner:
        """`changing_inputs`: at most so many entries of an observation change within one task.

        `critic_ids`: the critic is told with which of so many it plays, the actor is not.
        """
        ...


@dataclass(frozen=True)
class Benchmark:
    """A description: numbers and choices, no loops. The numbers are the paper's."""

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
    # Who can be met on the seats that are not the learner's; nobody: it has them all. `seats` are
    # the learner's: numbers from 0, or `random` for each that is drawn for every game.
    cast: Cast = field(default_factory=Cast)
    seats: tuple[str, ...] = ("random",)
    # What its reports and tables show: names of `brigade list measures`.
    measures: tuple[str, ...] = CONTINUAL_MEASURES
    # Named sets of settings that differ from the paper's, in the form of a config file.
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # How the environment can be varied: a frozen dataclass of settings (`--env.*` on the command
    # line), and what makes the benchmark with other ones.
    settings: Any = None
    configure: Callable[[Any], Benchmark] | None = None

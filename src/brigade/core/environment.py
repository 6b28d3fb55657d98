"""The interface of environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from brigade.core.types import Array, Key, State, Symmetries, TimeStep


def no_labels(state: State, task: Any) -> dict[str, Array]:
    """No labels."""
    return {}


@dataclass(frozen=True, eq=False)
class Conventions:
    """What a game knows of itself that helps learners to find conventions others understand."""

    # Renamings that leave the game as it is, for other-play.
    symmetries: Symmetries | None = None
    # For every action, which entries of an observation show that it was the last move: a choice of
    # tuples of entries that are all 1. None: observations do not show it. For SAD.
    shown_moves: tuple[tuple[tuple[int, ...], ...], ...] | None = None
    # Labels for auxiliary losses: how many items and classes each has, and a function of the state
    # and the task that returns classes [seats, items], -1 where there is none.
    label_sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    labels: Callable[[State, Any], dict[str, Array]] = no_labels


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
    def traced(self) -> bool:
        """Whether it can be part of compiled programs; if not, it is a `Simulator`."""
        return True

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

    @property
    def conventions(self) -> Conventions:
        """What helps learners to find conventions that others understand, if anything is known."""
        return Conventions()

    @property
    def events(self) -> tuple[str, ...]:
        """Names of the columns of `info["events"]` [seats, kinds], which evaluations count."""
        return ()

    @property
    def meanings(self) -> Mapping[str, str]:
        """What reports say of this game's numbers: what a `score` is, and how to read who did what
        (`coordination`). `raw_score` instead of `score`: it is not normalised, so that every task
        has a scale of its own, and 1 means nothing."""
        return {}

    @property
    def fixed_length(self) -> bool:
        """Whether every episode lasts exactly `horizon` steps; makes rollouts faster."""
        return False

    def changing_inputs(self, tasks: Any) -> int | None:
        """Upper bound on the observation entries that change within a task, over all `tasks`.

        The other entries are left out of rollouts and matrix products. None: unknown.
        """
        return None

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions, or of the components of a continuous one."""
        return tuple(f"action {number}" for number in range(self.num_actions))

    def describe(self, state: State, task: Any, seat: int | None = None) -> dict[str, Any]:
        """One state as plain data, for viewers: what a seat may see, or all of it."""
        return {}

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

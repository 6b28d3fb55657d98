"""The interface of environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brigade.core.types import (
    Array,
    Key,
    State,
    Symmetries,
    TimeStep,
)


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

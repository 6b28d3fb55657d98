"""The interface of games that run on the host."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from brigade.core.environment import Environment
from brigade.core.types import TimeStep, View


class SimulatorError(Exception):
    """A simulator died, or did not answer in time."""


class HostGames:
    """Games that run side by side: the base class of what `Simulator.open` returns.

    Timesteps are NumPy arrays [games, ...]. A game restarts on its own: the step after the end of
    an episode ignores the action and returns the first timestep of the next.
    """

    def reset(self, seed: int) -> TimeStep:
        """Start all games anew."""
        raise NotImplementedError

    def step(self, action: np.ndarray) -> TimeStep:
        """Play one joint action [games, seats, ...] in every game."""
        raise NotImplementedError

    def frame(self, game: int) -> np.ndarray:
        """An RGB picture of one game as it is now."""
        raise NotImplementedError

    def close(self) -> None:
        """End all processes; without effect if there are none."""


class Simulator(Environment):
    """A game that runs on the host, such as any Gymnasium environment: the base class of those.

    A frozen dataclass, so that equal ones share their open games. Its tasks have no data.
    """

    obs_dtype: Any = np.float32

    @property
    def traced(self) -> bool:
        return False

    def open(self, num_envs: int, pictures: bool = False) -> HostGames:
        """Start games; they are drawn with `pictures` only."""
        raise NotImplementedError

    def timestep(
        self,
        obs: Any,  # [games, seats, ...]
        prev_action: Any,  # as in `View`
        reward: Any,  # [games, seats]
        over: tuple[Any, Any],  # terminated and truncated [games]
        first: Any,  # [games, seats]
        info: dict[str, Any],
        avail: Any = None,  # None: all actions
    ) -> TimeStep:
        """A timestep of NumPy arrays, for games in which every seat is always active."""
        seats = reward.shape
        view = View(
            obs=obs,
            avail=cast(Any, np.ones((*seats, self.num_actions), bool)) if avail is None else avail,
            prev_action=prev_action,
            prev_reward=reward,
            first=first,
            active=cast(Any, np.ones(seats, bool)),
            task_id=cast(Any, np.zeros(seats, np.int32)),
        )
        return TimeStep(view, reward, *over, info)

    def blank(self, num_envs: int) -> TimeStep:
        """A timestep of zeros, for its shapes."""
        seats = (num_envs, self.num_agents)
        action = np.zeros((*seats, self.num_actions), np.float32)
        info = {"score": np.zeros(num_envs, np.float32)}
        if self.events:
            info["events"] = np.zeros((*seats, len(self.events)), np.float32)
        over = np.zeros(num_envs, bool)
        return self.timestep(
            np.zeros((*seats, *self.obs_shape), self.obs_dtype),
            action if self.continuous else np.zeros(seats, np.int32),
            np.zeros(seats, np.float32),
            (over, over),
            np.ones(seats, bool),
            info,
        )

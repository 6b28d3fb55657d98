"""Recorded experience, and which parts of it a learner sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from brigade.core.checks import at_least

# What a history has at every timestep; `STEP` is derived from `DONES`.
OBS, ACTIONS, REWARDS, DONES = "obs", "actions", "rewards", "dones"
TEAMMATE_ACTIONS, EXPERT_ACTIONS = "teammate_actions", "expert_actions"
STEP = "step"
NO_LABEL = -1  # an expert's action that is not known


class Histories:
    """Streams of an ego that learns beside one teammate, with many episodes each.

    The base class of recorded data; NumPy only. Fields: `obs`, `actions`, `rewards` and `dones`
    (True at an episode's last timestep), perhaps `teammate_actions` and `expert_actions`
    (`NO_LABEL` where there is none).
    """

    fields: tuple[str, ...]
    lengths: np.ndarray  # [histories] int64: timesteps of each history
    tasks: np.ndarray  # [histories] int32: equal numbers are of the same task; -1: of none
    obs_shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.lengths)

    def window(self, history: int, start: int, length: int) -> dict[str, np.ndarray]:
        """Timesteps of one history, a field each, and `step`: how many of its episode came before.

        The window lies within the history.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Windows:
    """What a learner sees of histories.

    At an episode's first timestep, the action and the reward before it are those at the end of the
    last episode; there are none only where a history begins.
    """

    needs: tuple[str, ...] = ()
    """Fields without which it cannot learn."""
    starts: Literal["anywhere", "episodes", "beginning"] = "anywhere"
    """Where windows start: anywhere, where an episode begins, or where a history does."""
    reach: int = 1
    """How many timesteps the policy sees; sequences are at least as long."""
    query_first: bool = False
    """Each is an observation to act on, and after it a window of transitions of the same task."""


def steps_in_episodes(dones: np.ndarray) -> np.ndarray:
    """[T] int32: how many timesteps of the same episode came before."""
    number = np.arange(len(dones))
    begins = np.concatenate([[True], dones[:-1].astype(bool)])
    return (number - np.maximum.accumulate(np.where(begins, number, 0))).astype(np.int32)


def check_histories(histories: Histories, windows: Windows, length: int) -> None:
    """Refuse histories without a field that is needed, or that are shorter than a window, and
    windows that are shorter than a context."""
    at_least("histories", len(histories), 1)
    for field in windows.needs:
        if field not in histories.fields:
            raise ValueError(
                f"these histories have no {field}; they have {', '.join(histories.fields)}"
            )
    longest = int(histories.lengths.max())
    if length > longest:
        raise ValueError(
            f"num_steps is {length}, and the longest history has {longest} timesteps; use "
            f"--num-steps {longest} or fewer"
        )
    if windows.reach > length:
        raise ValueError(
            f"the context is {windows.reach} and num_steps {length}; a policy learns to use no "
            f"more than its sequences hold, use --num-steps {windows.reach} or more"
        )

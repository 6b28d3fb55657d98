"""What a learner sees of histories: windows of them, a function of a random generator alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from brigade.core.histories import (
    ACTIONS,
    DONES,
    EXPERT_ACTIONS,
    OBS,
    REWARDS,
    STEP,
    TEAMMATE_ACTIONS,
    Histories,
    Windows,
    check_histories,
)

NO_ACTION = -1  # before the first one
# What a batch has beside the fields of histories; `QUERY` and `NEXT_OBS` with `query_first` only.
PREV_ACTIONS, PREV_REWARDS = "prev_actions", "prev_rewards"
PREV_TEAMMATE_ACTIONS, VALID = "prev_teammate_actions", "valid"
NEXT_OBS, QUERY_OBS, QUERY_TARGET = "next_obs", "query_obs", "query_target"
PREVIOUS = {
    PREV_ACTIONS: (ACTIONS, NO_ACTION),
    PREV_REWARDS: (REWARDS, 0),
    PREV_TEAMMATE_ACTIONS: (TEAMMATE_ACTIONS, NO_ACTION),
}


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of `size` sequences of `length` timesteps: leaves [size, length, ...].

    A sequence is a window of one history; shorter histories are padded at the end with zeros, where
    `valid` is False. With `windows.query_first` it is an observation to act on (`query_obs`,
    `query_target`) and `length` - 1 transitions of a history of the same task.
    """

    histories: Histories
    length: int
    size: int
    windows: Windows = field(default_factory=Windows)

    def __post_init__(self) -> None:
        check_histories(self.histories, self.windows, self.length)

    def sample(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """A batch; all that is random is which histories, and from where in each."""
        if self.windows.query_first:
            groups = of_same_task(self.histories.tasks)
            chosen = generator.integers(0, len(groups), size=self.size)
            return stacked([self.sampled_query(groups[task], generator) for task in chosen])
        chosen = generator.integers(0, len(self.histories), size=self.size)
        return stacked([self.window(int(row), self.start(int(row), generator)) for row in chosen])

    def start(self, history: int, generator: np.random.Generator) -> int:
        """Where a window of a history starts."""
        choices = int(self.histories.lengths[history]) - self.length + 1
        if choices <= 1 or self.windows.starts == "beginning":
            return 0
        start = int(generator.integers(0, choices))
        if self.windows.starts == "episodes":  # the beginning of the episode that it is in
            start -= int(self.histories.window(history, start, 1)[STEP][0])
        return start

    def window(self, history: int, start: int) -> dict[str, np.ndarray]:
        """A window, with what the ego knew before each action: [length, ...]."""
        here = self.histories.window(history, start, self.available(history, start, self.length))
        before = self.histories.window(history, start - 1, 1) if start else None
        for name, (of, none) in PREVIOUS.items():
            if of in here:
                first = np.full(1, none, here[of].dtype) if before is None else before[of]
                here[name] = np.concatenate([first, here[of][:-1]])
        return padded(here, self.length)

    def available(self, history: int, start: int, wanted: int) -> int:
        """How many timesteps there are from `start`, at most so many."""
        return min(wanted, int(self.histories.lengths[history]) - start)

    def sampled_query(self, group: np.ndarray, generator: np.random.Generator) -> dict[str, Any]:
        """An observation to act on and transitions, from histories of one task."""
        context, query = (int(group[generator.integers(0, len(group))]) for _ in range(2))
        time = int(generator.integers(0, int(self.histories.lengths[query])))
        choices = int(self.histories.lengths[context]) - self.length + 1
        start = int(generator.integers(0, choices)) if choices > 0 else 0
        return self.query(query, time, context, start)

    def query(self, history: int, time: int, context: int, start: int) -> dict[str, Any]:
        """The observation at `time` of a history, and transitions of another: [length - 1, ...]."""
        asked = self.histories.window(history, time, 1)
        seen = self.histories.window(context, start, self.available(context, start, self.length))
        transitions = {name: x[:-1] for name, x in seen.items()} | {NEXT_OBS: seen[OBS][1:]}
        return {
            QUERY_OBS: asked[OBS][0],
            QUERY_TARGET: asked[EXPERT_ACTIONS][0],
            **padded(transitions, self.length - 1),
        }


def padded(window: dict[str, np.ndarray], length: int) -> dict[str, np.ndarray]:
    """The window with zeros at its end, and which of its timesteps are `valid`."""
    number = len(window[DONES])
    missing = length - number

    def longer(x: np.ndarray) -> np.ndarray:
        return np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1)) if missing else x

    return {name: longer(x) for name, x in window.items()} | {VALID: np.arange(length) < number}


def stacked(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Leaves [rows, ...]."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def of_same_task(tasks: np.ndarray) -> list[np.ndarray]:
    """The numbers of the histories of every task, in the order in which tasks first appear.

    Histories of no task in particular (-1) are alone.
    """
    names = [f"alone {row}" if task < 0 else int(task) for row, task in enumerate(tasks)]
    return [
        np.array([row for row, name in enumerate(names) if name == task])
        for task in dict.fromkeys(names)
    ]

"""Histories in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from brigade.core.histories import DONES, OBS, STEP, Histories, steps_in_episodes


class ArrayHistories(Histories):
    """Histories whose fields are arrays [T, ...] in memory, one dictionary per history."""

    def __init__(
        self, histories: Sequence[Mapping[str, np.ndarray]], tasks: Sequence[int] | None = None
    ) -> None:
        if not histories:
            raise ValueError("there are no histories; give at least one")
        self.fields = tuple(histories[0])
        self.lengths = np.array([len(each[DONES]) for each in histories], np.int64)
        self.tasks = np.asarray([-1] * len(histories) if tasks is None else tasks, np.int32)
        self.obs_shape = histories[0][OBS].shape[1:]
        for number, (each, length) in enumerate(zip(histories, self.lengths, strict=True)):
            lengths = {name: len(each[name]) if name in each else None for name in self.fields}
            if set(each) != set(self.fields) or set(lengths.values()) != {int(length)}:
                raise ValueError(
                    f"history {number} has {lengths}; every history needs the same fields, all of "
                    "the same length"
                )
        if len(self.tasks) != len(histories):
            raise ValueError(f"{len(histories)} histories with {len(self.tasks)} tasks")
        self._histories = [
            {**each, STEP: steps_in_episodes(np.asarray(each[DONES]))} for each in histories
        ]

    @classmethod
    def stacked(cls, fields: Mapping[str, np.ndarray], tasks: np.ndarray) -> ArrayHistories:
        """Histories of equal length: leaves [histories, T, ...]."""
        rows = [{name: x[row] for name, x in fields.items()} for row in range(len(tasks))]
        return cls(rows, tasks.tolist())

    def window(self, history: int, start: int, length: int) -> dict[str, np.ndarray]:
        """Timesteps of one history."""
        stop = start + length
        return {name: x[start:stop] for name, x in self._histories[history].items()}

"""Writes a run's log, evaluations and checkpoints while it trains."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from brigade.runs.checkpoints import checkpoint_number, plain_arrays
from brigade.runs.folder import RunFolder, npz_bytes
from brigade.train import Position, Progress

LOG_SECONDS = 1.0  # the log is written at most this often: each time the device has to wait


class RunWriter:
    """Writes the log, the evaluations and the checkpoints of a run."""

    def __init__(self, folder: RunFolder, start_time: float, checkpoint_minutes: float) -> None:
        self.folder, self.start_time = folder, start_time
        self.interval = 60.0 * checkpoint_minutes
        self.saved = self.logged = time.monotonic()
        self.pending: list[tuple[Progress, float]] = []

    def add(self, progress: Progress, position: Position, task_ended: bool) -> None:
        """Log an update; save a checkpoint after every task and every few minutes."""
        now = time.monotonic()
        if progress.update:
            self.pending.append((progress, now - self.start_time))
        if progress.evaluated:
            self.folder.write_returns(position.record.arrays())
        if progress.evaluated or now - self.logged > LOG_SECONDS:
            self.flush()
        if task_ended or now - self.saved >= self.interval:
            self.save(position)

    def flush(self) -> None:
        """Write the pending rows of the log."""
        rows = [
            {
                "task": progress.task,
                "update": progress.update,
                "steps": progress.steps,
                "seconds": round(seconds, 3),
                "metrics": {name: plain_numbers(value) for name, value in progress.metrics.items()},
            }
            for progress, seconds in self.pending
        ]
        self.folder.append_log(rows)
        self.pending, self.logged = [], time.monotonic()

    def save(self, position: Position) -> None:
        """Write a checkpoint."""
        self.flush()
        meta = {
            "task": position.task,
            "update": position.update,
            "log_size": self.folder.log_size(),
            "seconds": time.monotonic() - self.start_time,
        }
        files = {
            "meta.json": json.dumps(meta).encode(),
            "record.npz": npz_bytes(position.record.arrays()),
        }
        number = checkpoint_number(position.task, position.update)
        self.folder.save_checkpoint(number, plain_arrays(position.state), files)
        self.saved = time.monotonic()


def plain_numbers(values: Any) -> Any:
    """Lists for JSON; nan, which JSON lacks, becomes None."""
    array = np.asarray(values).astype(object)
    array[np.isnan(np.asarray(values))] = None
    return array.tolist()

"""Where the news of a run goes: the display, and TensorBoard or Weights & Biases when asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from brigade.errors import UserError
from brigade.runs.config import Experiment
from brigade.runs.progress import Display, task_means
from brigade.train import Position, Progress

Writer = Callable[[dict[str, float], int], None]


class Sinks:
    """A context manager to be called after every update."""

    def __init__(
        self, folder: Path, quiet: bool = False, tensorboard: bool = False, wandb: bool = False
    ) -> None:
        self.folder = folder
        self.display = Display(quiet)
        self.openers: list[Callable[[], None]] = []
        self.writers: list[Writer] = []
        self.closers: list[Callable[[], Any]] = []
        self.worried = False
        if tensorboard:
            self._prepare_tensorboard()
        if wandb:
            self._prepare_wandb()

    def __enter__(self) -> Sinks:
        self.display.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.display.__exit__(*error)
        for close in self.closers:
            close()

    def begin(self) -> None:
        """The run is sound and starts: from here on something may be written."""
        for open_sink in self.openers:
            open_sink()
        self.display.begin()

    def __call__(self, progress: Progress, position: Position, experiment: Experiment) -> None:
        """Pass the news on."""
        self.display(progress, position, experiment)
        self._worry(progress)
        if self.writers:
            numbers = scalars(progress, position)
            for write in self.writers:
                write(numbers, progress.steps)

    def _worry(self, progress: Progress) -> None:
        """Say once that learning has broken down; other seeds may go on well."""
        loss = progress.metrics.get("loss")
        # Looked at only where an evaluation has waited for the device already.
        if self.worried or loss is None or not progress.evaluated or np.isfinite(loss).all():
            return
        self.worried = True
        print(
            f"brigade: the loss is not a number at step {progress.steps:,}; what is learned from "
            "here on is worth nothing. A lower learning rate or coefficient may help.",
            file=sys.stderr,
        )

    def _prepare_tensorboard(self) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise UserError("--tensorboard needs pip install 'brigade-rl[tensorboard]'") from error

        def open_sink() -> None:
            writer = SummaryWriter(str(self.folder / "tensorboard"))

            def write(numbers: dict[str, float], steps: int) -> None:
                for name, value in numbers.items():
                    writer.add_scalar(name, value, steps)

            self.writers.append(write)
            self.closers.append(writer.close)

        self.openers.append(open_sink)

    def _prepare_wandb(self) -> None:
        try:
            import wandb
        except ImportError as error:
            raise UserError("--wandb needs pip install 'brigade-rl[wandb]'") from error

        def open_sink() -> None:
            run = wandb.init(project="brigade", name=self.folder.name)
            self.writers.append(lambda numbers, steps: run.log(numbers, step=steps))
            self.closers.append(run.finish)

        self.openers.append(open_sink)


def scalars(progress: Progress, position: Position) -> dict[str, float]:
    """Means over seeds: training metrics, and every task's score after an evaluation."""
    numbers = {
        f"train/{name}": float(np.mean(np.asarray(value)))
        for name, value in progress.metrics.items()
        if not np.isnan(np.asarray(value)).any()
    }
    if progress.evaluated:
        scores = task_means(position.record.score[-1])
        numbers |= {f"score/task {task}": float(s) for task, s in enumerate(scores, 1)}
    return numbers

"""Outputs of a running run: the progress display, TensorBoard and Weights & Biases."""

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
    """A context manager; call it after every update."""

    def __init__(
        self, folder: Path, quiet: bool = False, tensorboard: bool = False, wandb: bool = False
    ) -> None:
        self.folder = folder
        self.display = Display(quiet)
        self.openers: list[Callable[[], None]] = []
        self.writers: list[Writer] = []
        self.closers: list[Callable[[], Any]] = []
        self.warned = False
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

    def start(self) -> None:
        """All settings are valid and the run starts: open the outputs."""
        for open_sink in self.openers:
            open_sink()
        self.display.start()

    def __call__(self, progress: Progress, position: Position, experiment: Experiment) -> None:
        """Report an update."""
        self.display(progress, position, experiment)
        self._check_loss(progress)
        if self.writers:
            numbers = scalars(progress, position)
            for write in self.writers:
                write(numbers, progress.steps)

    def _check_loss(self, progress: Progress) -> None:
        """Warn once if the loss is not finite; the run continues, other seeds may be fine."""
        loss = progress.metrics.get("loss")
        # Only after an evaluation, which has waited for the device anyway.
        if self.warned or loss is None or not progress.evaluated or np.isfinite(loss).all():
            return
        self.warned = True
        print(
            f"brigade: the loss is not finite at step {progress.steps:,}: training has diverged; "
            "try a lower learning rate or coefficient",
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
    """Means over seeds: the training metrics and, after an evaluation, every task's score."""
    numbers = {
        f"train/{name}": float(np.mean(np.asarray(value)))
        for name, value in progress.metrics.items()
        if not np.isnan(np.asarray(value)).any()
    }
    if progress.evaluated:
        scores = task_means(position.record.score[-1])
        numbers |= {f"score/task {task}": float(s) for task, s in enumerate(scores, 1)}
    return numbers

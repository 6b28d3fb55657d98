"""The progress of a run: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from brigade.runs.config import Experiment
from brigade.train import Position, Progress

LINE_SECONDS = 10.0  # least time between plain lines without an evaluation


class Display:
    """Call it after every update. As a context manager it removes the live display at the end."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stderr)
        self.quiet = quiet
        self.live = Live(console=self.console, refresh_per_second=4, transient=True)
        self.is_live = self.console.is_terminal and not quiet
        self.start_time = self.line = time.monotonic()
        self.first_steps: int | None = None

    def __enter__(self) -> Display:
        return self

    def start(self) -> None:
        """All settings are valid and the run starts; compilation comes first."""
        if self.is_live:
            self.live.update(Text("compiling"))
            self.live.start()
        elif not self.quiet:
            print("compiling", file=self.console.file, flush=True)

    def __exit__(self, *error: object) -> None:
        self.live.stop()

    def __call__(self, progress: Progress, position: Position, experiment: Experiment) -> None:
        """Show the progress."""
        if self.quiet:
            return
        # Its value is known once the update has ended, so time is taken after reading it.
        score = float(np.mean(np.asarray(progress.metrics.get("score", np.nan))))
        if self.first_steps is None and progress.update:  # compiled: time from here
            self.first_steps, self.start_time = progress.steps, time.monotonic()
        line = self.describe(progress, position, experiment, score)
        now = time.monotonic()
        if self.is_live:
            self.live.update(Text(line))
            if progress.evaluated:
                self.console.print(self.evaluation(progress, position))
        elif progress.evaluated or now - self.line > LINE_SECONDS:
            scores = f"  {self.evaluation(progress, position)}" if progress.evaluated else ""
            print(line + scores, file=self.console.file, flush=True)
            self.line = now

    def describe(
        self, progress: Progress, position: Position, experiment: Experiment, score: float
    ) -> str:
        """Task, update, score, speed, time left."""
        config = experiment.config
        total = position.record.ends()[-1]
        done = 0 if self.first_steps is None else progress.steps - self.first_steps
        elapsed = time.monotonic() - self.start_time
        parts = [
            f"task {progress.task + 1}/{config.total_tasks}",
            f"update {progress.update}/{config.updates_per_task}",
        ]
        if not np.isnan(score):
            parts.append(f"score {score:.2f}")
        if done > 0 and elapsed > 0:
            rate = done / elapsed
            parts.append(f"{rate * config.seeds:,.0f} steps/s")
            parts.append(f"{clock((total - progress.steps) / rate)} left")
        elif progress.steps < total:
            parts.append("compiling; the time left follows")
        return "  ".join(parts)

    def evaluation(self, progress: Progress, position: Position) -> str:
        """The mean score of every task trained so far, over seeds and episodes."""
        scores = task_means(position.record.score[-1])[: progress.task + 1]
        shown = " ".join(f"{score:.2f}" for score in scores[-12:])
        return f"{progress.steps:>11,} steps, scores {'... ' if len(scores) > 12 else ''}{shown}"


def task_means(score: np.ndarray) -> np.ndarray:
    """Mean scores [task] of an evaluation [task, ...]."""
    return np.asarray(score.reshape(len(score), -1).mean(-1))


def clock(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, second = divmod(round(max(seconds, 0)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"

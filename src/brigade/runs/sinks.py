"""Outputs of a running run: the progress display, TensorBoard and Weights & Biases."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from brigade.metrics.record import SCORE_AXES
from brigade.runs.config import Experiment
from brigade.runs.progress import Display
from brigade.train import Position, Progress


@dataclass(frozen=True)
class Update:
    """The numbers of an update, or of the evaluation before the first."""

    steps: int
    by_seed: Mapping[int, Mapping[str, float]]  # by seed and name; unknown ones are left out
    mean: Mapping[str, float]  # over seeds, where all of them are known


@dataclass(frozen=True)
class FinalResults:
    """What a finished run shows: its tables, its measures and a film, if it can be filmed."""

    steps: int
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]]  # headings and rows
    measures: Mapping[str, float]  # by name
    film: Path | None = None  # a GIF


class Sink(Protocol):
    """Takes the numbers of a run."""

    def open(self, config: Mapping[str, Any]) -> None:
        """The run starts or goes on; `config` is that of its folder."""

    def write(self, update: Update) -> None:
        """Take the numbers of an update."""

    def finish(self, results: FinalResults) -> None:
        """Take the results of the finished run."""

    def close(self) -> None:
        """No more is to come."""


@dataclass
class Sinks:
    """A context manager; call it after every update."""

    folder: Path
    quiet: bool = False
    sinks: Sequence[Sink] = ()
    opened: bool = field(default=False, init=False)
    warned: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.display = Display(self.quiet)

    def __enter__(self) -> Sinks:
        self.display.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.display.__exit__(*error)
        for sink in self.sinks if self.opened else ():
            sink.close()

    def start(self) -> None:
        """All settings are valid and the run starts: open the outputs."""
        self._open()
        self.display.start()

    def __call__(self, progress: Progress, position: Position, experiment: Experiment) -> None:
        """Report an update."""
        self.display(progress, position, experiment)
        self._check_loss(progress)
        if self.sinks:
            update = numbers_of(progress, position, experiment.config.seed)
            for sink in self.sinks:
                sink.write(update)

    def finish(self, results: FinalResults) -> None:
        """Report the results of the finished run."""
        self.display.__exit__()
        self._open()  # of a run that was finished before, only these are reported
        for sink in self.sinks:
            sink.finish(results)

    def _open(self) -> None:
        if self.sinks and not self.opened:
            text = (self.folder / "config.json").read_text(encoding="utf-8")
            for sink in self.sinks:
                sink.open(json.loads(text)["config"])
            self.opened = True

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


def group_of(config: Mapping[str, Any]) -> str:
    """What runs to compare have in common: BENCHMARK/METHOD, or the generator of a population."""
    generator = str(config.get("generator", "none"))
    return f"{config['benchmark']}/{config['method'] if generator == 'none' else generator}"


def numbers_of(progress: Progress, position: Position, first_seed: int) -> Update:
    """The training metrics and, after an evaluation, every task's score."""
    values = {f"train/{name}": np.asarray(value) for name, value in progress.metrics.items()}
    if progress.evaluated:
        score = position.record.score[-1]
        kept = [SCORE_AXES.index(axis) for axis in ("task", "seed")]
        scores = score.mean(axis=tuple(n for n in range(score.ndim) if n not in kept))
        values |= {f"score/task {task}": score for task, score in enumerate(scores, 1)}
    seeds = max((len(each) for each in values.values()), default=0)
    return Update(
        progress.steps,
        {
            first_seed + index: {
                name: float(each[index])
                for name, each in values.items()
                if not np.isnan(each[index])
            }
            for index in range(seeds)
        },
        {name: float(each.mean()) for name, each in values.items() if not np.isnan(each).any()},
    )

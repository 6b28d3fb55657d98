"""A run with policies that can act, from disk or in training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from brigade.runs.assemble import Parts
from brigade.runs.config import Experiment
from brigade.runs.trained import TrainedPolicy
from brigade.train import Position
from brigade.train.evaluate import acting_params


@dataclass(frozen=True, repr=False)
class LoadedRun:
    """A run from disk, with policies that can act. `params` has leaves [seeds, ...]."""

    path: Path
    experiment: Experiment
    returns: dict[str, np.ndarray]
    parts: Parts
    params: Any
    method_state: Any
    last_task: int = 0  # the task trained last, from 0
    matches: Any = None  # the matchmaker's state, leaves [seeds, ...]

    def __repr__(self) -> str:
        return f"LoadedRun({str(self.path)!r}, policies: {', '.join(self.names)})"

    def cast(self, seed: int) -> Any:
        """The parameters of the partners of a seed, an index from 0."""
        params, matches = (
            jax.tree.map(lambda x: x[seed], tree) for tree in (self.params, self.matches)
        )
        matchmaker = self.parts.trainer.matchmaker
        return matchmaker.partners(matches, params, self.parts.lineup.cast)

    def acting_params(self, seed: int, task: int) -> Any:
        """The parameters that act on a task; both are indices from 0."""
        params, method_state = (
            jax.tree.map(lambda leaf: leaf[seed], tree) for tree in (self.params, self.method_state)
        )
        task_id, trainer = self.parts.sequences[seed].tasks.id[task], self.parts.trainer
        return acting_params(trainer.method, trainer.policies, method_state, params, task_id)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the policies, as in an exported file."""
        from brigade.runs.export import members_of_run

        return tuple(str(member["name"]) for member, *_ in members_of_run(self, self.last_task))

    def policy(
        self, name: str | None = None, *, seed: int | None = None, task: int | None = None
    ) -> TrainedPolicy:
        """A policy by its name, or the first one of a seed; by default the first.

        It acts as on `task`, counted from 1 (default: the last one trained), and plays that task.
        """
        from brigade.runs.export import acting_policy

        return acting_policy(self, name, seed, self.last_task if task is None else task - 1)

    def export(self, out: str | Path, *, task: int | None = None) -> Path:
        """Save the policies in a new file, as `brigade export` does; `task` counts from 1."""
        from brigade.runs.export import policies_of, save_policies

        return save_policies(policies_of(self, None if task is None else task - 1), Path(out))


def as_loaded(path: Path, experiment: Experiment, parts: Parts, position: Position) -> LoadedRun:
    """A run in training, as if its policies of this moment were loaded from disk."""
    state, task = position.state, position.task % len(parts.sequences[0])
    returns = position.record.arrays()
    params = state.learner.params
    return LoadedRun(path, experiment, returns, parts, params, state.memory, task, state.matches)

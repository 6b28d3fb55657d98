"""Loss of plasticity in a run that repeats its sequence; None if the log lacks the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from brigade.metrics import plasticity
from brigade.metrics.result import Floats, known_mean
from brigade.report.read import RunData

HEADINGS = ("", "AUC-loss", "final ratio", "raw AUC ratio", "dormant")
SMOOTHING = 0.05  # width of the Gaussian, as a share of a repetition; the paper gives none


def auc_loss(run: RunData) -> Floats | None:
    """MEAL eq. 4, mean over tasks; 0 for a sequence that is not repeated, as in the paper."""
    return _over_tasks(run, lambda r: plasticity.auc_loss(r, _width(r)).value, once=0.0)


def final_performance_ratio(run: RunData) -> Floats | None:
    """MEAL eq. 5, mean over tasks; 1 for a sequence that is not repeated."""
    return _over_tasks(
        run, lambda r: plasticity.final_performance_ratio(r, _width(r)).value, once=1.0
    )


def raw_auc_ratio(run: RunData) -> Floats | None:
    """MEAL eq. 6, mean over tasks, not smoothed; 1 for a sequence that is not repeated."""
    return _over_tasks(run, lambda r: plasticity.raw_auc_ratio(r).value, once=1.0)


def dormant(run: RunData) -> Floats | None:
    """The share of dormant units in the policy, mean over training."""
    _, shares = run.logged("dormant")
    return np.asarray(shares.mean(0)) if len(shares) else None


def row(run: RunData) -> list[Floats | None]:
    """All four; empty for a sequence that is not repeated."""
    if run.repetitions == 1 or not len(run.logged("score")[0]):
        return []
    return [auc_loss(run), final_performance_ratio(run), raw_auc_ratio(run), dormant(run)]


def _width(reward: Floats) -> float:
    return SMOOTHING * reward.shape[1]


def _over_tasks(run: RunData, metric: Callable[[Floats], float], once: float) -> Floats | None:
    """A metric of the training scores [repetition, update] of a task, mean over tasks.

    `once` is its value for a sequence that is not repeated.
    """
    if run.repetitions == 1:
        return np.full(len(run.seeds), once)
    _, score = run.logged("score")  # [update, seed]
    visits = run.repetitions * len(run.task_names)
    if len(score) < max(2 * visits, len(run.log)) or len(score) % visits:
        return None  # unfinished, no log, or updates without a score, so rows cannot be assigned
    per_task = score.reshape(run.repetitions, len(run.task_names), -1, len(run.seeds))
    values = [
        # Over the tasks that scored above 0 in their first repetition; nan if there are none.
        float(known_mean([metric(trace[..., s]) for trace in per_task.swapaxes(0, 1)]))
        for s in range(len(run.seeds))
    ]
    return np.array(values)

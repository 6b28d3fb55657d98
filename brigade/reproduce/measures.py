"""What tables show, measured on a run; None where a run does not tell."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from brigade.metrics.coordination import USEFUL, role_collapse
from brigade.metrics.result import mean_or_nan
from brigade.report import plasticity
from brigade.report.measure import Estimate, after_training, summary, sure
from brigade.report.read import RunData


def of_tasks(first: Fraction, last: Fraction) -> Callable[[RunData], Estimate | None]:
    """Mean score after own training over a part of the tasks, from a fraction to another."""

    def measure(run: RunData) -> Estimate | None:
        learned, number = after_training(run, run.score), len(run.task_names)
        some = [row for row in learned[int(first * number) : int(last * number)] if row is not None]
        return sure(np.mean(some, axis=0)) if some else None

    return measure


def collapse(run: RunData) -> Estimate | None:
    """How far one cook does all the work, at the last evaluation, mean over tasks."""
    names = [str(name) for name in run.arrays.get("event_names", ())]
    if not set(USEFUL) <= set(names):
        return None
    per_task = role_collapse(run.arrays["events"][-1], names)  # [task, seed]
    by_seed = [mean_or_nan(scores[np.isfinite(scores)]) for scores in per_task.T]
    return sure(np.array(by_seed))


MEASURES: dict[str, tuple[str, Callable[[RunData], Estimate | None]]] = {
    "average_score": ("average score", lambda run: summary(run).average_score),
    "forgetting": ("forgetting", lambda run: summary(run).forgetting),
    "forward_transfer": ("forward transfer", lambda run: summary(run).forward_transfer),
    "area_gained": ("area gained", lambda run: summary(run).area_gained),
    "after_training": ("after training", lambda run: summary(run).learned),
    "average_return": ("average return", lambda run: sure(run.returns[-1].mean(0))),
    "second_third": ("second third of tasks", of_tasks(Fraction(1, 3), Fraction(2, 3))),
    "last_third": ("last third of tasks", of_tasks(Fraction(2, 3), Fraction(1))),
    "auc_loss": ("AUC-loss", plasticity.auc_loss),
    "dormant": ("dormant", plasticity.dormant),
    "final_performance_ratio": ("final ratio", plasticity.final_performance_ratio),
    "raw_auc_ratio": ("raw AUC ratio", plasticity.raw_auc_ratio),
    "collapse": ("role collapse", collapse),
}

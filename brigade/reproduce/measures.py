"""What tables show, measured on a run; None where a run does not tell."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from brigade.metrics import plasticity
from brigade.metrics.coordination import role_collapse
from brigade.metrics.result import Floats, mean_or_nan
from brigade.report.measure import Estimate, after_training, summary, sure
from brigade.report.read import RunData


def of_tasks(first: Fraction, last: Fraction) -> Callable[[RunData], Estimate | None]:
    """Mean score after own training over a part of the tasks, from a fraction to another."""

    def measure(run: RunData) -> Estimate | None:
        learned, number = after_training(run, run.score), len(run.task_names)
        some = [row for row in learned[int(first * number) : int(last * number)] if row is not None]
        return sure(np.mean(some, axis=0)) if some else None

    return measure


def auc_loss(run: RunData) -> Estimate:
    """MEAL eq. 4, mean over tasks; 0 for a sequence that is not repeated, as the paper has it."""
    return _over_tasks(run, lambda reward: plasticity.auc_loss(reward).value, alone=0.0)


def final_performance_ratio(run: RunData) -> Estimate:
    """MEAL eq. 5, mean over tasks."""
    return _over_tasks(run, lambda r: plasticity.final_performance_ratio(r).value, alone=1.0)


def raw_auc_ratio(run: RunData) -> Estimate:
    """MEAL eq. 6, mean over tasks."""
    return _over_tasks(run, lambda reward: plasticity.raw_auc_ratio(reward).value, alone=1.0)


def dormant(run: RunData) -> Estimate:
    """Share of dormant units, mean over the last tenth of training."""
    _, shares = run.logged("dormant")
    return sure(shares[-max(1, len(shares) // 10) :].mean(0))


def collapse(run: RunData) -> Estimate:
    """How far one cook does all the work, at the last evaluation, mean over tasks."""
    names = [str(name) for name in run.arrays["event_names"]]
    per_task = role_collapse(run.arrays["events"][-1], names)  # [task, seed]
    by_seed = [mean_or_nan(scores[np.isfinite(scores)]) for scores in per_task.T]
    return sure(np.array(by_seed))


MEASURES: dict[str, tuple[str, Callable[[RunData], Estimate | None]]] = {
    "average_score": ("average score", lambda run: summary(run).average_score),
    "forgetting": ("forgetting", lambda run: summary(run).forgetting),
    "forward_transfer": ("forward transfer", lambda run: summary(run).forward_transfer),
    "area_gained": ("area gained", lambda run: summary(run).area_gained),
    "after_training": ("after training", lambda run: summary(run).learned),
    "second_third": ("tasks 6-10", of_tasks(Fraction(1, 3), Fraction(2, 3))),
    "last_third": ("tasks 11-15", of_tasks(Fraction(2, 3), Fraction(1))),
    "auc_loss": ("AUC-loss", auc_loss),
    "dormant": ("dormant", dormant),
    "final_performance_ratio": ("final ratio", final_performance_ratio),
    "raw_auc_ratio": ("raw AUC ratio", raw_auc_ratio),
    "collapse": ("role collapse", collapse),
}


def _over_tasks(run: RunData, metric: Callable[[Floats], float], alone: float) -> Estimate:
    """A metric of the training scores [repetition, update] of every task, then the mean."""
    repetitions, tasks = int(run.arrays["repetitions"]), len(run.task_names)
    if repetitions == 1:
        return sure(np.full(len(run.seeds), alone))
    _, score = run.logged("score")  # [update, seed]
    per_task = score.reshape(repetitions, tasks, -1, len(run.seeds))
    values = [
        [metric(per_task[:, task, :, seed]) for task in range(tasks)]
        for seed in range(len(run.seeds))
    ]
    return sure(np.nanmean(values, axis=1))

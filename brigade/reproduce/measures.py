"""What tables show, measured on a run: one number per seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from brigade.metrics import meal, plasticity
from brigade.metrics.coordination import role_collapse
from brigade.metrics.result import Floats
from brigade.report.read import RunData


def average_score(run: RunData) -> Floats:
    """MEAL eq. 1."""
    return _by_seed(run, lambda s: meal.average_score(s))


def forgetting(run: RunData) -> Floats:
    """MEAL eq. 2."""
    return _by_seed(run, lambda s: meal.forgetting(run.steps, s, run.task_ends).value)


def forward_transfer(run: RunData) -> Floats:
    """MEAL eq. 3; needs baselines."""
    alone, moments = run.arrays["baseline_score"], run.arrays["baseline_steps"]
    return np.array(
        [
            meal.forward_transfer(
                run.steps, run.score[:, :, seed], run.task_ends, moments, alone[:, seed]
            ).value
            for seed in range(len(run.seeds))
        ]
    )


def after_training(run: RunData) -> Floats:
    """Mean over tasks of the score at the end of the task's own training."""
    return _learned(run).mean(0)


def second_third(run: RunData) -> Floats:
    """The same over the second third of the tasks: those of level 2 in a curriculum."""
    third = len(run.task_names) // 3
    return _learned(run)[third : 2 * third].mean(0)


def last_third(run: RunData) -> Floats:
    """The same over the last third: those of level 3 in a curriculum."""
    third = len(run.task_names) // 3
    return _learned(run)[2 * third :].mean(0)


def auc_loss(run: RunData) -> Floats:
    """MEAL eq. 4, mean over tasks; 0 for a sequence that is not repeated, as the paper has it."""
    return _over_tasks(run, lambda reward: plasticity.auc_loss(reward).value, alone=0.0)


def final_performance_ratio(run: RunData) -> Floats:
    """MEAL eq. 5, mean over tasks."""
    return _over_tasks(run, lambda r: plasticity.final_performance_ratio(r).value, alone=1.0)


def raw_auc_ratio(run: RunData) -> Floats:
    """MEAL eq. 6, mean over tasks."""
    return _over_tasks(run, lambda reward: plasticity.raw_auc_ratio(reward).value, alone=1.0)


def dormant(run: RunData) -> Floats:
    """Share of dormant units, mean over the last tenth of training."""
    _, shares = run.logged("dormant")
    return np.asarray(shares[-max(1, len(shares) // 10) :].mean(0))


def collapse(run: RunData) -> Floats:
    """How far one cook does all the work, at the last evaluation, mean over tasks."""
    names = [str(name) for name in run.arrays["event_names"]]
    per_task = role_collapse(run.arrays["events"][-1], names)  # [task, seed]
    known = np.isfinite(per_task)
    return np.where(
        known.any(0), np.where(known, per_task, 0.0).sum(0) / np.maximum(known.sum(0), 1), np.nan
    )


MEASURES: dict[str, tuple[str, Callable[[RunData], Floats]]] = {
    "average_score": ("average score", average_score),
    "forgetting": ("forgetting", forgetting),
    "forward_transfer": ("forward transfer", forward_transfer),
    "after_training": ("after training", after_training),
    "second_third": ("tasks 6-10", second_third),
    "last_third": ("tasks 11-15", last_third),
    "auc_loss": ("AUC-loss", auc_loss),
    "dormant": ("dormant", dormant),
    "final_performance_ratio": ("final ratio", final_performance_ratio),
    "raw_auc_ratio": ("raw AUC ratio", raw_auc_ratio),
    "collapse": ("role collapse", collapse),
}


def _by_seed(run: RunData, metric: Callable[[Floats], float]) -> Floats:
    return np.array([metric(run.score[:, :, seed]) for seed in range(len(run.seeds))])


def _learned(run: RunData) -> Floats:
    """[task, seed]: scores at the last evaluation of each task's own training."""
    lasts = np.searchsorted(run.steps, run.task_ends, side="right") - 1
    return np.stack([run.score[last, task] for task, last in enumerate(lasts)])


def _over_tasks(run: RunData, metric: Callable[[Floats], float], alone: float) -> Floats:
    """A metric of the training scores [repetition, update] of every task, then the mean."""
    repetitions, tasks = int(run.arrays["repetitions"]), len(run.task_names)
    if repetitions == 1:
        return np.full(len(run.seeds), alone)
    _, score = run.logged("score")  # [update, seed]
    per_task = score.reshape(repetitions, tasks, -1, len(run.seeds))
    return np.array(
        [
            np.nanmean([metric(per_task[:, task, :, seed]) for task in range(tasks)])
            for seed in range(len(run.seeds))
        ]
    )

"""The numbers of a run: MEAL's metrics for every seed, then averaged over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from brigade.metrics import meal
from brigade.metrics.result import Floats, MetricResult
from brigade.metrics.stats import mean_and_interval
from brigade.report.read import RunData

NO_BASELINES = "needs single-task baselines"
REPEATED = "is not defined for a sequence that is repeated"


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and the half-width of its 95 % interval (nan for one seed)."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        """Two decimals: intervals over a few seeds are wider than that."""
        if np.isnan(self.half_width):
            return _two_decimals(self.mean)
        return f"{_two_decimals(self.mean)} ± {_two_decimals(self.half_width)}"


@dataclass(frozen=True)
class TaskSummary:
    """One task."""

    name: str
    after_training: Estimate | None
    final: Estimate
    forgetting: Estimate | None  # never known for the last task


@dataclass(frozen=True)
class Summary:
    """One run; None is what cannot be known yet, or ever."""

    benchmark: str
    method: str
    seeds: int
    tasks: tuple[TaskSummary, ...]
    average_score: Estimate
    learned: Estimate | None  # mean over the finished tasks of their score after training
    forgetting: Estimate | None
    forward_transfer: Estimate | None
    area_gained: Estimate | None  # forward transfer before it is divided
    transfer_note: str  # why there is no forward transfer
    steps: int
    planned_steps: int
    repetitions: int = 1

    @property
    def finished(self) -> bool:
        """Whether the last evaluation lies at the end of the last task."""
        return self.steps >= self.planned_steps

    @property
    def trained(self) -> int:
        """How many tasks have ended."""
        return sum(task.after_training is not None for task in self.tasks)


def summary(run: RunData) -> Summary:
    """Compute what the tables and the page show."""
    score = run.score
    learned, forgetting = after_training(run, score), _forgetting(run, score)
    tasks = zip(run.task_names, learned, score[-1], forgetting, strict=True)
    transfer, gained, note = _over_training_alone(run, score)
    return Summary(
        benchmark=run.setting("benchmark"),
        method=run.setting("method"),
        seeds=len(run.seeds),
        tasks=tuple(
            TaskSummary(name, _estimate(after), sure(final), _estimate(lost))
            for name, after, final, lost in tasks
        ),
        average_score=sure(_by_seed(meal.average_score, score)),
        learned=_mean_of_known(learned),
        forgetting=_mean_of_known(forgetting),
        forward_transfer=transfer,
        area_gained=gained,
        transfer_note=note,
        steps=int(run.steps[-1]),
        planned_steps=int(run.task_ends[-1]),
        repetitions=run.repetitions,
    )


def after_training(run: RunData, score: Floats) -> Sequence[Floats | None]:
    """Scores [seed] at the end of every task's own training; None where that is still to come."""
    return [
        None if last is None or run.steps[-1] < end else score[last, task]
        for task, (last, end) in enumerate(zip(_last_in_training(run), run.task_ends, strict=True))
    ]


def _last_in_training(run: RunData) -> list[int | None]:
    """The last evaluation within every task's training, if there is one."""
    lasts = np.searchsorted(run.steps, run.task_ends, side="right") - 1
    return [
        int(last) if last >= 0 and run.steps[last] > start else None
        for last, start in zip(lasts, run.task_starts, strict=True)
    ]


def _forgetting(run: RunData, score: Floats) -> Sequence[Floats | None]:
    """MEAL's forgetting [seed] of every task that was evaluated after its end."""
    end = len(run.task_ends) - 1
    lasts = _last_in_training(run)
    known = [t for t in range(end) if lasts[t] is not None and lasts[t] != len(run.steps) - 1]
    result: list[Floats | None] = [None] * (end + 1)
    if known:
        # With the run's last task as the end of time, weights of an unfinished run are already
        # those of the finished one.
        columns = [*known, end]
        table = _by_seed(
            lambda s: meal.forgetting(run.steps, s[:, columns], run.task_ends[columns]).per_task,
            score,
        )
        for task, values in zip(known, table.T, strict=True):
            result[task] = values
    return result


def _over_training_alone(
    run: RunData, score: Floats
) -> tuple[Estimate | None, Estimate | None, str]:
    """Forward transfer and the area gained, over the tasks that have ended; or why not."""
    if not {"baseline_steps", "baseline_score"} <= run.arrays.keys():
        return None, None, NO_BASELINES
    if run.repetitions > 1:
        return None, None, REPEATED
    ended = int((run.task_ends <= run.steps[-1]).sum())
    alone = run.arrays["baseline_score"]

    def over_seeds(metric: Callable[..., MetricResult]) -> Estimate:
        values = [
            metric(
                run.steps,
                score[:, :ended, seed],
                run.task_ends[:ended],
                run.arrays["baseline_steps"],
                alone[:ended, seed],
            ).value
            for seed in range(len(run.seeds))
        ]
        return sure(np.array(values))

    try:
        return over_seeds(meal.forward_transfer), over_seeds(meal.area_gained), ""
    except (ValueError, IndexError) as error:
        return None, None, str(error).splitlines()[0]


def _by_seed(metric: Callable[[Floats], Floats | float | None], score: Floats) -> Floats:
    """Apply a metric of [eval, task] to every seed of [eval, task, seed]; seeds come first."""
    return np.array([metric(score[:, :, s]) for s in range(score.shape[2])], dtype=np.float64)


def sure(values: Floats) -> Estimate:
    """Of values [seed]."""
    mean, half_width = mean_and_interval(values)
    return Estimate(float(mean), float(half_width))


def _estimate(values: Floats | None) -> Estimate | None:
    return None if values is None else sure(values)


def _mean_of_known(rows: Sequence[Floats | None]) -> Estimate | None:
    """Over tasks first, so that the interval is that of the seeds."""
    known = [row for row in rows if row is not None]
    return sure(np.mean(known, axis=0)) if known else None


def _two_decimals(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # + 0.0 makes -0.00 a plain 0.00

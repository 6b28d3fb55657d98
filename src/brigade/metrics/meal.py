"""MEAL (000), equations 1-3: average score, forgetting and forward transfer of one run.

`times` [evaluation] and `task_ends` [task] are environment steps since the start of the run; a task
is trained from the end of the previous one. Scores are normalised, not raw returns.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import (
    Floats,
    MetricResult,
    as_floats,
    check_shape,
    mean_or_nan,
    ratio,
)

# Step counts with rounding errors (1000 / 3 * 3) still count as a task's end.
_STEP_TOLERANCE = 1e-9
# The AUC of a perfect baseline is 1 only up to rounding.
_PERFECT = 1e-9


class _Record(NamedTuple):
    times: Floats  # [evaluation]
    score: Floats  # [evaluation, task]
    starts: Floats  # [task]
    ends: Floats  # [task]


def average_score(score: npt.ArrayLike) -> float:
    """MEAL eq. 1: mean over tasks at the last evaluation. `score` [evaluation, task]."""
    return float(as_floats("score", score, "evaluation", "task")[-1].mean())


def forgetting(
    times: npt.ArrayLike, score: npt.ArrayLike, task_ends: npt.ArrayLike, decay: float = 2.0
) -> MetricResult:
    """MEAL eq. 2: relative drop since a task's end, weighted towards early drops.

    `score` [evaluation, task]; the result has `per_task` [task - 1]. A task whose score is not
    positive at its end counts as 0; a single task gives nan. The release has two other formulas;
    this is the paper's.
    """
    if not decay >= 0:
        raise ValueError(f"decay must be zero or more, got {decay}")
    record = _read(times, score, task_ends)
    per_task = np.array(
        [_task_forgetting(record, task, decay) for task in range(len(record.ends) - 1)],
        dtype=np.float64,
    )
    return MetricResult(value=mean_or_nan(per_task), per_task=per_task)


def forward_transfer(
    times: npt.ArrayLike,
    score: npt.ArrayLike,
    task_ends: npt.ArrayLike,
    baseline_times: npt.ArrayLike,
    baseline_score: npt.ArrayLike,
) -> MetricResult:
    """MEAL eq. 3: (AUC - AUC_b) / (1 - AUC_b), with AUC_b of the baseline; `per_task` [task].

    `score` [evaluation, task], `baseline_score` [task, baseline evaluation]. Where AUC_b = 1 the
    value is nan and left out of the mean. Where AUC_b > 1 the equation changes sign, and near 1 it
    is unstable: see `area_gained`. The release divides by AUC_b instead.
    """
    auc, auc_b = _areas(times, score, task_ends, baseline_times, baseline_score)
    perfect = np.abs(1 - auc_b) <= _PERFECT
    per_task = ratio(auc - auc_b, np.where(perfect, 0.0, 1 - auc_b))
    return MetricResult(value=mean_or_nan(per_task[~perfect]), per_task=per_task)


def area_gained(
    times: npt.ArrayLike,
    score: npt.ArrayLike,
    task_ends: npt.ArrayLike,
    baseline_times: npt.ArrayLike,
    baseline_score: npt.ArrayLike,
) -> MetricResult:
    """The numerator of MEAL eq. 3, AUC - AUC_b, which stays meaningful for scores above 1.

    It is the mean difference between the two learning curves; `per_task` [task].
    """
    auc, auc_b = _areas(times, score, task_ends, baseline_times, baseline_score)
    return MetricResult(value=mean_or_nan(auc - auc_b), per_task=auc - auc_b)


def _areas(
    times: npt.ArrayLike,
    score: npt.ArrayLike,
    task_ends: npt.ArrayLike,
    baseline_times: npt.ArrayLike,
    baseline_score: npt.ArrayLike,
) -> tuple[Floats, Floats]:
    """AUC and AUC_b of MEAL eq. 3, both [task]."""
    record = _read(times, score, task_ends)
    times_b = _step_counts("baseline_times", baseline_times, "evaluation")
    score_b = as_floats("baseline_score", baseline_score, "task", "evaluation")
    check_shape(
        "baseline_score",
        score_b,
        (len(record.ends), len(times_b)),
        "one row per task, one column per baseline time",
    )
    spans = list(zip(record.starts, record.ends, strict=True))
    auc = [
        _mean_score(f"task {task}", *_since_known(record, task), start, end)
        for task, (start, end) in enumerate(spans)
    ]
    auc_b = [
        _mean_score(f"the baseline of task {task}", times_b, curve, 0.0, end - start)
        for task, (curve, (start, end)) in enumerate(zip(score_b, spans, strict=True))
    ]
    return np.array(auc), np.array(auc_b)


def _since_known(record: _Record, task: int) -> tuple[Floats, Floats]:
    """Times and scores of a task, without the evaluations before it was added to the run (nan)."""
    known = np.flatnonzero(~np.isnan(record.score[:, task]))
    first = int(known[0]) if len(known) else 0
    return record.times[first:], record.score[first:, task]


def _step_counts(name: str, values: npt.ArrayLike, axis: str) -> Floats:
    steps = as_floats(name, values, axis)
    if not (np.all(np.isfinite(steps)) and steps[0] >= 0 and np.all(np.diff(steps) > 0)):
        raise ValueError(f"{name} must be finite, not negative and strictly increasing")
    return steps


def _read(times: npt.ArrayLike, score: npt.ArrayLike, task_ends: npt.ArrayLike) -> _Record:
    steps = _step_counts("times", times, "evaluation")
    ends = _step_counts("task_ends", task_ends, "task")
    if ends[0] == 0:
        raise ValueError("task_ends must be positive: a run starts at step 0")
    scores = as_floats("score", score, "evaluation", "task")
    check_shape(
        "score", scores, (len(steps), len(ends)), "one row per time, one column per task end"
    )
    return _Record(steps, scores, np.concatenate([[0.0], ends[:-1]]), ends)


def _task_forgetting(record: _Record, task: int, decay: float) -> float:
    start, end = record.starts[task], record.ends[task]
    last = int(np.searchsorted(record.times, end * (1 + _STEP_TOLERANCE), side="right")) - 1
    if last < 0 or record.times[last] <= start * (1 + _STEP_TOLERANCE):
        raise ValueError(f"task {task} has no evaluation during its training ({start:g}, {end:g}]")
    if last + 1 == len(record.times):
        raise ValueError(f"task {task} has no evaluation after its training ended at {end:g}")
    learned = record.score[last, task]
    if learned <= 0:
        return 0.0
    drop = np.maximum(0.0, (learned - record.score[last + 1 :, task]) / learned)
    elapsed = (record.times[last + 1 :] - end) / (record.ends[-1] - end)
    return float(np.average(drop, weights=np.exp(-decay * elapsed)))


def _mean_score(who: str, times: Floats, score: Floats, start: float, end: float) -> float:
    """The normalised AUC: trapezoidal rule over the evaluations in [start, end] / their span.

    The first and last evaluation may be off from start and end by at most their own spacing.
    """
    inside = (times >= start * (1 - _STEP_TOLERANCE)) & (times <= end * (1 + _STEP_TOLERANCE))
    seen = times[inside]
    if len(seen) < 2:
        raise ValueError(f"{who} needs two evaluations in [{start:g}, {end:g}], got {len(seen)}")
    unseen = max(seen[0] - start, end - seen[-1])
    if unseen > np.diff(seen).max() + _STEP_TOLERANCE * end:
        raise ValueError(
            f"{who} is evaluated only from {seen[0]:g} to {seen[-1]:g} of [{start:g}, {end:g}]"
        )
    return float(np.trapezoid(score[inside], seen) / (seen[-1] - seen[0]))

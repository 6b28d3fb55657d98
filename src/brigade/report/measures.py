"""Measures, the columns of tables: a function of what a run recorded, a title and a definition.

A benchmark names the measures it reports; `brigade list measures` shows all of them. Other packages
add measures by entry points. A run folder names measures, but cannot name code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from brigade.metrics import meal, plasticity
from brigade.metrics.coordination import USEFUL, role_collapse
from brigade.metrics.result import Floats, MetricResult, known_mean
from brigade.report.read import RunData

NO_BASELINES = "not computed (add --baselines)"
NO_SUCH_PAIRS = "not known (the run does not say which pairs these are)"
REPEATED = "is not defined for a repeated sequence"
SMOOTHING = 0.05  # width of the Gaussian, as a share of a repetition; the paper gives none


@dataclass(frozen=True)
class Measure:
    """One column of a table."""

    title: str
    compute: Callable[[RunData], Floats | None]  # [seed]; None if the run lacks the data
    short: str = ""  # a few words under the number
    meaning: str = ""  # the exact definition
    better: Literal["higher", "lower", "neither"] = "higher"
    decimals: int = 2
    per_task: Callable[[RunData], Sequence[Floats | None]] | None = None  # [task] of [seed]
    task_title: str = ""  # of its column in the table by task, if different
    curve: Callable[[RunData], Floats] | None = None  # [eval, seed]: the measure over the run
    needs_baselines: bool = False
    unknown: Callable[[RunData], str] = lambda run: ""  # why it is None, if known


# --- continual learning ---


def by_seed(metric: Callable[[Floats], Floats | float | None], score: Floats) -> Floats:
    """Apply a metric of [eval, task] to every seed of `score` [eval, task, seed]; [seed, ...]."""
    return np.array([metric(score[:, :, s]) for s in range(score.shape[2])], dtype=np.float64)


def last_in_training(run: RunData) -> list[int | None]:
    """The index of the last evaluation during every task's training, or None."""
    lasts = np.searchsorted(run.steps, run.task_ends, side="right") - 1
    return [
        int(last) if last >= 0 and run.steps[last] > start else None
        for last, start in zip(lasts, run.task_starts, strict=True)
    ]


def after_training_by_task(run: RunData) -> Sequence[Floats | None]:
    """Scores [seed] at the end of every task's own training; None if it has not ended yet."""
    return [
        None if last is None or run.steps[-1] < end else run.score[last, task]
        for task, (last, end) in enumerate(zip(last_in_training(run), run.task_ends, strict=True))
    ]


def forgetting_by_task(run: RunData) -> Sequence[Floats | None]:
    """MEAL's forgetting [seed] of every task that was evaluated after its training."""
    end = len(run.task_ends) - 1
    lasts = last_in_training(run)
    known = [t for t in range(end) if lasts[t] is not None and lasts[t] != len(run.steps) - 1]
    result: list[Floats | None] = [None] * (end + 1)
    if known:
        # The weights depend on the end of the last task, so it is included: an unfinished run has
        # the weights of the finished one.
        columns = [*known, end]
        lost = by_seed(
            lambda s: meal.forgetting(run.steps, s[:, columns], run.task_ends[columns]).per_task,
            run.score,
        )
        for task, values in zip(known, lost.T, strict=True):
            result[task] = values
    return result


def mean_of_known(rows: Sequence[Floats | None]) -> Floats | None:
    """[seed]: the mean over the tasks that are not None."""
    known = [row for row in rows if row is not None]
    return np.asarray(np.mean(known, axis=0)) if known else None


def transfer(metric: Callable[..., MetricResult], run: RunData) -> Floats:
    """[seed]: a metric that compares a run with its single-task baselines, over finished tasks."""
    ended = int((run.task_ends <= run.steps[-1]).sum())
    baseline = run.arrays["baseline_score"]
    values = [
        metric(
            run.steps,
            run.score[:, :ended, seed],
            run.task_ends[:ended],
            run.arrays["baseline_steps"],
            baseline[:ended, seed],
        ).value
        for seed in range(len(run.seeds))
    ]
    return np.array(values)


def why_no_transfer(run: RunData) -> str:
    """Why a run cannot be compared with single-task baselines; empty if it can."""
    if not {"baseline_steps", "baseline_score"} <= run.arrays.keys():
        return NO_BASELINES
    if run.repetitions > 1:
        return REPEATED
    try:
        transfer(meal.area_gained, run)
    except (ValueError, IndexError) as error:
        return str(error).splitlines()[0]
    return ""


AVERAGE_SCORE = Measure(
    "average score",
    lambda run: by_seed(meal.average_score, run.score),
    "over all tasks, at the last evaluation",
    "The mean over all tasks of the score at the last evaluation (MEAL, equation 1).",
    per_task=lambda run: list(run.score[-1]),
    task_title="at the end",
    # Of the tasks that were evaluated: a run that was extended has none of the new ones before.
    curve=lambda run: np.asarray(np.nanmean(run.score, axis=1)),
)
FORGETTING = Measure(
    "forgetting",
    lambda run: mean_of_known(forgetting_by_task(run)),
    "0: all was kept, 1: all was lost",
    "For every task but the last: (score after training − later score) ÷ score after training, "
    "where a gain counts as 0, averaged over all later evaluations with weights that decay from 1 "
    "to e⁻² at the end of the run; then the mean over tasks (MEAL, equation 2). 0: all was kept, "
    "1: all was lost.",
    "lower",
    per_task=forgetting_by_task,
)
AFTER_TRAINING = Measure(
    "after training",
    lambda run: mean_of_known(after_training_by_task(run)),
    "score at the end of a task's own training",
    "The score of a task at the last evaluation during its own training.",
    per_task=after_training_by_task,
)
FORWARD_TRANSFER = Measure(
    "forward transfer",
    lambda run: None if why_no_transfer(run) else transfer(meal.forward_transfer, run),
    "0: like the single-task baseline, 1: perfect",
    "For every task: (AUC − AUC_b) ÷ (1 − AUC_b), where AUC is the mean score while the task is "
    "trained in the stream and AUC_b that of its single-task baseline; then the mean over tasks "
    "(MEAL, equation 3).",
    needs_baselines=True,
    unknown=why_no_transfer,
)
AREA_GAINED = Measure(
    "area gained",
    lambda run: None if why_no_transfer(run) else transfer(meal.area_gained, run),
    "mean score in training minus the baseline's",
    "AUC − AUC_b, the numerator of forward transfer: the mean distance between the learning curve "
    "of a task in the stream and that of its single-task baseline. Unlike the ratio it stays "
    "meaningful when scores exceed 1.",
    needs_baselines=True,
)
AVERAGE_RETURN = Measure(
    "average return",
    lambda run: np.asarray(run.returns[-1].mean(0)),
    "over all tasks, at the last evaluation",
    "The undiscounted return of an episode, mean over the learner's seats and all tasks, at the "
    "last evaluation.",
)


def of_tasks(title: str, first: Fraction, last: Fraction) -> Measure:
    """Mean score after own training over some of the tasks, between two fractions."""

    def compute(run: RunData) -> Floats | None:
        number = len(run.task_names)
        return mean_of_known(after_training_by_task(run)[int(first * number) : int(last * number)])

    return Measure(title, compute, "score after own training")


SECOND_THIRD = of_tasks("second third of tasks", Fraction(1, 3), Fraction(2, 3))
"""Score after own training, second third of the tasks."""
LAST_THIRD = of_tasks("last third of tasks", Fraction(2, 3), Fraction(1))
"""Score after own training, last third of the tasks."""

# --- plasticity ---


def over_repetitions(
    metric: Callable[[Floats], MetricResult], once: float
) -> Callable[[RunData], Floats | None]:
    """A metric of the training scores [repetition, update] of a task, mean over tasks.

    `once` is its value for a sequence that is not repeated, as in the paper.
    """

    def compute(run: RunData) -> Floats | None:
        if run.repetitions == 1:
            return np.full(len(run.seeds), once)
        _, score = run.logged("score")  # [update, seed]
        visits = run.repetitions * len(run.task_names)
        if len(score) < max(2 * visits, len(run.log)) or len(score) % visits:
            return None  # unfinished, no log, or updates without a score: rows have no task
        per_task = score.reshape(run.repetitions, len(run.task_names), -1, len(run.seeds))
        values = [
            # Over the tasks that scored above 0 in their first repetition; nan if there are none.
            float(known_mean([metric(trace[..., s]).value for trace in per_task.swapaxes(0, 1)]))
            for s in range(len(run.seeds))
        ]
        return np.array(values)

    return compute


def smoothing(reward: Floats) -> float:
    """The width of the Gaussian, in updates."""
    return SMOOTHING * reward.shape[1]


def dormant_units(run: RunData) -> Floats | None:
    """[seed]: the share in the policy, mean over training; None if it was not logged."""
    _, shares = run.logged("dormant")
    return np.asarray(shares.mean(0)) if len(shares) else None


AUC_LOSS = Measure(
    "AUC-loss",
    over_repetitions(lambda r: plasticity.auc_loss(r, smoothing(r)), once=0.0),
    better="lower",
)
"""Area that later repetitions lose (MEAL, equation 4)."""
DORMANT = Measure("dormant", dormant_units, better="lower")
"""Share of dormant units, mean over training."""
FINAL_PERFORMANCE_RATIO = Measure(
    "final ratio",
    over_repetitions(lambda r: plasticity.final_performance_ratio(r, smoothing(r)), once=1.0),
)
"""Final performance to the first (MEAL, equation 5)."""
RAW_AUC_RATIO = Measure("raw AUC ratio", over_repetitions(plasticity.raw_auc_ratio, once=1.0))
"""Area to the first, not smoothed (MEAL, equation 6)."""
PLASTICITY = (AUC_LOSS, FINAL_PERFORMANCE_RATIO, RAW_AUC_RATIO, DORMANT)

# --- coordination ---


def role_collapse_by_seed(run: RunData) -> Floats | None:
    """Role collapse [seed] at the last evaluation, mean over tasks."""
    names = [str(name) for name in run.arrays.get("event_names", ())]
    if not set(USEFUL) <= set(names):
        return None
    events = run.mean("events", "eval", "task", "seed", "player", "kind")[-1]
    return known_mean(role_collapse(events, names))


COLLAPSE = Measure(
    "role collapse",
    role_collapse_by_seed,
    "0: equal work, 1: one seat does all of it",
    "How unequally the seats share the work: (s − 1/n) ÷ (1 − 1/n) for the largest share s of n "
    "seats, at the last evaluation.",
    better="neither",
)

# --- populations and partners ---


def of_pairs(
    title: str,
    which: Callable[[RunData], np.ndarray],
    short: str,
    meaning: str,
    better: Literal["higher", "lower", "neither"] = "higher",
) -> Measure:
    """The mean score over some of the pairs [partner] that evaluations of a population play."""

    def curve(run: RunData) -> Floats:
        score, chosen = run.mean("score", "eval", "partner", "seed"), which(run)
        return np.asarray(score[:, chosen].mean(1) if chosen.any() else np.nan * score[:, 0])

    def compute(run: RunData) -> Floats | None:
        return curve(run)[-1] if which(run).any() else None

    return Measure(
        title, compute, short, meaning, better, curve=curve, unknown=lambda run: NO_SUCH_PAIRS
    )


def own_pairs(run: RunData) -> np.ndarray:
    """[partner] bool: pairs of a partner and its own best response, as its generator says."""
    return run.in_set("own", "partner_names")


def other_pairs(run: RunData) -> np.ndarray:
    """[partner] bool: all other pairs; none if it is not known which are own."""
    own = own_pairs(run)
    return ~own & own.any()


SELF_PLAY = of_pairs(
    "self-play",
    lambda run: np.ones(len(run.partner_names), bool),
    "score with copies of itself, mean over members",
    "The score of every member with copies of itself on all seats, at the last evaluation, mean "
    "over members and tasks.",
)
OWN_PAIRS = of_pairs(
    "own pairs",
    own_pairs,
    "score of partners with their own best response",
    "The score of every partner with the best response trained for it, mean over pairs.",
)
OTHER_PAIRS = of_pairs(
    "other pairs",
    other_pairs,
    "score of partners with others' best responses",
    "The score of every partner with the best responses of the other partners, mean over pairs. It "
    "is low if partners need different best responses.",
    "lower",
)

"""The measures that tables show: a function of what a run recorded, a title, a meaning.

A benchmark names those it is about; `brigade list measures` has all. A package of your own adds one
with an entry point: a folder that travels may name a measure, but not code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from brigade.metrics import meal
from brigade.metrics.coordination import USEFUL, role_collapse
from brigade.metrics.result import Floats, MetricResult
from brigade.report import plasticity
from brigade.report.read import RunData

NO_BASELINES = "needs single-task baselines"
REPEATED = "is not defined for a sequence that is repeated"


@dataclass(frozen=True)
class Measure:
    """One column of a table."""

    title: str
    compute: Callable[[RunData], Floats | None]  # [seed]; None where the run does not tell
    short: str = ""  # a few words under the number
    meaning: str = ""  # for readers who want to know exactly
    better: Literal["higher", "lower", "neither"] = "higher"
    decimals: int = 2
    per_task: Callable[[RunData], Sequence[Floats | None]] | None = None  # [task] of [seed]
    task_title: str = ""  # of its column in a table of tasks, if another
    curve: Callable[[RunData], Floats] | None = None  # [eval, seed]: the measure over the run
    needs_baselines: bool = False
    unknown: Callable[[RunData], str] = lambda run: ""  # why a run does not tell, if it can say


# --- continual learning ---


def by_seed(metric: Callable[[Floats], Floats | float | None], score: Floats) -> Floats:
    """Apply a metric of [eval, task] to every seed of [eval, task, seed]; seeds come first."""
    return np.array([metric(score[:, :, s]) for s in range(score.shape[2])], dtype=np.float64)


def last_in_training(run: RunData) -> list[int | None]:
    """The last evaluation within every task's training, if there is one."""
    lasts = np.searchsorted(run.steps, run.task_ends, side="right") - 1
    return [
        int(last) if last >= 0 and run.steps[last] > start else None
        for last, start in zip(lasts, run.task_starts, strict=True)
    ]


def after_training_by_task(run: RunData) -> Sequence[Floats | None]:
    """Scores [seed] at the end of every task's own training; None where that is still to come."""
    return [
        None if last is None or run.steps[-1] < end else run.score[last, task]
        for task, (last, end) in enumerate(zip(last_in_training(run), run.task_ends, strict=True))
    ]


def forgetting_by_task(run: RunData) -> Sequence[Floats | None]:
    """MEAL's forgetting [seed] of every task that was evaluated after its end."""
    end = len(run.task_ends) - 1
    lasts = last_in_training(run)
    known = [t for t in range(end) if lasts[t] is not None and lasts[t] != len(run.steps) - 1]
    result: list[Floats | None] = [None] * (end + 1)
    if known:
        # With the run's last task as the end of time, weights of an unfinished run are already
        # those of the finished one.
        columns = [*known, end]
        table = by_seed(
            lambda s: meal.forgetting(run.steps, s[:, columns], run.task_ends[columns]).per_task,
            run.score,
        )
        for task, values in zip(known, table.T, strict=True):
            result[task] = values
    return result


def mean_of_known(rows: Sequence[Floats | None]) -> Floats | None:
    """[seed]: over the tasks that are known."""
    known = [row for row in rows if row is not None]
    return np.asarray(np.mean(known, axis=0)) if known else None


def against_learning_alone(
    metric: Callable[..., MetricResult],
) -> Callable[[RunData], Floats | None]:
    """A metric that sets a run beside single-task baselines, over the tasks that have ended."""

    def compute(run: RunData) -> Floats | None:
        if why_no_transfer(run):
            return None
        return transfer(metric, run)

    return compute


def transfer(metric: Callable[..., MetricResult], run: RunData) -> Floats:
    """[seed]."""
    ended = int((run.task_ends <= run.steps[-1]).sum())
    alone = run.arrays["baseline_score"]
    values = [
        metric(
            run.steps,
            run.score[:, :ended, seed],
            run.task_ends[:ended],
            run.arrays["baseline_steps"],
            alone[:ended, seed],
        ).value
        for seed in range(len(run.seeds))
    ]
    return np.array(values)


def why_no_transfer(run: RunData) -> str:
    """Why a run cannot be set beside single-task baselines; empty if it can."""
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
    "The sum of all tasks' scores at the last evaluation, divided by the number of tasks (MEAL, "
    "equation 1).",
    per_task=lambda run: list(run.score[-1]),
    task_title="at the end",
    curve=lambda run: np.asarray(run.score.mean(axis=1)),
)
FORGETTING = Measure(
    "forgetting",
    lambda run: mean_of_known(forgetting_by_task(run)),
    "0: all was kept, 1: all was lost",
    "For every task but the last: (score after training − score later) ÷ score after training, "
    "a gain counting as 0, averaged over all later evaluations with weights that fade from 1 to "
    "e⁻² towards the end of the run; then the mean over tasks (MEAL, equation 2). 0: all was kept, "
    "1: all was lost.",
    "lower",
    per_task=forgetting_by_task,
)
AFTER_TRAINING = Measure(
    "after training",
    lambda run: mean_of_known(after_training_by_task(run)),
    "score when a task's own training ended",
    "The score of a task at the last evaluation of its own training.",
    per_task=after_training_by_task,
)
FORWARD_TRANSFER = Measure(
    "forward transfer",
    against_learning_alone(meal.forward_transfer),
    "0: like training alone, 1: perfect",
    "For every task: (mean score while it was trained − mean score when it is trained alone) ÷ "
    "(1 − mean score when it is trained alone); then the mean over tasks (MEAL, equation 3). It "
    "needs single-task baselines.",
    needs_baselines=True,
    unknown=why_no_transfer,
)
AREA_GAINED = Measure(
    "area gained",
    against_learning_alone(meal.area_gained),
    "mean score while learning, less that of alone",
    "The numerator of forward transfer, which is sound where scores pass 1, too: the mean distance "
    "between the learning curve of a task and that of learning it alone.",
    needs_baselines=True,
)
AVERAGE_RETURN = Measure(
    "average return",
    lambda run: np.asarray(run.returns[-1].mean(0)),
    "over all tasks, at the last evaluation",
    "Raw reward per episode of the learner's seats, mean over seats and tasks, at the last "
    "evaluation.",
)


def of_tasks(title: str, first: Fraction, last: Fraction) -> Measure:
    """Mean score after own training over a part of the tasks, from a fraction to another."""

    def compute(run: RunData) -> Floats | None:
        number = len(run.task_names)
        return mean_of_known(after_training_by_task(run)[int(first * number) : int(last * number)])

    return Measure(title, compute, "score after own training")


SECOND_THIRD = of_tasks("second third of tasks", Fraction(1, 3), Fraction(2, 3))
LAST_THIRD = of_tasks("last third of tasks", Fraction(2, 3), Fraction(1))

# --- plasticity ---

AUC_LOSS = Measure("AUC-loss", plasticity.auc_loss, better="lower")
DORMANT = Measure("dormant", plasticity.dormant, better="lower")
FINAL_PERFORMANCE_RATIO = Measure("final ratio", plasticity.final_performance_ratio)
RAW_AUC_RATIO = Measure("raw AUC ratio", plasticity.raw_auc_ratio)

# --- working together ---


def role_collapse_by_seed(run: RunData) -> Floats | None:
    """How far one player does all the work, at the last evaluation, mean over tasks."""
    names = [str(name) for name in run.arrays.get("event_names", ())]
    if not set(USEFUL) <= set(names):
        return None
    events = run.mean("events", "eval", "task", "seed", "player", "kind")[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nothing useful in any task: nan
        return np.asarray(np.nanmean(role_collapse(events, names), axis=0))


COLLAPSE = Measure(
    "role collapse",
    role_collapse_by_seed,
    "0: all do equally much, 1: one does it all",
    better="neither",
)

# --- populations and partners ---


def of_tables(
    title: str,
    which: Callable[[RunData], np.ndarray],
    short: str,
    meaning: str,
    better: Literal["higher", "lower", "neither"] = "higher",
) -> Measure:
    """The mean score of some of the tables that a population is evaluated at."""

    def curve(run: RunData) -> Floats:
        score = run.mean("score", "eval", "partner", "seed")
        return np.asarray(score[:, which(run)].mean(1))

    return Measure(title, lambda run: curve(run)[-1], short, meaning, better, curve=curve)


def every_table(run: RunData) -> np.ndarray:
    """[partner] bool: all of them."""
    return np.ones(len(run.partner_names), bool)


def own_pairs(run: RunData) -> np.ndarray:
    """[partner] bool: which tables are pairs that belong together, by their names."""
    pairs = [name.partition(" with ") for name in run.partner_names]
    return np.array([a.rpartition("-")[2] == b.rpartition("-")[2] for a, _, b in pairs])


SELF_PLAY = of_tables(
    "self-play",
    every_table,
    "score with copies of itself, mean over members",
    "The score of every member with copies of itself on all seats, mean over members and tasks, at "
    "the last evaluation.",
)
OWN_PAIRS = of_tables(
    "own pairs",
    own_pairs,
    "score of partners with their own best response",
    "The score of every partner with the best response that was trained for it, mean over pairs.",
)
OTHER_PAIRS = of_tables(
    "other pairs",
    lambda run: ~own_pairs(run),
    "score of partners with others' responses",
    "The score of every partner with the best responses of the others, mean over pairs: low when "
    "partners are compatible with their own response only.",
    "lower",
)

"""Measures of a life of partners (Lifelong Hanabi), from what a run recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from brigade.metrics import lifelong_hanabi as lifelong
from brigade.metrics.record import FEW_SHOT_ARRAYS, HELD_OUT_ARRAYS
from brigade.metrics.result import Floats, mean_or_nan
from brigade.report.measures import Measure, after_training_by_task
from brigade.report.read import RunData

SCORE, FEW_SHOT_SCORE = "score", FEW_SHOT_ARRAYS[0]
HELD_OUT_SCORE, HELD_OUT_RETURNS = HELD_OUT_ARRAYS
NO_FEW_SHOT = "not recorded (add --few-shot-updates)"
NO_HELD_OUT = "not known (no such agents are held out)"
UNFINISHED = "not known before the last task has ended, nor for repeated streams"

Curve = Callable[[Floats, int, Floats], Floats]  # (now [task, seed], task, ends [trained, ...])


def of_ends(
    name: str,
    metric: Callable[[Floats], Floats | float],
    curve: Curve,
    title: str,
    short: str,
    meaning: str,
    **more: Any,
) -> Measure:
    """A metric of the scores [trained, partner] at the ends of the tasks, None before the last one.

    Its curve is a function of the scores at an evaluation and after earlier tasks.
    """

    def compute(run: RunData) -> Floats | None:
        if name not in run.arrays or run.steps[-1] < run.task_ends[-1] or run.repetitions > 1:
            return None
        score = run.mean(name, "seed", "eval", "task")
        ends = np.searchsorted(run.steps, run.task_ends)
        return np.array([metric(of_seed[ends]) for of_seed in score], dtype=np.float64)

    def over_the_run(run: RunData) -> Floats:
        if name not in run.arrays:
            return np.full((len(run.steps), len(run.seeds)), np.nan)
        score = run.mean(name, "eval", "task", "seed")
        ends, last = np.searchsorted(run.steps, run.task_ends), len(run.task_ends) - 1
        tasks = (np.searchsorted(run.task_starts, run.steps, side="left") - 1).clip(0, last)
        rows = [curve(now, t, score[ends[:t]]) for now, t in zip(score, tasks, strict=True)]
        return np.stack(rows)

    def why_unknown(run: RunData) -> str:
        return UNFINISHED if name in run.arrays else NO_FEW_SHOT

    return Measure(title, compute, short, meaning, curve=over_the_run, unknown=why_unknown, **more)


def last_average(scores: Floats) -> float:
    """A_T: the mean over all partners at the end."""
    return float(lifelong.average_score(scores)[-1])


def last_forgetting(scores: Floats) -> float:
    """F_T; nan for one partner."""
    return mean_or_nan(lifelong.forgetting(scores)[-1:])


def mean_future(scores: Floats) -> float:
    """The mean of FT_t; nan for one partner."""
    return mean_or_nan(lifelong.future_score(scores))


def average_so_far(now: Floats, task: int, ends: Floats) -> Floats:
    """A_t: the mean over the partners met so far, the current one included."""
    return np.asarray(now[: task + 1].mean(0))


def forgotten(now: Floats, task: int, ends: Floats) -> Floats:
    """F_t: the best score after an earlier task minus the score now; 0 with the first partner."""
    if not task:
        return np.zeros(now.shape[1])
    return np.asarray((ends[:, :task].max(0) - now[:task]).mean(0))


def still_to_come(now: Floats, task: int, ends: Floats) -> Floats:
    """FT_t: the mean over the partners still to come; nan with the last one."""
    later = now[task + 1 :]
    return np.asarray(later.mean(0)) if len(later) else np.full(now.shape[1], np.nan)


def held_out(run: RunData, name: str, which: str) -> Floats | None:
    """[eval, agent, seed]: with a set of held-out agents; None if there are none."""
    if name not in run.arrays:
        return None
    chosen = run.in_set(which, "held_out_names")
    if not chosen.any():
        return None
    values = run.mean(name, "eval", "held_out", "seed")
    return np.asarray(values[:, chosen])


def gained(run: RunData) -> Floats | None:
    """[seed]: GIS, the gain with the held-out agents of all methods."""
    values = held_out(run, HELD_OUT_SCORE, "inter")
    if values is None:
        return None
    seeds = zip(values[0].T, values[-1].T, strict=True)
    return np.array([lifelong.generalization_improvement(*of_seed) for of_seed in seeds])


def last_points(which: str) -> Callable[[RunData], Floats | None]:
    """Mean points with held-out agents at the last evaluation."""

    def compute(run: RunData) -> Floats | None:
        values = held_out(run, HELD_OUT_RETURNS, which)
        return None if values is None else values[-1].mean(0)

    return compute


LIFELONG_AVERAGE = of_ends(
    SCORE,
    last_average,
    average_so_far,
    "average over partners",
    "score with all partners at the end",
    "A_T: the mean score with all partners after the last task (Lifelong Hanabi, equation 1).",
    per_task=lambda run: list(run.score[-1]),
    task_title="at the end",
)
LIFELONG_FORGETTING = of_ends(
    SCORE,
    last_forgetting,
    forgotten,
    "forgetting",
    "loss against the best earlier score",
    "F_T: for every partner but the last, the best score after an earlier task minus the score "
    "after the last one, then the mean (Lifelong Hanabi, equations 2 and 3). Negative if scores "
    "rise.",
    better="lower",
)
FUTURE_SCORE = of_ends(
    SCORE,
    mean_future,
    still_to_come,
    "future score",
    "score with partners still to come",
    "The mean score with the partners that are still to come, after every task but the last, then "
    "the mean over tasks (FT, Lifelong Hanabi, equation 4).",
)
CURRENT_SCORE = of_ends(
    SCORE,
    lambda scores: float(np.diag(scores).mean()),
    lambda now, task, ends: np.asarray(now[task]),
    "current score",
    "with a partner after training with it",
    "The score with every partner at the end of the training with it, then the mean.",
    per_task=after_training_by_task,
    task_title="after training",
)
FEW_SHOT_AVERAGE = of_ends(
    FEW_SHOT_SCORE,
    last_average,
    average_so_far,
    "few-shot average",
    "of clones that adapt first",
    "A_T of clones: a copy of the learner is trained with each partner for a few updates, "
    "evaluated with it and thrown away.",
)
FEW_SHOT_FORGETTING = of_ends(
    FEW_SHOT_SCORE,
    last_forgetting,
    forgotten,
    "few-shot forgetting",
    "of clones that adapt first",
    "F_T of clones that are trained with each partner for a few updates before they are evaluated.",
    better="lower",
)
GENERALISATION = Measure(
    "generalisation",
    gained,
    "gain with agents that were never met",
    "GIS, the generalisation improvement score: the score with held-out agents of all methods at "
    "the end, minus that before the first task (Lifelong Hanabi, equation 5).",
    unknown=lambda run: NO_HELD_OUT,
)
INTRA_PLAY = Measure(
    "intra-play",
    last_points("intra"),
    "points with held-out agents of its method",
    "Intra-CP: mean points with held-out agents that were trained by the learner's method.",
    unknown=lambda run: NO_HELD_OUT,
)
INTER_PLAY = Measure(
    "inter-play",
    last_points("inter"),
    "points with held-out agents of all methods",
    "Inter-CP: mean points with held-out agents of all methods.",
    unknown=lambda run: NO_HELD_OUT,
)

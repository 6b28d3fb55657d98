"""Measures of a life of partners (Lifelong Hanabi), from what a run recorded."""

from __future__ import annotations

from collections.abc import Callable

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


def at_ends(run: RunData, name: str) -> Floats | None:
    """[seed, trained, partner]: scores at the ends of the tasks; None if not all have ended."""
    if name not in run.arrays or run.steps[-1] < run.task_ends[-1] or run.repetitions > 1:
        return None
    score = run.mean(name, "seed", "eval", "task")
    ends = np.searchsorted(run.steps, run.task_ends)
    return np.asarray(score[:, ends])


def of_ends(
    name: str, metric: Callable[[Floats], Floats | float]
) -> Callable[[RunData], Floats | None]:
    """A metric of the scores [trained, partner] of every seed."""

    def compute(run: RunData) -> Floats | None:
        scores = at_ends(run, name)
        if scores is None:
            return None
        return np.array([metric(of_seed) for of_seed in scores], dtype=np.float64)

    return compute


def why_unknown(name: str, missing: str) -> Callable[[RunData], str]:
    """Why a measure of an array is not known."""
    return lambda run: missing if name not in run.arrays else UNFINISHED


def last_average(scores: Floats) -> float:
    """A_T: the mean over all partners at the end."""
    return float(lifelong.average_score(scores)[-1])


def last_forgetting(scores: Floats) -> float:
    """F_T; nan for one partner."""
    return mean_or_nan(lifelong.forgetting(scores)[-1:])


def mean_future(scores: Floats) -> float:
    """The mean of FT_t; nan for one partner."""
    return mean_or_nan(lifelong.future_score(scores))


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


Curve = Callable[[Floats, int, Floats], Floats]  # (now [task, seed], task, ends [trained, ...])


def curve_of(name: str, value: Curve) -> Callable[[RunData], Floats]:
    """A measure at every evaluation [eval, seed], from the scores then and after earlier tasks."""

    def compute(run: RunData) -> Floats:
        if name not in run.arrays:
            return np.full((len(run.steps), len(run.seeds)), np.nan)
        score = run.mean(name, "eval", "task", "seed")
        starts, ends = run.task_starts, np.searchsorted(run.steps, run.task_ends)
        rows = []
        for number, steps in enumerate(run.steps):
            task = int(np.clip(np.searchsorted(starts, steps, side="left") - 1, 0, len(starts) - 1))
            rows.append(value(score[number], task, score[ends[:task]]))
        return np.stack(rows)

    return compute


def average_so_far(now: Floats, task: int, ends: Floats) -> Floats:
    """A_t: the mean over the partners met so far, the current one included."""
    return np.asarray(now[: task + 1].mean(0))


def current(now: Floats, task: int, ends: Floats) -> Floats:
    """The score with the partner in training."""
    return np.asarray(now[task])


def forgotten(now: Floats, task: int, ends: Floats) -> Floats:
    """F_t: the best score after an earlier task minus the score now; 0 with the first partner."""
    if not task:
        return np.zeros(now.shape[1])
    return np.asarray((ends[:, :task].max(0) - now[:task]).mean(0))


def still_to_come(now: Floats, task: int, ends: Floats) -> Floats:
    """FT_t: the mean over the partners still to come; nan with the last one."""
    later = now[task + 1 :]
    return np.asarray(later.mean(0)) if len(later) else np.full(now.shape[1], np.nan)


LIFELONG_AVERAGE = Measure(
    "average over partners",
    of_ends(SCORE, last_average),
    "score with all partners at the end",
    "A_T: the mean score with all partners after the last task (Lifelong Hanabi, equation 1).",
    per_task=lambda run: list(run.score[-1]),
    task_title="at the end",
    curve=curve_of(SCORE, average_so_far),
    unknown=why_unknown(SCORE, UNFINISHED),
)
LIFELONG_FORGETTING = Measure(
    "forgetting",
    of_ends(SCORE, last_forgetting),
    "loss against the best earlier score",
    "F_T: for every partner but the last, the best score after an earlier task minus the score "
    "after the last one, then the mean (Lifelong Hanabi, equations 2 and 3). Negative if scores "
    "rise.",
    "lower",
    curve=curve_of(SCORE, forgotten),
    unknown=why_unknown(SCORE, UNFINISHED),
)
FUTURE_SCORE = Measure(
    "future score",
    of_ends(SCORE, mean_future),
    "score with partners still to come",
    "The mean score with the partners that are still to come, after every task but the last, then "
    "the mean over tasks (FT, Lifelong Hanabi, equation 4).",
    curve=curve_of(SCORE, still_to_come),
    unknown=why_unknown(SCORE, UNFINISHED),
)
CURRENT_SCORE = Measure(
    "current score",
    of_ends(SCORE, lambda scores: float(np.diag(scores).mean())),
    "with a partner after training with it",
    "The score with every partner at the end of the training with it, then the mean.",
    per_task=after_training_by_task,
    task_title="after training",
    curve=curve_of(SCORE, current),
    unknown=why_unknown(SCORE, UNFINISHED),
)
FEW_SHOT_AVERAGE = Measure(
    "few-shot average",
    of_ends(FEW_SHOT_SCORE, last_average),
    "of clones that adapt first",
    "A_T of clones: a copy of the learner is trained with each partner for a few updates, "
    "evaluated with it and thrown away.",
    curve=curve_of(FEW_SHOT_SCORE, average_so_far),
    unknown=why_unknown(FEW_SHOT_SCORE, NO_FEW_SHOT),
)
FEW_SHOT_FORGETTING = Measure(
    "few-shot forgetting",
    of_ends(FEW_SHOT_SCORE, last_forgetting),
    "of clones that adapt first",
    "F_T of clones that are trained with each partner for a few updates before they are evaluated.",
    "lower",
    curve=curve_of(FEW_SHOT_SCORE, forgotten),
    unknown=why_unknown(FEW_SHOT_SCORE, NO_FEW_SHOT),
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

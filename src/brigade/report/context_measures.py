"""Measures of episodes in a row: whether a policy gets better while it plays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from brigade.metrics.record import ROW_AXIS, axes_name
from brigade.metrics.result import Floats
from brigade.report.measures import Measure
from brigade.report.read import RunData

NOT_IN_A_ROW = "not recorded (add --eval-consecutive)"


def in_a_row(run: RunData) -> Floats | None:
    """[eval, episode, seed]: scores of episodes in one context; None if there is one of each."""
    if ROW_AXIS not in run.arrays[axes_name("score")].tolist():
        return None
    return run.mean("score", "eval", ROW_AXIS, "seed")


def first(scores: Floats) -> Floats:
    """The first episode of [eval, episode, seed]."""
    return np.asarray(scores[:, 0])


def last_quarter(scores: Floats) -> Floats:
    """The mean over the last quarter of the episodes."""
    number = -(-scores.shape[1] // 4)
    return np.asarray(scores[:, -number:].mean(1))


def of_episodes(title: str, value: Callable[[Floats], Floats], short: str, meaning: str) -> Measure:
    """A measure of scores [eval, episode, seed], at the last evaluation."""

    def curve(run: RunData) -> Floats:
        scores = in_a_row(run)
        return np.full_like(run.score[:, 0], np.nan) if scores is None else value(scores)

    def compute(run: RunData) -> Floats | None:
        scores = in_a_row(run)
        return None if scores is None else value(scores)[-1]

    return Measure(
        title,
        compute,
        short,
        meaning,
        curve=curve,
        unknown=lambda run: "" if in_a_row(run) is not None else NOT_IN_A_ROW,
    )


FIRST_EPISODE = of_episodes(
    "first episode",
    first,
    "score before anything is known",
    "The score of the first of the episodes that share a context, at the last evaluation, mean "
    "over tasks and partners.",
)
LAST_EPISODES = of_episodes(
    "last episodes",
    last_quarter,
    "score in the last quarter of a context",
    "The mean score over the last quarter of the episodes that share a context, at the last "
    "evaluation, mean over tasks and partners.",
)
ADAPTATION = of_episodes(
    "adaptation",
    lambda scores: last_quarter(scores) - first(scores),
    "last episodes minus the first",
    "The score of the last quarter of the episodes that share a context minus that of the first "
    "episode: what the policy gained by playing, without any gradient step.",
)

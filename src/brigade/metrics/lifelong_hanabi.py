"""Lifelong Hanabi (003), equations 1-5.

`score` [i, j] in [0, 1]: the learner's score with partner j after training with partner i, both in
training order. Tasks t are counted from 1, as in the paper.
"""

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats, as_floats, check_shape


def average_score(score: npt.ArrayLike) -> Floats:
    """Lifelong Hanabi eq. 1: mean over the partners trained with so far, for t = 1..T ([T])."""
    scores = _square(score)
    return np.array([scores[t, : t + 1].mean() for t in range(len(scores))], dtype=np.float64)


def forgetting(score: npt.ArrayLike) -> Floats:
    """Lifelong Hanabi eq. 2-3: mean loss against the best earlier score, for t = 2..T ([T - 1]).

    "Earlier" includes scores before training with a partner; empty for one partner.
    """
    scores = _square(score)
    return np.array(
        [(scores[:t, :t].max(axis=0) - scores[t, :t]).mean() for t in range(1, len(scores))],
        dtype=np.float64,
    )


def future_score(score: npt.ArrayLike) -> Floats:
    """Lifelong Hanabi eq. 4: mean over the partners still to come, for t = 1..T-1 ([T - 1])."""
    scores = _square(score)
    return np.array([scores[t, t + 1 :].mean() for t in range(len(scores) - 1)], dtype=np.float64)


def generalization_improvement(before: npt.ArrayLike, after: npt.ArrayLike) -> float:
    """Lifelong Hanabi eq. 5: mean gain over held-out partners, `before` and `after` [partner].

    The release's set of partners contains one that was used in training; do not use it here.
    """
    first = as_floats("before", before, "partner")
    last = as_floats("after", after, "partner")
    check_shape("after", last, first.shape, "the partners of before")
    return float((last - first).mean())


def _square(score: npt.ArrayLike) -> Floats:
    scores = as_floats("score", score, "trained", "partner")
    check_shape("score", scores, (len(scores), len(scores)), "one row and one column per partner")
    return scores

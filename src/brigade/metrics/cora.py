"""CORA (001), equations 4-5, both times 10: what training on task j did to the return on task i.

`boundary_returns` [boundary, task]: boundary 0 is the start of the run and boundary j + 1 the end
of task j; one cycle of the sequence. `max_returns` [task]: the best return of the same run (the
release takes the maximum over all seeds and cycles instead).
"""

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

_SCALE = 10.0  # the paper's, for tables with one decimal


def isolated_forgetting(
    boundary_returns: npt.ArrayLike, max_returns: npt.ArrayLike
) -> MetricResult:
    """CORA eq. 4: loss on task i while a later task j trains; `matrix` [i, j], mean over i < j.

    A task whose maximum is 0 is nan in the matrix and left out of the mean.
    """
    change, known = _relative_change(boundary_returns, max_returns)
    return _summary(-change, known, np.triu(np.ones(change.shape, dtype=np.bool_), k=1))


def zero_shot_forward_transfer(
    boundary_returns: npt.ArrayLike, max_returns: npt.ArrayLike
) -> MetricResult:
    """CORA eq. 5: gain on task i while an earlier task j trains; `matrix` [i, j], mean over i > j.

    A task whose maximum is 0 is nan in the matrix and left out of the mean.
    """
    change, known = _relative_change(boundary_returns, max_returns)
    return _summary(change, known, np.tril(np.ones(change.shape, dtype=np.bool_), k=-1))


def _relative_change(
    boundary_returns: npt.ArrayLike, max_returns: npt.ArrayLike
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """change[i, j] of task i's return during task j's training, and which i have a scale."""
    best = as_floats("max_returns", max_returns, "task")
    returns = as_floats("boundary_returns", boundary_returns, "boundary", "task")
    check_shape(
        "boundary_returns",
        returns,
        (len(best) + 1, len(best)),
        "one row for the start and for the end of every task, one column per task",
    )
    scale = np.abs(best)[:, None]
    return _SCALE * ratio(np.diff(returns, axis=0).T, scale), scale != 0


def _summary(
    change: Floats, known: npt.NDArray[np.bool_], pairs: npt.NDArray[np.bool_]
) -> MetricResult:
    matrix = np.where(pairs, change, np.nan)
    return MetricResult(value=mean_or_nan(matrix[pairs & known]), matrix=matrix)

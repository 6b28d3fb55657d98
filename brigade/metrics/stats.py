"""Means over seeds with confidence intervals."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from brigade.metrics.result import Floats, as_floats


class MeanAndInterval(NamedTuple):
    """A mean and the half-width of its confidence interval, both without the seed axis."""

    mean: Floats
    half_width: Floats


def mean_and_interval(
    values: npt.ArrayLike, axis: int = 0, confidence: float = 0.95
) -> MeanAndInterval:
    """Mean over the seeds on `axis`, and half-width by Student's t; nan for one seed."""
    array = as_floats("values", values, "...")
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"values must have the seeds on axis {axis}, got shape {array.shape}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    mean = np.asarray(array.mean(axis=axis))
    seeds = array.shape[axis]
    if seeds == 1:
        return MeanAndInterval(mean, np.full(mean.shape, np.nan))
    standard_error = array.std(axis=axis, ddof=1) / np.sqrt(seeds)
    return MeanAndInterval(
        mean, np.asarray(stdtrit(seeds - 1, (1 + confidence) / 2) * standard_error)
    )

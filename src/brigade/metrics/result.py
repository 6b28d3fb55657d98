"""What all metrics share: the result type, input checks, and averages and ratios with nan.

Two rules hold in all modules. The mean of nothing (one task, one repetition) is nan, and so is a
ratio whose denominator is zero. A nan in the data propagates to the results.
"""

import warnings
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)  # no ==: comparing arrays gives no single truth value
class MetricResult:
    """A number and the parts it is the mean of; parts that a metric does not have are None."""

    value: float
    per_task: Floats | None = None  # [task]
    per_repetition: Floats | None = None  # [repetition - 1]; the first repetition is the reference
    matrix: Floats | None = None  # [task, task], nan where the metric is not defined

    def __float__(self) -> float:
        """The value, so that a result can be used as a float."""
        return self.value


def as_floats(name: str, values: npt.ArrayLike, *axes: str) -> Floats:
    """`values` as a float array with the named axes ("...": any), none of them empty."""
    wanted = f"{name} must be a full array of numbers with axes [{', '.join(axes)}]"
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}: {error}") from error
    fits = array.ndim > 0 if axes == ("...",) else array.ndim == len(axes)
    if not fits or array.size == 0:
        raise ValueError(f"{wanted}, got shape {array.shape}")
    return array


def check_shape(name: str, array: Floats, expected: tuple[int, ...], reason: str) -> None:
    """Raise a ValueError unless `array` has the expected shape."""
    if array.shape != expected:
        raise ValueError(f"{name} must have shape {expected} ({reason}), got {array.shape}")


def mean_or_nan(values: Floats) -> float:
    """The mean, or nan (without NumPy's warning) for an empty array."""
    return float(values.mean()) if values.size else float("nan")


def known_mean(values: npt.ArrayLike) -> Floats:
    """The mean over the first axis of what is not nan; nan, without a warning, where all are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmean(np.asarray(values, np.float64), axis=0))


def ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Floats:
    """Element-wise division; nan where the denominator is zero."""
    above, below = np.broadcast_arrays(
        np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    )
    quotient = np.full(above.shape, np.nan)
    np.divide(above, below, out=quotient, where=below != 0)
    return quotient

"""What every metric shares: the result type, the check of its inputs, and safe averages.

Two rules hold in all modules. An average over nothing (one task, one repetition) is nan, and so
is a ratio whose denominator is zero. A nan that came in with the data reaches the value it enters.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)  # no ==: comparing array fields has no single truth value
class MetricResult:
    """One number and the parts it is the mean of; parts that a metric lacks are None."""

    value: float
    per_task: Floats | None = None  # [task]
    per_repetition: Floats | None = None  # [repetition - 1], the first one being the reference
    matrix: Floats | None = None  # [task, task], nan where the metric is not defined

    def __float__(self) -> float:
        """Return the headline number, so that a result can stand where a float is expected."""
        return self.value


def as_floats(name: str, values: npt.ArrayLike, *axes: str) -> Floats:
    """Return `values` as a float array with the named axes ("...": any), none of them empty."""
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
    """Return the mean, or nan (without NumPy's warning) where there is nothing to average."""
    return float(values.mean()) if values.size else float("nan")


def ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Floats:
    """Divide element by element; nan where the denominator is zero."""
    above, below = np.broadcast_arrays(
        np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    )
    quotient = np.full(above.shape, np.nan)
    np.divide(above, below, out=quotient, where=below != 0)
    return quotient

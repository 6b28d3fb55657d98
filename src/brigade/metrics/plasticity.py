"""Loss of plasticity, MEAL (000) appendix F: a task's repetitions compared with its first one.

`reward` [repetition, step] is the training reward of one task. With only one repetition the metrics
are nan, where the paper's Table 8 prints the neutral 0 or 1.
"""

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter1d

from brigade.metrics.result import Floats, MetricResult, as_floats, mean_or_nan, ratio

_EPSILON = 1e-9  # avoids 0 / 0: a layer without any activation is dormant


def auc_loss(reward: npt.ArrayLike, sigma: float = 0.0) -> MetricResult:
    """MEAL eq. 4: 1 - AUC_j / AUC_0 of the smoothed running average; `per_repetition` j = 1...

    `sigma` is the Gaussian's width in steps (0: none). nan where the first AUC is 0.
    """
    return _mean_of(1 - _against_first(_auc(_running_average(reward, sigma))))


def final_performance_ratio(reward: npt.ArrayLike, sigma: float = 0.0) -> MetricResult:
    """MEAL eq. 5: last value of the smoothed running average over the first repetition's.

    `sigma` as in `auc_loss`; nan where the first repetition ends at 0.
    """
    return _mean_of(_against_first(_running_average(reward, sigma)[:, -1]))


def raw_auc_ratio(reward: npt.ArrayLike) -> MetricResult:
    """MEAL eq. 6: AUC_j / AUC_0 of the running average, never smoothed; nan where AUC_0 is 0."""
    return _mean_of(_against_first(_auc(_running_average(reward, sigma=0.0))))


def dormant_ratio(activations: npt.ArrayLike, threshold: float = 0.01) -> float:
    """MEAL appendix F: share of units whose mean |activation| is at most threshold x the layer's.

    `activations` [batch, unit] of one layer; average over layers and seeds outside.
    """
    unit = np.abs(as_floats("activations", activations, "batch", "unit")).mean(axis=0)
    if np.isnan(unit).any():  # a comparison would count nan as active
        return float("nan")
    return float((unit / (unit.mean() + _EPSILON) <= threshold).mean())


def _running_average(reward: npt.ArrayLike, sigma: float) -> Floats:
    trace = as_floats("reward", reward, "repetition", "step")
    steps = trace.shape[1]
    if steps < 2:
        raise ValueError(f"reward needs at least two steps per repetition, got {steps}")
    if not sigma >= 0:
        raise ValueError(f"sigma must be zero or more, got {sigma}")
    if sigma > 0:  # each repetition separately, so that they do not mix
        trace = gaussian_filter1d(trace, sigma, axis=1, mode="nearest")
    return np.cumsum(trace, axis=1) / np.arange(1, steps + 1)


def _auc(curves: Floats) -> Floats:
    return np.asarray(np.trapezoid(curves, axis=1), dtype=np.float64)


def _against_first(values: Floats) -> Floats:
    return ratio(values[1:], values[0])


def _mean_of(per_repetition: Floats) -> MetricResult:
    return MetricResult(value=mean_or_nan(per_repetition), per_repetition=per_repetition)

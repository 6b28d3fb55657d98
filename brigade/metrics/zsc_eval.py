"""ZSC-Eval (002): best-response proximity and best-response diversity."""

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats, as_floats, check_shape, mean_or_nan, ratio

_FEATURE_FLOOR = 1e-3  # avoids 0 / 0 for a feature that is always 0


def br_proximity(
    returns: npt.ArrayLike, best_response_returns: npt.ArrayLike, clip: bool = False
) -> float:
    """BR-Prox: inter-quartile mean of return / best response's return.

    Both arrays have the same shape, with any axes, such as [seed, partner, seat]. Pairs whose best
    response has a return of 0 are left out. `clip` caps ratios at 1, as the release does; the
    release also divides some partners' scores by another candidate's best response.
    """
    reached = as_floats("returns", returns, "...")
    best = as_floats("best_response_returns", best_response_returns, "...")
    check_shape("best_response_returns", best, reached.shape, "one for every return")
    ratios = ratio(reached, best)[best != 0]
    return _inter_quartile_mean(np.minimum(ratios, 1.0) if clip else ratios)


def br_diversity(features: npt.ArrayLike) -> float:
    """BR-Div: determinant of the Gram matrix of `features` [partner, feature] of best responses.

    Every column is first divided by its maximum + 1e-3, as in the release.
    """
    table = as_floats("features", features, "partner", "feature")
    scaled = ratio(table, table.max(axis=0) + _FEATURE_FLOOR)
    return float(np.linalg.det(scaled @ scaled.T))


def _inter_quartile_mean(values: Floats) -> float:
    """Drop a quarter of the values, rounded down, at each end and average the rest."""
    if np.isnan(values).any():  # sorting would move nan to the top and cut it off
        return float("nan")
    cut = values.size // 4
    return mean_or_nan(np.sort(values)[cut : values.size - cut])

"""ICRL4AHT (004), appendix F.4.4: does an agent get better within one rollout?"""

import numpy.typing as npt

from brigade.metrics.result import as_floats


def adaptation_gain(episode_returns: npt.ArrayLike, window: int = 20) -> float:
    """Mean of the last `window` episodes minus that of the first; `episode_returns` [episode].

    The windows must not overlap: shared episodes would pull the gain towards zero.
    """
    returns = as_floats("episode_returns", episode_returns, "episode")
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    if len(returns) < 2 * window:
        raise ValueError(f"two windows of {window} need {2 * window} episodes, got {len(returns)}")
    return float(returns[-window:].mean() - returns[:window].mean())

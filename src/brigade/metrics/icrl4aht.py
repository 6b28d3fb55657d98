"""ICRL4AHT (004), appendix F.4.4: improvement of an agent within one rollout."""

import numpy.typing as npt

from brigade.metrics.result import as_floats


def adaptation_gain(episode_returns: npt.ArrayLike, window: int = 20) -> float:
    """Mean of the last `window` episodes minus that of the first; `episode_returns` [episode].

    With fewer than two windows of episodes the windows overlap, which biases the gain towards 0.
    """
    returns = as_floats("episode_returns", episode_returns, "episode")
    if not 1 <= window <= len(returns):
        raise ValueError(f"window must be from 1 to the {len(returns)} episodes, got {window}")
    return float(returns[-window:].mean() - returns[:window].mean())

"""ICRL4AHT (004): improvement of an agent within one rollout (appendix F.4.4), and how much
policies differ (appendix F.2)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats, as_floats


def adaptation_gain(episode_returns: npt.ArrayLike, window: int = 20) -> float:
    """Mean of the last `window` episodes minus that of the first; `episode_returns` [episode].

    With fewer than two windows of episodes the windows overlap, which biases the gain towards 0.
    """
    returns = as_floats("episode_returns", episode_returns, "episode")
    if not 1 <= window <= len(returns):
        raise ValueError(f"window must be from 1 to the {len(returns)} episodes, got {window}")
    return float(returns[-window:].mean() - returns[:window].mean())


def hamming_distances(actions: npt.ArrayLike) -> Floats:
    """The share of states in which two policies act differently [policy, policy].

    `actions` is [policy, state].
    """
    acted = as_floats("actions", actions, "policy", "state")
    return np.array([(one != acted).mean(axis=1) for one in acted])


def distances_between(
    distances: npt.ArrayLike, families: Sequence[str]
) -> tuple[tuple[str, ...], Floats]:
    """The families, and the mean distance of a policy of one to a policy of another.

    `distances` is [policy, policy]; `families` names the family of each policy. Within a family a
    policy counts as its own partner, too, as in the paper.
    """
    known = as_floats("distances", distances, "policy", "policy")
    names = tuple(dict.fromkeys(families))
    if len(families) != len(known):
        raise ValueError(f"{len(known)} policies have {len(families)} families; name one for each")
    member = np.array(families)[:, None] == np.array(names)  # [policy, family]
    share = member / member.sum(axis=0)
    return names, np.asarray(share.T @ known @ share)

"""ICRL4AHT (004): returns of an agent that plays many episodes beside one teammate in one context.

An *instance* is one teammate in one layout, and its returns are those of consecutive episodes. All
standard deviations are those of a population (ddof 0), as in the release's summaries.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats, as_floats


class Instance(NamedTuple):
    """How the episodes beside one teammate went."""

    mean_return: float
    std_return: float
    stderr_return: float
    min_return: float
    max_return: float
    median_return: float
    success_rate: float  # share of episodes with a return above 0
    auc: float  # the sum of the returns


class Group(NamedTuple):
    """The mean returns of several instances: of a table's cell, a layout, a family or a track."""

    num_tasks: int
    mean_return: float
    std_return: float  # of the instances' means

    @property
    def stderr_return(self) -> float:
        """The standard error of the mean."""
        return self.std_return / float(np.sqrt(self.num_tasks))


def instance(episode_returns: npt.ArrayLike) -> Instance:
    """The figures of one instance; `episode_returns` [episode]."""
    returns = as_floats("episode_returns", episode_returns, "episode")
    std = float(returns.std())
    return Instance(
        mean_return=float(returns.mean()),
        std_return=std,
        stderr_return=std / float(np.sqrt(len(returns))),
        min_return=float(returns.min()),
        max_return=float(returns.max()),
        median_return=float(np.median(returns)),
        success_rate=float((returns > 0).mean()),
        auc=float(returns.sum()),
    )


def group(means: Iterable[float]) -> Group:
    """Several instances together, from their mean returns."""
    values = as_floats("means", list(means), "instance")
    return Group(len(values), float(values.mean()), float(values.std()))


def grouped(keys: Sequence[Hashable], means: Sequence[float]) -> Mapping[Hashable, Group]:
    """The groups of instances with the same key, such as (layout, family)."""
    members: dict[Hashable, list[float]] = {}
    for key, mean in zip(keys, means, strict=True):
        members.setdefault(key, []).append(mean)
    return {key: group(each) for key, each in members.items()}


def adaptation_curve(episode_returns: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation by episode, over instances [instance, episode]."""
    returns = as_floats("episode_returns", episode_returns, "instance", "episode")
    return returns.mean(0), returns.std(0)


def adaptation_gain(episode_returns: npt.ArrayLike, window: int = 20) -> float:
    """Mean of the last `window` episodes minus that of the first; `episode_returns` [episode].

    With fewer than two windows of episodes the windows overlap, which biases the gain towards 0.
    """
    returns = as_floats("episode_returns", episode_returns, "episode")
    if not 1 <= window <= len(returns):
        raise ValueError(f"window must be from 1 to the {len(returns)} episodes, got {window}")
    return float(returns[-window:].mean() - returns[:window].mean())


def headroom(best_response: float, random: float) -> float:
    """What adapting to a teammate can gain, from the mean returns of two egos beside it."""
    return best_response - random


def share_of_headroom(gain: float, best_response: float, random: float) -> float:
    """A gain as a share of the headroom; nan where there is none to speak of (at most 0)."""
    room = headroom(best_response, random)
    return gain / room if room > 0 else float("nan")


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

"""Statistics over seeds and tasks: means, inter-quartile means, improvement, a paired test.

Scores are [seed, ...]: tasks, partners or seats on the other axes are strata, within which a
bootstrap resamples seeds. All random numbers have a fixed seed, so results can be repeated.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from brigade.metrics.result import Floats, as_floats, check_shape, mean_or_nan

EXACT_SEEDS = 16  # up to here the paired test tries all signs; beyond it samples them
SAMPLED_SIGNS = 100_000
Statistic: TypeAlias = Callable[..., Floats]  # of arrays [resample, seed, ...]; [resample]


class MeanAndInterval(NamedTuple):
    """A mean and the half-width of its confidence interval, both without the seed axis."""

    mean: Floats
    half_width: Floats


class Interval(NamedTuple):
    """A statistic and the ends of its confidence interval; nan for one seed."""

    value: float
    low: float
    high: float


class PairedTest(NamedTuple):
    """The mean difference over common seeds, and how surprising it is if there is none."""

    difference: float
    p: float  # two-sided; nan without seeds
    seeds: int


def mean_and_interval(
    values: npt.ArrayLike, axis: int = 0, confidence: float = 0.95
) -> MeanAndInterval:
    """Mean over the seeds on `axis`, and half-width by Student's t; nan for one seed."""
    array = as_floats("values", values, "...")
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"values must have the seeds on axis {axis}, got shape {array.shape}")
    _check_confidence(confidence)
    mean = np.asarray(array.mean(axis=axis))
    seeds = array.shape[axis]
    if seeds == 1:
        return MeanAndInterval(mean, np.full(mean.shape, np.nan))
    standard_error = array.std(axis=axis, ddof=1) / np.sqrt(seeds)
    return MeanAndInterval(
        mean, np.asarray(stdtrit(seeds - 1, (1 + confidence) / 2) * standard_error)
    )


# --- Inter-quartile mean ------------------------------------------------------------------------


def inter_quartile_mean(values: npt.ArrayLike) -> float:
    """Drop a quarter of all values, rounded down, at each end and average the rest."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return float(inter_quartile_means(flat)) if flat.size else mean_or_nan(flat)


def inter_quartile_means(values: Floats) -> Floats:
    """The inter-quartile mean over the last axis; nan where a value is nan."""
    number = values.shape[-1]
    cut = number // 4
    means = np.sort(values, axis=-1)[..., cut : number - cut].mean(axis=-1)
    # Sorting moves nan to the top, where it would be cut off.
    return np.where(np.isnan(values).any(axis=-1), np.nan, means)


def inter_quartile_mean_interval(
    scores: npt.ArrayLike,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    whole_seeds: bool = False,
) -> Interval:
    """Inter-quartile mean of `scores` [seed, ...] with a bootstrap interval."""
    array = as_floats("scores", scores, "...")

    def statistic(drawn: Floats) -> Floats:
        return inter_quartile_means(drawn.reshape(len(drawn), -1))

    low, high = bootstrap(statistic, [array], confidence, resamples, seed, whole_seeds)
    return Interval(inter_quartile_mean(array), low, high)


# --- Comparing two runs -------------------------------------------------------------------------


def probability_of_improvement(
    ours: npt.ArrayLike,
    theirs: npt.ArrayLike,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """How probably a seed of ours [seed, task] beats one of theirs [seed, task] on a random task.

    All pairs of seeds are compared within every task, ties count half, then tasks are averaged. The
    interval is a stratified bootstrap. (Agarwal et al. 2021, "Deep RL at the edge of the
    statistical precipice".)
    """
    first, second = (
        as_floats("ours", ours, "seed", "task"),
        as_floats("theirs", theirs, "seed", "task"),
    )
    check_shape("theirs", second, (len(second), first.shape[1]), "the tasks of ours")
    low, high = bootstrap(_shares_won, [first, second], confidence, resamples, seed)
    return Interval(_share_won(first, second), low, high)


def _shares_won(ours: Floats, theirs: Floats) -> Floats:
    """[resample]; one at a time, because all pairs of seeds need memory."""
    return np.array([_share_won(*pair) for pair in zip(ours, theirs, strict=True)])


def _share_won(ours: Floats, theirs: Floats) -> float:
    """The share of pairs of seeds that ours [seed, task] win."""
    gaps = ours[:, None] - theirs  # [our seed, their seed, task]
    return float(((np.sign(gaps) + 1) / 2).mean())


def paired_test(ours: npt.ArrayLike, theirs: npt.ArrayLike, seed: int = 0) -> PairedTest:
    """Sign-flip permutation test of `ours` [seed] against `theirs` [seed], the same seeds.

    If the runs were alike, every difference could as well have the other sign. `p` is the share of
    all 2^n signs whose mean difference is at least as far from 0; with more than 16 seeds, of
    100,000 random ones and that of the data. Nothing is assumed about how scores are distributed.
    """
    first, second = as_floats("ours", ours, "seed"), as_floats("theirs", theirs, "seed")
    check_shape("theirs", second, first.shape, "a score for every seed of ours")
    gaps, number = first - second, len(first)
    if number <= EXACT_SEEDS:
        signs = np.array(list(product((1.0, -1.0), repeat=number)))
    else:
        drawn = np.random.default_rng(seed).choice((1.0, -1.0), size=(SAMPLED_SIGNS, number))
        signs = np.concatenate([np.ones((1, number)), drawn])
    reached = np.abs(signs @ gaps)
    observed = abs(float(gaps.sum()))
    as_far = reached >= observed - 1e-9 * max(1.0, observed)  # sums differ in their last digits
    p = float("nan") if np.isnan(observed) else float(as_far.mean())
    return PairedTest(float(gaps.mean()), p, number)


def smallest_p(seeds: int) -> float:
    """The smallest p that the paired test can give: all differences have the same sign."""
    return min(1.0, 2.0 ** (1 - seeds)) if seeds <= EXACT_SEEDS else 1 / (SAMPLED_SIGNS + 1)


# --- Bootstrap ----------------------------------------------------------------------------------


def bootstrap(
    statistic: Statistic,
    groups: list[Floats],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    whole_seeds: bool = False,
) -> tuple[float, float]:
    """Percentile interval of a statistic of `groups`, each [seed, ...].

    Seeds are resampled with replacement, within every entry of the other axes (a stratified
    bootstrap) or with all entries of a seed together. If one policy made all entries of a seed, its
    luck is in all of them, and a stratified interval would be too narrow. A group with one seed has
    no interval.
    """
    _check_confidence(confidence)
    if resamples < 1:
        raise ValueError(f"resamples must be 1 or more, got {resamples}")
    if min(map(len, groups)) == 1:
        return (float("nan"), float("nan"))
    rng = np.random.default_rng(seed)
    drawn = [_resampled(rng, group, resamples, whole_seeds) for group in groups]
    low, high = np.quantile(statistic(*drawn), [(1 - confidence) / 2, (1 + confidence) / 2])
    return (float(low), float(high))


def _resampled(
    rng: np.random.Generator, group: Floats, resamples: int, whole_seeds: bool
) -> Floats:
    """[resample, seed, ...]."""
    if whole_seeds:
        return group[rng.integers(len(group), size=(resamples, len(group)))]
    drawn = rng.integers(len(group), size=(resamples, *group.shape))
    return np.take_along_axis(group[None], drawn, axis=1)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")

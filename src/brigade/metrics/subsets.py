"""The most diverse subset of candidates: the rows of a similarity matrix that differ most.

Diversity is the determinant of the subset's rows and columns. Methods: compare all subsets, improve
some of them by swaps, or take the best of many samples of a k-DPP.
"""

from itertools import chain, combinations
from math import comb
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats

Ints: TypeAlias = npt.NDArray[np.intp]

_SAMPLES = {"search": 100, "sample": 100_000}  # k-DPP samples by method; 100,000 as in the release
_EXACT_LIMIT = 200_000  # up to so many subsets, all of them are compared
_RANK_TOLERANCE = 1e-13  # smaller eigenvalues, relative to the largest, are rounding errors
_TIE = 1e-9  # log-determinants that differ by less are equal: the first subset wins
_BATCH_NUMBERS = 4_000_000  # entries of the matrices whose determinants are computed at once
_BATCH_DRAWS = 1_000  # k-DPP samples that are drawn at once


def most_diverse(similarity: Floats, k: int, method: str, samples: int | None, seed: int) -> Ints:
    """Ascending indices of the subset of size `k` with the largest determinant that was found."""
    if method not in _SAMPLES:
        raise ValueError(f"method must be one of {', '.join(_SAMPLES)}, got {method!r}")
    draws = _SAMPLES[method] if samples is None else samples
    if draws < 1:
        raise ValueError(f"samples must be 1 or more, got {draws}")
    independent = min(k, _rank(similarity))
    if independent == 0:
        return np.arange(k)
    best = _best_sample if method == "sample" else _best_by_search
    subset = best(similarity, independent, draws, np.random.default_rng(seed))
    others = np.setdiff1d(np.arange(len(similarity)), subset)
    return np.sort(np.concatenate([subset, others[: k - independent]]))


def determinant(similarity: Floats, subset: Ints) -> float:
    """The determinant of the subset's rows and columns, exactly 0 where they are dependent."""
    part = similarity[np.ix_(subset, subset)]
    return float(np.linalg.det(part)) if _rank(part) == len(subset) else 0.0


def _rank(similarity: Floats) -> int:
    values = np.linalg.eigvalsh(similarity)
    return int((values > _RANK_TOLERANCE * values[-1]).sum()) if values[-1] > 0 else 0


def _best_sample(similarity: Floats, k: int, draws: int, rng: np.random.Generator) -> Ints:
    samples = _k_dpp_samples(similarity, k, draws, rng)
    return _first_best(similarity, np.unique(samples, axis=0))


def _best_by_search(similarity: Floats, k: int, draws: int, rng: np.random.Generator) -> Ints:
    number = comb(len(similarity), k)
    if number <= _EXACT_LIMIT:
        indices = chain.from_iterable(combinations(range(len(similarity)), k))
        return _first_best(similarity, np.fromiter(indices, dtype=np.intp).reshape(number, k))
    samples = np.unique(_k_dpp_samples(similarity, k, draws, rng), axis=0)
    starts = [_greedy(similarity, k), *samples]
    found = [np.sort(_improve(similarity, start)) for start in starts]
    return _first_best(similarity, np.unique(found, axis=0))


def _first_best(similarity: Floats, subsets: Ints) -> Ints:
    """The row of `subsets` [subset, k] with the largest determinant; of equal ones the first."""
    scores = _log_determinants(similarity, subsets)
    return subsets[np.argmax(scores >= scores.max() - _TIE)]


def _log_determinants(similarity: Floats, subsets: Ints) -> Floats:
    """Log-determinant of every row of `subsets` [subset, k]; -inf where it is 0."""
    size = max(1, _BATCH_NUMBERS // subsets.shape[1] ** 2)
    batches = [subsets[start : start + size] for start in range(0, len(subsets), size)]
    results = [np.linalg.slogdet(similarity[b[:, :, None], b[:, None, :]]) for b in batches]
    return np.concatenate([np.where(sign > 0, log, -np.inf) for sign, log in results])


# --- Exchange search ----------------------------------------------------------------------------


def _greedy(similarity: Floats, k: int) -> Ints:
    """Add the candidate that raises the determinant most, `k` times; in order of choice."""
    chosen: list[int] = []
    unexplained = similarity
    for _ in range(k):
        gains = unexplained.diagonal().copy()
        gains[chosen] = -np.inf  # 0 up to rounding
        chosen.append(int(gains.argmax()))
        column = unexplained[:, chosen[-1]]
        unexplained = unexplained - np.outer(column, column) / column[chosen[-1]]
    return np.array(chosen)


def _improve(similarity: Floats, subset: Ints) -> Ints:
    """Make the swap that raises the determinant most, until no swap raises it."""
    score = _log_determinants(similarity, subset[None])[0]
    while True:
        factors = _swap_factors(similarity, subset)
        leaving, joining = np.unravel_index(factors.argmax(), factors.shape)
        swapped = subset.copy()
        swapped[leaving] = joining
        swapped_score = _log_determinants(similarity, swapped[None])[0]
        if not swapped_score > score + _TIE:
            return subset
        subset, score = swapped, swapped_score


def _swap_factors(similarity: Floats, subset: Ints) -> Floats:
    """What each swap multiplies the determinant by, [member, candidate]; 0 for members joining.

    With B the inverse of the subset's matrix A, c the joining candidate's similarities to the
    members and d to itself, the factor is (B c)_i^2 + B_ii (d - c^T B c) for member i.
    """
    inverse = np.linalg.inv(similarity[np.ix_(subset, subset)])
    to_members = similarity[subset]
    weights = inverse @ to_members
    unexplained = similarity.diagonal() - (to_members * weights).sum(axis=0)
    factors = weights**2 + np.outer(inverse.diagonal(), unexplained)
    factors[:, subset] = 0.0
    return factors


# --- k-DPP --------------------------------------------------------------------------------------


def _k_dpp_samples(similarity: Floats, k: int, draws: int, rng: np.random.Generator) -> Ints:
    """Subsets [draw, k], ascending, with probability proportional to their determinant.

    Kulesza and Taskar (2011): sample k eigenvectors, then the projection DPP that they span.
    """
    values, vectors = np.linalg.eigh(similarity)
    positive = values > _RANK_TOLERANCE * values[-1]
    log_values, vectors = np.log(values[positive]), vectors[:, positive]
    samples = []
    for start in range(0, draws, _BATCH_DRAWS):
        chosen = _eigenvector_samples(log_values, k, min(_BATCH_DRAWS, draws - start), rng)
        samples.append(_projection_samples(vectors[:, chosen].swapaxes(0, 1), rng))
    return np.sort(np.concatenate(samples), axis=1)


def _eigenvector_samples(log_values: Floats, k: int, draws: int, rng: np.random.Generator) -> Ints:
    """Sets of `k` eigenvalues [draw, k] with probability proportional to their product."""
    sums = _log_elementary_polynomials(log_values, k)
    taken = np.zeros((draws, len(log_values)), dtype=bool)
    missing = np.full(draws, k)
    for index in reversed(range(len(log_values))):
        log_chance = log_values[index] + sums[index, missing] - sums[index + 1, missing + 1]
        taken[:, index] = rng.random(draws) < np.exp(log_chance)
        missing = missing - taken[:, index]
    return np.nonzero(taken)[1].reshape(draws, k)


def _log_elementary_polynomials(log_values: Floats, k: int) -> Floats:
    """Entry [m, l + 1] is the log of e_l of the first m values; column 0 stands for e_-1 = 0.

    In logs, as products of many eigenvalues overflow or vanish.
    """
    sums = np.full((len(log_values) + 1, k + 2), -np.inf)
    sums[:, 1] = 0.0
    for index, log_value in enumerate(log_values):
        sums[index + 1, 2:] = np.logaddexp(sums[index, 2:], log_value + sums[index, 1:-1])
    return sums


def _projection_samples(vectors: Floats, rng: np.random.Generator) -> Ints:
    """Items [draw, k] of the projection DPPs of orthonormal `vectors` [draw, item, k]."""
    draws, _, k = vectors.shape
    rows = np.arange(draws)
    items = np.empty((draws, k), dtype=np.intp)
    for step in range(k):
        items[:, step] = _weighted_choice((vectors**2).sum(axis=2), rng)
        item_rows = vectors[rows, items[:, step]]
        unit = item_rows / np.linalg.norm(item_rows, axis=1, keepdims=True)
        vectors = vectors - (vectors @ unit[:, :, None]) * unit[:, None, :]
    return items


def _weighted_choice(weights: Floats, rng: np.random.Generator) -> Ints:
    """One column for every row of `weights`, with probability proportional to its weight."""
    cumulative = weights.cumsum(axis=1)
    thresholds = rng.random((len(weights), 1)) * cumulative[:, -1:]
    return (cumulative > thresholds).argmax(axis=1)

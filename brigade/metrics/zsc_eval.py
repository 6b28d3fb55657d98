"""ZSC-Eval (002): best-response proximity and diversity, and the choice of evaluation partners."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats, as_floats, check_shape, mean_or_nan, ratio

Ints: TypeAlias = npt.NDArray[np.intp]
CandidateId: TypeAlias = int | str

_FEATURE_FLOOR = 1e-3  # avoids 0 / 0 for a feature that is always 0
_SAMPLES = {"search": 100, "sample": 100_000}  # k-DPP samples by method; 100,000 as in the release
_EXACT_LIMIT = 200_000  # up to so many subsets, all of them are compared
_RANK_TOLERANCE = 1e-13  # smaller eigenvalues, relative to the largest, are rounding errors
_TIE = 1e-9  # log-determinants that differ by less are equal: the first subset wins
_BATCH_NUMBERS = 4_000_000  # entries of the matrices whose determinants are computed at once
_BATCH_DRAWS = 1_000  # k-DPP samples that are drawn at once


@dataclass(frozen=True, eq=False)
class Selection:
    """The chosen candidates, and what they were chosen from."""

    value: tuple[CandidateId, ...]  # in the order of the candidates
    kept: tuple[CandidateId, ...]  # those with a return above the minimum
    similarity: Floats  # [kept, kept]
    determinant: float  # BR-Div of the chosen, with features scaled over all kept

    def __iter__(self) -> Iterator[CandidateId]:
        """The chosen ids, so that a selection can be used as a sequence."""
        return iter(self.value)


@dataclass(frozen=True, eq=False)
class ProximityTable:
    """BR-Prox of one agent with all partners; every mean is an inter-quartile mean."""

    value: float
    per_seat: Floats  # [seat]
    per_partner: Floats  # [partner]
    interval: tuple[float, float]  # of the value; nan for one seed
    quartiles: tuple[float, float]  # 25 % and 75 % of the ratios
    ratios: Floats  # [seed, partner, seat]

    def __float__(self) -> float:
        """The value, so that a table can be used as a float."""
        return self.value


class DiversityBySize(NamedTuple):
    """BR-Div of two selections of the same candidates, for every size."""

    by_br_div: Floats  # [size], chosen by BR-Div
    by_partner_div: Floats  # [size], chosen by P-Div


# --- Proximity ----------------------------------------------------------------------------------


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


def br_proximity_table(
    returns: npt.ArrayLike,
    best_response_returns: npt.ArrayLike,
    clip: bool = False,
    as_released: bool = False,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> ProximityTable:
    """BR-Prox of `returns` [seed, partner, seat] over `best_response_returns` [partner, seat].

    A best response with a return of 0 or less gives the ratio 1, as in the release; `br_proximity`
    leaves it out. `clip` and `as_released` both cap ratios at 1. The interval is a stratified
    bootstrap: seeds are resampled within every partner and seat.
    """
    reached = as_floats("returns", returns, "seed", "partner", "seat")
    best = as_floats("best_response_returns", best_response_returns, "partner", "seat")
    check_shape("best_response_returns", best, reached.shape[1:], "one for every partner and seat")
    ratios = _proximity_ratios(reached, best, clip or as_released)
    low, high = np.quantile(ratios, [0.25, 0.75])
    return ProximityTable(
        value=_inter_quartile_mean(ratios.ravel()),
        per_seat=_inter_quartile_means(ratios.transpose(2, 0, 1).reshape(ratios.shape[2], -1)),
        per_partner=_inter_quartile_means(ratios.transpose(1, 0, 2).reshape(ratios.shape[1], -1)),
        interval=_bootstrap_interval(ratios, confidence, resamples, seed),
        quartiles=(float(low), float(high)),
        ratios=ratios,
    )


def _proximity_ratios(reached: Floats, best: Floats, capped: bool) -> Floats:
    worthless = (best <= 0) & ~np.isnan(reached)
    ratios = np.where(worthless, 1.0, ratio(reached, best))
    return np.minimum(ratios, 1.0) if capped else ratios


def _bootstrap_interval(
    ratios: Floats, confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    """Percentile interval of the inter-quartile mean; `ratios` [seed, partner, seat]."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if resamples < 1:
        raise ValueError(f"resamples must be 1 or more, got {resamples}")
    if len(ratios) == 1:
        return (float("nan"), float("nan"))
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(ratios), size=(resamples, *ratios.shape))
    resampled = np.take_along_axis(ratios[None], drawn, axis=1)
    means = _inter_quartile_means(resampled.reshape(resamples, -1))
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return (float(low), float(high))


def _inter_quartile_mean(values: Floats) -> float:
    """Drop a quarter of the values, rounded down, at each end and average the rest."""
    return float(_inter_quartile_means(values)) if values.size else mean_or_nan(values)


def _inter_quartile_means(values: Floats) -> Floats:
    """The inter-quartile mean over the last axis; nan where a value is nan."""
    number = values.shape[-1]
    cut = number // 4
    means = np.sort(values, axis=-1)[..., cut : number - cut].mean(axis=-1)
    # Sorting moves nan to the top, where it would be cut off.
    return np.where(np.isnan(values).any(axis=-1), np.nan, means)


# --- Diversity and selection --------------------------------------------------------------------


def br_diversity(features: npt.ArrayLike) -> float:
    """BR-Div: determinant of the Gram matrix of `features` [partner, feature] of best responses.

    Every column is first divided by its maximum + 1e-3, as in the release.
    """
    return float(np.linalg.det(_similarity(as_floats("features", features, "partner", "feature"))))


def partner_diversity(features: npt.ArrayLike) -> float:
    """P-Div: as BR-Div, but `features` [partner, feature] are those of the partners themselves."""
    return br_diversity(features)


def diversity_by_size(
    br_features: npt.ArrayLike,
    partner_features: npt.ArrayLike,
    sizes: Sequence[int],
    method: str = "search",
    samples: int | None = None,
    seed: int = 0,
) -> DiversityBySize:
    """BR-Div of the most diverse subsets by BR-Div and by P-Div, for every size (Figure 2b).

    Both features are [candidate, feature] and scaled over all candidates, so that subsets of the
    same size compare. `method`, `samples` and `seed` are those of `select_partners`.
    """
    best_responses = _finite("br_features", br_features, "candidate", "feature")
    partners = _finite("partner_features", partner_features, "candidate", "feature")
    number = len(best_responses)
    check_shape("partner_features", partners, (number, partners.shape[1]), "a row per candidate")
    if not all(1 <= size <= number for size in sizes):
        raise ValueError(f"sizes must be from 1 to the {number} candidates, got {list(sizes)}")
    target, proxy = _similarity(best_responses), _similarity(partners)
    chosen = [
        [_most_diverse(by, k, method, samples, seed) for k in sizes] for by in (target, proxy)
    ]
    by_br_div, by_partner_div = (
        np.array([_determinant(target, subset) for subset in subsets]) for subsets in chosen
    )
    return DiversityBySize(by_br_div, by_partner_div)


def select_partners(
    candidates: Sequence[CandidateId],
    returns: npt.ArrayLike,
    features: npt.ArrayLike,
    k: int,
    events: Sequence[str] | None = None,
    min_return: float = 10.0,
    method: str = "search",
    samples: int | None = None,
    seed: int = 0,
    strict: bool = False,
) -> Selection:
    """Choose the `k` candidates with the largest BR-Div: the most different best responses.

    `returns` [candidate] are those of a candidate with its best response; only candidates above
    `min_return` are kept. `features` [candidate, feature] are the best response's, and `events` the
    names of those of one seat. If fewer than `k` are kept, all are chosen, or `strict` raises.

    "search" compares all subsets; if there are over 200,000, it improves a greedy subset and
    `samples` k-DPP samples by swaps instead. "sample", as in the paper, takes the best of `samples`
    k-DPP samples. If fewer than `k` rows of features are linearly independent, every determinant is
    0: the best independent ones are chosen, and then the first others.
    """
    ids = [item.item() if isinstance(item, np.generic) else item for item in candidates]
    reached, table = _read_candidates(ids, returns, features, events)
    if k < 1:
        raise ValueError(f"k must be 1 or more, got {k}")
    above = np.flatnonzero(reached > min_return)
    _check_kept(reached, len(above), min_return, k if strict else 1)
    kept = tuple(ids[index] for index in above)
    similarity = _similarity(_finite("features", table[above], "candidate", "feature"))
    subset = _most_diverse(similarity, min(k, len(kept)), method, samples, seed)
    return Selection(
        value=tuple(kept[index] for index in subset),
        kept=kept,
        similarity=similarity,
        determinant=_determinant(similarity, subset),
    )


def _read_candidates(
    ids: list[CandidateId],
    returns: npt.ArrayLike,
    features: npt.ArrayLike,
    events: Sequence[str] | None,
) -> tuple[Floats, Floats]:
    """Returns [candidate] and features [candidate, feature], if all of them fit."""
    repeated = sorted({str(item) for item in ids if ids.count(item) > 1})
    if repeated:
        raise ValueError(f"candidates must differ from each other, got {repeated} more than once")
    reached = _finite("returns", returns, "candidate")
    check_shape("returns", reached, (len(ids),), "one for every candidate")
    table = as_floats("features", features, "candidate", "feature")
    columns = table.shape[1] if events is None else 2 * len(events)
    reason = "a row per candidate"
    if events is not None:
        reason += f"; the {len(events)} events in seat 0, then in seat 1"
    check_shape("features", table, (len(ids), columns), reason)
    return reached, table


def _check_kept(reached: Floats, kept: int, min_return: float, wanted: int) -> None:
    if kept == 0:
        raise ValueError(
            f"none of the {len(reached)} candidates has a return above min_return = "
            f"{min_return:g}: the best has {reached.max():g}"
        )
    if kept < wanted:
        raise ValueError(
            f"k must be at most {kept}, as only {kept} of the {len(reached)} candidates have a "
            f"return above {min_return:g}, got {wanted}"
        )


def _finite(name: str, values: npt.ArrayLike, *axes: str) -> Floats:
    """As `as_floats`, without nan and infinity: a choice, unlike a mean, cannot be nan."""
    array = as_floats(name, values, *axes)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def _similarity(features: Floats) -> Floats:
    """Gram matrix [row, row] of `features`, every column divided by its maximum + 1e-3."""
    scaled = ratio(features, features.max(axis=0) + _FEATURE_FLOOR)
    return scaled @ scaled.T


def _determinant(similarity: Floats, subset: Ints) -> float:
    """The determinant of the subset's rows and columns, exactly 0 where they are dependent."""
    part = similarity[np.ix_(subset, subset)]
    return float(np.linalg.det(part)) if _rank(part) == len(subset) else 0.0


def _rank(similarity: Floats) -> int:
    values = np.linalg.eigvalsh(similarity)
    return int((values > _RANK_TOLERANCE * values[-1]).sum()) if values[-1] > 0 else 0


def _most_diverse(similarity: Floats, k: int, method: str, samples: int | None, seed: int) -> Ints:
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


# --- Partners and ranks -------------------------------------------------------------------------


def expert_and_moderate(partner_returns: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Mask [partner] of the experts: a return with the best response above the median.

    The others are the moderate partners.
    """
    returns = _finite("partner_returns", partner_returns, "partner")
    return returns > np.median(returns)


def half_skill_checkpoint(returns: npt.ArrayLike) -> int:
    """Index of the checkpoint whose return is nearest to half of the last one's.

    `returns` [checkpoint]; the last checkpoint is not considered, and of equally near ones the
    first is taken.
    """
    curve = _finite("returns", returns, "checkpoint")
    if len(curve) < 2:
        raise ValueError("returns must have at least two checkpoints, got 1")
    return int(np.abs(curve[:-1] - curve[-1] / 2).argmin())


def ranks(values: npt.ArrayLike, higher_is_better: bool = True) -> Floats:
    """Ranks over the last axis from 1, the best; ties get their mean rank.

    A nan makes all ranks of its row nan.
    """
    array = as_floats("values", values, "...")
    signed = array if higher_is_better else -array
    better = (signed[..., None, :] > signed[..., :, None]).sum(axis=-1)
    equal = (signed[..., None, :] == signed[..., :, None]).sum(axis=-1)  # counts itself
    unknown = np.isnan(array).any(axis=-1, keepdims=True)
    return np.where(unknown, np.nan, better + (equal + 1) / 2)


def rank_correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Spearman's correlation of `a` and `b`, both [item]; nan if either is constant."""
    first, second = as_floats("a", a, "item"), as_floats("b", b, "item")
    check_shape("b", second, first.shape, "one for every item of a")
    x, y = (ranks(values) - (len(first) + 1) / 2 for values in (first, second))
    return float(ratio(x @ y, np.sqrt((x @ x) * (y @ y))))

"""ZSC-Eval (002): best-response proximity and diversity, and the choice of evaluation partners."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats, as_floats, check_shape, ratio
from brigade.metrics.stats import (
    inter_quartile_mean,
    inter_quartile_mean_interval,
    inter_quartile_means,
)
from brigade.metrics.subsets import determinant, most_diverse

CandidateId: TypeAlias = int | str

_FEATURE_FLOOR = 1e-3  # avoids 0 / 0 for a feature that is always 0


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
    ratios: Floats  # [seed, partner, seat]


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
    return inter_quartile_mean(np.minimum(ratios, 1.0) if clip else ratios)


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
    leaves it out. `clip` and `as_released` both cap ratios at 1. The interval is a bootstrap over
    whole seeds, since one ego plays with all partners on all seats.
    """
    reached = as_floats("returns", returns, "seed", "partner", "seat")
    best = as_floats("best_response_returns", best_response_returns, "partner", "seat")
    check_shape("best_response_returns", best, reached.shape[1:], "one for every partner and seat")
    ratios = _proximity_ratios(reached, best, clip or as_released)
    overall = inter_quartile_mean_interval(ratios, confidence, resamples, seed, whole_seeds=True)
    return ProximityTable(
        value=overall.value,
        per_seat=inter_quartile_means(ratios.transpose(2, 0, 1).reshape(ratios.shape[2], -1)),
        per_partner=inter_quartile_means(ratios.transpose(1, 0, 2).reshape(ratios.shape[1], -1)),
        interval=(overall.low, overall.high),
        ratios=ratios,
    )


def _proximity_ratios(reached: Floats, best: Floats, capped: bool) -> Floats:
    worthless = (best <= 0) & ~np.isnan(reached)
    ratios = np.where(worthless, 1.0, ratio(reached, best))
    return np.minimum(ratios, 1.0) if capped else ratios


# --- Diversity and selection --------------------------------------------------------------------


def br_diversity(features: npt.ArrayLike) -> float:
    """BR-Div: determinant of the Gram matrix of `features` [partner, feature] of best responses.

    Every column is first divided by its maximum + 1e-3, as in the release. With the features of the
    partners themselves it is P-Div.
    """
    return float(np.linalg.det(_similarity(as_floats("features", features, "partner", "feature"))))


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
    chosen = [[most_diverse(by, k, method, samples, seed) for k in sizes] for by in (target, proxy)]
    by_br_div, by_partner_div = (
        np.array([determinant(target, subset) for subset in subsets]) for subsets in chosen
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
    reached, rows = _read_candidates(ids, returns, features, events)
    if k < 1:
        raise ValueError(f"k must be 1 or more, got {k}")
    above = np.flatnonzero(reached > min_return)
    _check_kept(reached, len(above), min_return, k if strict else 1)
    kept = tuple(ids[index] for index in above)
    similarity = _similarity(_finite("features", rows[above], "candidate", "feature"))
    subset = most_diverse(similarity, min(k, len(kept)), method, samples, seed)
    return Selection(
        value=tuple(kept[index] for index in subset),
        kept=kept,
        similarity=similarity,
        determinant=determinant(similarity, subset),
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
    rows = as_floats("features", features, "candidate", "feature")
    columns = rows.shape[1] if events is None else 2 * len(events)
    reason = "a row per candidate"
    if events is not None:
        reason += f"; the {len(events)} events in seat 0, then in seat 1"
    check_shape("features", rows, (len(ids), columns), reason)
    return reached, rows


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


def ranks(values: npt.ArrayLike) -> Floats:
    """Ranks over the last axis from 1, the highest; ties get their mean rank.

    A nan makes all ranks of its row nan.
    """
    array = as_floats("values", values, "...")
    better = (array[..., None, :] > array[..., :, None]).sum(axis=-1)
    equal = (array[..., None, :] == array[..., :, None]).sum(axis=-1)  # counts itself
    unknown = np.isnan(array).any(axis=-1, keepdims=True)
    return np.where(unknown, np.nan, better + (equal + 1) / 2)

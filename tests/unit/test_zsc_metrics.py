"""ZSC-Eval's selection, diversity, proximity and ranks: by hand, or against plain loops."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from math import inf, isnan, nan, prod
from typing import Any

import numpy as np
import pytest
from scipy import stats

from brigade.metrics import subsets, zsc_eval
from brigade.metrics.result import Floats
from brigade.metrics.zsc_eval import select_partners

# Scaled by 1.001 and 2.001: the first two are alike, the third is orthogonal to the first.
FEATURES = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
ORTHOGONAL = (1 / 1.001) ** 2 * (2 / 2.001) ** 2  # the determinant of the first and third


@pytest.fixture(autouse=True)
def no_numpy_warnings() -> Iterator[None]:
    """Undefined values are nan on purpose, so no case may get there through a NumPy warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def never_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search as if there were too many subsets to compare them all."""
    monkeypatch.setattr(subsets, "_EXACT_LIMIT", 0)


def random_features(seed: int, number: int, columns: int) -> Floats:
    """Many small and some large event counts."""
    return np.random.default_rng(seed).gamma(0.4, 5.0, size=(number, columns))


def gram(features: Floats) -> Floats:
    scaled = features / (features.max(axis=0) + 1e-3)
    return scaled @ scaled.T


def all_determinants(similarity: Floats, k: int) -> dict[tuple[int, ...], float]:
    return {
        subset: float(np.linalg.det(similarity[np.ix_(subset, subset)]))
        for subset in combinations(range(len(similarity)), k)
    }


def best_subset(features: Floats, k: int) -> tuple[int, ...]:
    determinants = all_determinants(gram(features), k)
    return max(determinants, key=determinants.__getitem__)


def select(features: Floats, k: int, **options: Any) -> zsc_eval.Selection:
    number = len(features)
    return select_partners(range(number), np.full(number, 100.0), features, k, **options)


# --- Selection ----------------------------------------------------------------------------------


def test_the_partners_with_the_most_different_best_responses_are_selected() -> None:
    selection = select_partners(["a", "b", "c"], [20, 30, 40], FEATURES, k=2)
    assert selection.value == tuple(selection) == ("a", "c")
    assert selection.kept == ("a", "b", "c")
    assert selection.determinant == pytest.approx(ORTHOGONAL)
    assert selection.similarity[0] == pytest.approx([1 / 1.001**2, 1 / 1.001**2, 0.0])


def test_only_returns_above_the_minimum_are_kept() -> None:
    assert select_partners([5, 6, 7], [20, 10, 10.1], FEATURES, k=2).kept == (5, 7)
    assert select_partners([5, 6, 7], [2, 3, 4], FEATURES, k=2, min_return=2.5).kept == (6, 7)


def test_features_are_scaled_over_the_kept_alone() -> None:
    dropped = np.vstack([FEATURES, [1000.0, nan]])
    selection = select_partners([0, 1, 2, 3], [20, 20, 20, 0], dropped, k=2)
    np.testing.assert_array_equal(selection.similarity, select(FEATURES, 2).similarity)


def test_the_ids_come_back_in_the_order_of_the_candidates() -> None:
    selection = select_partners(np.array([9, 3, 1]), [20, 20, 20], FEATURES, k=2)
    assert selection.value == (9, 1)
    assert all(type(found) is int for found in selection)


def test_k_shrinks_to_what_is_kept_unless_strict() -> None:
    inputs = ([1, 2, 3], [20, 0, 20], FEATURES)
    assert select_partners(*inputs, k=3).value == (1, 3)
    assert select_partners(*inputs, k=2, strict=True).value == (1, 3)
    with pytest.raises(ValueError, match=r"k must be at most 2, as only 2 of the 3 .* got 3"):
        select_partners(*inputs, k=3, strict=True)


def test_events_name_the_features_of_both_seats() -> None:
    assert select_partners([1, 2, 3], [20, 20, 20], FEATURES, 2, events=["delivery"]).value == (
        1,
        3,
    )


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_few_subsets_are_all_compared(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(subsets, "_improve")  # no search
    features = random_features(k, 9, 12)
    selection = select(features, k)
    assert selection.value == best_subset(features, k)
    assert selection.determinant == pytest.approx(max(all_determinants(gram(features), k).values()))


@pytest.mark.usefixtures("never_exact")
@pytest.mark.parametrize(("number", "columns", "k"), [(14, 20, 4), (13, 8, 6), (12, 12, 12)])
def test_the_search_finds_the_best_subset_without_comparing_all(
    number: int, columns: int, k: int
) -> None:
    for seed in range(8):
        features = random_features(seed, number, columns)
        assert select(features, k, samples=10).value == best_subset(features, k)


def test_determinants_in_batches_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    features = random_features(0, 9, 12)
    monkeypatch.setattr(subsets, "_BATCH_NUMBERS", 9 * 5)  # 5 subsets of 3 at once, of 84
    assert select(features, 3).value == best_subset(features, 3)


@pytest.mark.parametrize("method", ["search", "sample"])
def test_of_equal_candidates_the_first_is_selected(method: str) -> None:
    for seed in range(10):  # the determinants of equal subsets differ by rounding
        features = np.tile(random_features(seed, 4, 7), (2, 1))
        assert select(features, 4, method=method, samples=500).value == (0, 1, 2, 3)


@pytest.mark.parametrize("method", ["search", "sample"])
def test_too_few_independent_features_give_the_best_of_them_and_the_first_others(
    method: str,
) -> None:
    # Two features allow two independent rows. The best pair is 1 and 3; 0 is filled in.
    features = np.array([[1.1, 1.3], [2.0, 0.1], [1.0, 1.5], [0.3, 2.0]])
    selection = select(features, 3, method=method, samples=200)
    assert selection.value == (0, 1, 3)
    assert selection.determinant == 0.0


def test_dependent_features_have_a_determinant_of_exactly_0() -> None:
    assert all(select(random_features(s, 5, 2), 3).determinant == 0.0 for s in range(5))


@pytest.mark.parametrize("method", ["search", "sample"])
def test_without_any_event_the_first_candidates_are_selected(method: str) -> None:
    selection = select(np.zeros((4, 3)), 2, method=method)
    assert selection.value == (0, 1)
    assert selection.determinant == 0.0


@pytest.mark.usefixtures("never_exact")
def test_the_search_copes_with_too_few_independent_features() -> None:
    features = random_features(3, 12, 4)
    best = best_subset(features, 4)
    first_others = [index for index in range(12) if index not in best][:2]
    assert select(features, 6).value == tuple(sorted([*best, *first_others]))


# --- Exchange search ----------------------------------------------------------------------------


def test_swap_factors_are_ratios_of_determinants() -> None:
    similarity = gram(random_features(1, 7, 9))
    subset = np.array([5, 0, 2])
    factors = subsets._swap_factors(similarity, subset)
    before = np.linalg.det(similarity[np.ix_(subset, subset)])
    for member, joining in np.ndindex(3, 7):
        swapped = subset.copy()
        swapped[member] = joining
        after = 0.0 if joining in subset else np.linalg.det(similarity[np.ix_(swapped, swapped)])
        assert factors[member, joining] == pytest.approx(after / before)


def test_after_the_exchange_search_no_swap_raises_the_determinant() -> None:
    similarity = gram(random_features(2, 10, 12))
    start = np.array([0, 1, 2, 3])
    found = set(subsets._improve(similarity, start).tolist())
    determinants = all_determinants(similarity, 4)
    neighbours = [subset for subset in determinants if len(found & set(subset)) == 3]
    assert len(neighbours) == 24
    reached = determinants[tuple(sorted(found))]
    assert reached > determinants[0, 1, 2, 3]
    assert reached >= max(determinants[subset] for subset in neighbours)


def test_the_greedy_start_adds_the_best_candidate_each_time() -> None:
    similarity = gram(random_features(4, 8, 10))
    chosen: list[int] = []
    for _ in range(4):
        rest = [index for index in range(8) if index not in chosen]
        gains = [np.linalg.det(similarity[np.ix_([*chosen, i], [*chosen, i])]) for i in rest]
        chosen.append(rest[int(np.argmax(gains))])
    assert subsets._greedy(similarity, 4).tolist() == chosen


# --- k-DPP --------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [10, 3], ids=["full rank", "rank 3"])
def test_the_k_dpp_samples_subsets_by_their_determinant(columns: int) -> None:
    similarity = gram(random_features(5, 6, columns))
    draws = 20_000
    samples = subsets._k_dpp_samples(similarity, 3, draws, np.random.default_rng(0))
    counts = Counter(tuple(row) for row in samples.tolist())
    determinants = all_determinants(similarity, 3)
    assert set(counts) <= set(determinants)  # ascending, without repetition
    total = sum(determinants.values())
    expected = {subset: draws * det / total for subset, det in determinants.items()}
    distance = sum(abs(counts[subset] - expected[subset]) for subset in expected) / 2 / draws
    assert distance < 0.02
    often = [subset for subset in expected if expected[subset] > 5]
    chi_square = sum((counts[s] - expected[s]) ** 2 / expected[s] for s in often)
    assert stats.chi2.sf(chi_square, len(often) - 1) > 0.01


@pytest.mark.parametrize("factor", [2.0**600, 2.0**-600])
def test_the_k_dpp_takes_very_large_and_very_small_similarities(factor: float) -> None:
    similarity = gram(random_features(6, 8, 10))  # the determinants leave the range of floats
    plain = subsets._k_dpp_samples(similarity, 4, 50, np.random.default_rng(1))
    scaled = subsets._k_dpp_samples(similarity * factor, 4, 50, np.random.default_rng(1))
    np.testing.assert_array_equal(scaled, plain)


def test_elementary_symmetric_polynomials_by_hand() -> None:
    # Of 1, 2, 3: e_1 = 6, e_2 = 2 + 3 + 6 = 11, e_3 = 6. Of 1, 2: 3, 2 and 0.
    table = np.exp(subsets._log_elementary_polynomials(np.log([1.0, 2.0, 3.0]), 3))
    assert table[3] == pytest.approx([0, 1, 6, 11, 6])
    assert table[2] == pytest.approx([0, 1, 3, 2, 0])


def test_eigenvectors_are_sampled_by_the_product_of_their_values() -> None:
    values = [0.5, 1.0, 2.0, 4.0]
    chosen = subsets._eigenvector_samples(np.log(values), 2, 20_000, np.random.default_rng(2))
    counts = Counter(tuple(row) for row in chosen.tolist())
    products = {pair: prod(values[i] for i in pair) for pair in combinations(range(4), 2)}
    for pair, product in products.items():
        assert counts[pair] / 20_000 == pytest.approx(product / sum(products.values()), abs=0.01)


def test_more_samples_than_fit_one_batch_are_all_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subsets, "_BATCH_DRAWS", 4)
    similarity = gram(random_features(7, 6, 8))
    samples = subsets._k_dpp_samples(similarity, 2, 10, np.random.default_rng(3))
    assert samples.shape == (10, 2)


def test_sampling_keeps_the_best_of_its_samples() -> None:
    features = random_features(8, 8, 10)
    assert select(features, 3, method="sample", samples=2000).value == best_subset(features, 3)
    single = {select(features, 3, method="sample", samples=1, seed=s).value for s in range(10)}
    assert len(single) > 1  # one sample is not yet the best


@pytest.mark.usefixtures("never_exact")
@pytest.mark.parametrize("method", ["search", "sample"])
def test_the_same_seed_gives_the_same_selection(method: str) -> None:
    features = random_features(9, 20, 24)
    first, second = (select(features, 6, method=method, samples=3, seed=4) for _ in range(2))
    assert first.value == second.value


# --- Diversity ----------------------------------------------------------------------------------


def test_diversity_is_the_determinant_of_the_scaled_gram_matrix() -> None:
    assert zsc_eval.br_diversity([[1, 0], [0, 2]]) == pytest.approx(ORTHOGONAL)


def test_diversity_by_size_compares_both_choices_by_br_div() -> None:
    # By P-Div the first two partners are chosen, whose best responses are the same.
    partners = np.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.3]])
    best_responses = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    result = zsc_eval.diversity_by_size(best_responses, partners, sizes=[1, 2, 3])
    assert result.by_br_div == pytest.approx([(2 / 2.001) ** 2, ORTHOGONAL, 0.0])
    assert result.by_partner_div == pytest.approx([(1 / 1.001) ** 2, 0.0, 0.0])


def test_diversity_by_size_equals_brute_force() -> None:
    best_responses, partners = random_features(10, 9, 8), random_features(11, 9, 6)
    sizes = (5, 2, 3)
    result = zsc_eval.diversity_by_size(best_responses, partners, sizes)
    for size, by_br_div, by_partner_div in zip(sizes, *result, strict=True):
        determinants = all_determinants(gram(best_responses), size)
        assert by_br_div == pytest.approx(max(determinants.values()))
        assert by_partner_div == pytest.approx(determinants[best_subset(partners, size)])


def test_diversity_by_size_can_use_the_papers_sampling() -> None:
    features = random_features(12, 9, 8), random_features(13, 9, 6)
    sampled = zsc_eval.diversity_by_size(*features, [3], method="sample", samples=1, seed=0)
    assert sampled.by_br_div < zsc_eval.diversity_by_size(*features, [3]).by_br_div


# --- Proximity ----------------------------------------------------------------------------------

# Two seeds, two partners, two seats. Ratios: .5, 1 and 1.5, .25 (partner 0); .1, .8 and .3, .6.
RETURNS = [[[5, 20], [1, 4]], [[15, 5], [3, 3]]]
BEST = [[10, 20], [10, 5]]


def test_the_proximity_table_by_hand() -> None:
    table = zsc_eval.br_proximity_table(RETURNS, BEST)
    # Sorted: .1 .25 .3 .5 .6 .8 1 1.5; two are cut at each end.
    assert table.value == pytest.approx((0.3 + 0.5 + 0.6 + 0.8) / 4)
    # Four values each, of which one is cut at each end.
    assert table.per_seat == pytest.approx([(0.3 + 0.5) / 2, (0.6 + 0.8) / 2])
    assert table.per_partner == pytest.approx([(0.5 + 1) / 2, (0.3 + 0.6) / 2])
    assert table.ratios == pytest.approx(
        np.array([[[0.5, 1], [0.1, 0.8]], [[1.5, 0.25], [0.3, 0.6]]])
    )


@pytest.mark.parametrize("option", ["clip", "as_released"])
def test_ratios_can_be_capped_at_1(option: str) -> None:
    table = zsc_eval.br_proximity_table([[[5, 30]]], [[10, 10]], **{option: True})
    assert table.value == pytest.approx(0.75)
    assert zsc_eval.br_proximity_table([[[5, 30]]], [[10, 10]]).value == pytest.approx(1.75)


@pytest.mark.parametrize("worthless", [0, -20])
def test_a_best_response_worth_nothing_counts_as_reached(worthless: float) -> None:
    table = zsc_eval.br_proximity_table([[[5, 30]]], [[10, worthless]])
    assert table.ratios.tolist() == [[[0.5, 1.0]]]


def test_a_missing_return_makes_its_means_nan() -> None:
    table = zsc_eval.br_proximity_table([[[1, nan]], [[1, 1]]], [[2, 0]])
    assert isnan(table.value)
    assert isnan(table.interval[0])
    np.testing.assert_array_equal(table.per_seat, [0.5, nan])


def test_one_seed_has_no_interval() -> None:
    assert all(isnan(end) for end in zsc_eval.br_proximity_table([[[5, 6]]], [[10, 10]]).interval)


def test_an_ego_is_resampled_with_all_its_partners_and_seats() -> None:
    # Two egos with means 0.25 and 0.75: 1, 2, 1 in 4. Within each partner, the mean of the middle
    # two of four fair coins would be 0, .5 or 1 with chance 5, 6, 5 in 16.
    returns, best = [[[0], [0.5]], [[1], [0.5]]], [[1], [1]]
    narrow, wide = (
        zsc_eval.br_proximity_table(returns, best, confidence=confidence, resamples=5000).interval
        for confidence in (0.44, 0.56)
    )
    assert narrow == (0.5, 0.5)
    assert wide == (0.25, 0.75)


def test_the_interval_agrees_with_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(14)
    ratios = rng.uniform(0, 1.2, size=(5, 4, 2))
    values = []
    for _ in range(2000):
        drawn = [ratios[rng.integers(5)].ravel() for _ in range(5)]
        values.append(np.sort(np.concatenate(drawn))[10:30].mean())  # 40 values, 10 cut
    for confidence in (0.95, 0.5):
        table = zsc_eval.br_proximity_table(ratios, np.ones((4, 2)), confidence=confidence)
        tail = 50 * (1 - confidence)
        assert table.interval == pytest.approx(np.percentile(values, [tail, 100 - tail]), abs=0.015)


def test_the_interval_depends_on_the_seed_alone() -> None:
    ratios = np.random.default_rng(15).uniform(size=(5, 4, 2))
    first, again, other = (
        zsc_eval.br_proximity_table(ratios, np.ones((4, 2)), seed=seed).interval
        for seed in (1, 1, 2)
    )
    assert first == again != other


# --- Partners and ranks -------------------------------------------------------------------------


def test_experts_are_above_the_median() -> None:
    assert zsc_eval.expert_and_moderate([4, 1, 3, 2]).tolist() == [True, False, True, False]
    assert zsc_eval.expert_and_moderate([1, 2, 300, 3]).tolist() == [False, False, True, True]
    assert zsc_eval.expert_and_moderate([1, 2, 3]).tolist() == [False, False, True]
    assert zsc_eval.expert_and_moderate([5, 5, 5]).tolist() == [False, False, False]


def test_the_best_has_rank_1_and_ties_share_their_mean_rank() -> None:
    assert zsc_eval.ranks([10, 30, 20, 20]).tolist() == [4, 1, 2.5, 2.5]


def test_ranks_equal_scipys_in_every_row() -> None:
    values = np.random.default_rng(16).integers(0, 6, size=(5, 12))
    expected = stats.rankdata(-values, axis=-1)
    np.testing.assert_array_equal(zsc_eval.ranks(values), expected)


def test_a_missing_value_leaves_its_row_without_ranks() -> None:
    np.testing.assert_array_equal(zsc_eval.ranks([[1, nan], [1, 2]]), [[nan, nan], [2, 1]])


def test_the_half_skill_checkpoint_is_nearest_to_half_of_the_last_return() -> None:
    assert zsc_eval.half_skill_checkpoint([0, 1, 7, 9, 12]) == 2
    assert zsc_eval.half_skill_checkpoint([0, 4, 6, 10]) == 1  # as near as 6, and earlier
    assert zsc_eval.half_skill_checkpoint([8, 5, 0]) == 1  # the last itself would be nearer
    assert zsc_eval.half_skill_checkpoint([0, 2, 5, 10, 4]) == 1  # the last, not the best


# --- Refusals -----------------------------------------------------------------------------------

RETURNS_3 = [20.0, 20.0, 20.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: select(FEATURES, 0), "k must be 1 or more, got 0"),
        (
            lambda: select_partners([1, 2, 3], [3, 9.5, 10], FEATURES, 2),
            "none of the 3 candidates has a return above min_return = 10: the best has 10",
        ),
        (
            lambda: select_partners([1, 2, 2], RETURNS_3, FEATURES, 2),
            r"candidates must differ from each other, got \['2'\] more than once",
        ),
        (
            lambda: select_partners([1, 2], RETURNS_3, FEATURES, 2),
            r"returns must have shape \(2,\) \(one for every candidate\), got \(3,\)",
        ),
        (
            lambda: select_partners([1, 2, 3], RETURNS_3, FEATURES[:2], 2),
            r"features must have shape \(3, 2\) \(a row per candidate\), got \(2, 2\)",
        ),
        (
            lambda: select_partners([1, 2, 3], RETURNS_3, FEATURES, 2, events=["stay", "delivery"]),
            r"features must have shape \(3, 4\) .* 2 events in seat 0, then in seat 1\), got",
        ),
        (lambda: select_partners([], [], [], 2), "returns must be a full array"),
        (lambda: select_partners([1], [nan], [[1]], 1), "returns must be finite, got nan"),
        (lambda: select_partners([1], [20], [[inf]], 1), "features must be finite, got inf"),
        (
            lambda: select(FEATURES, 2, method="dpp"),
            "method must be one of search, sample, got 'dpp'",
        ),
        (lambda: select(FEATURES, 2, samples=0), "samples must be 1 or more, got 0"),
        (lambda: zsc_eval.br_diversity([1, 2]), r"features must .* \[partner, feature\]"),
        (
            lambda: zsc_eval.diversity_by_size(FEATURES, FEATURES[:2], [1]),
            r"partner_features must have shape \(3, 2\)",
        ),
        (
            lambda: zsc_eval.diversity_by_size(FEATURES, FEATURES, [2, 4]),
            r"sizes must be from 1 to the 3 candidates, got \[2, 4\]",
        ),
        (
            lambda: zsc_eval.diversity_by_size(FEATURES, FEATURES, [0]),
            r"sizes must be from 1 to the 3 candidates, got \[0\]",
        ),
        (
            lambda: zsc_eval.br_proximity_table([[1, 2]], [[1, 2]]),
            r"returns must .* \[seed, partner, seat\]",
        ),
        (
            lambda: zsc_eval.br_proximity_table(RETURNS, [[1, 2]]),
            r"best_response_returns must have shape \(2, 2\)",
        ),
        (
            lambda: zsc_eval.br_proximity_table(RETURNS, BEST, confidence=95),
            "confidence must lie between 0 and 1, got 95",
        ),
        (
            lambda: zsc_eval.br_proximity_table(RETURNS, BEST, resamples=0),
            "resamples must be 1 or more, got 0",
        ),
        (lambda: zsc_eval.expert_and_moderate([1, nan]), "partner_returns must be finite"),
        (lambda: zsc_eval.half_skill_checkpoint([1]), "returns must have at least two checkpoints"),
        (lambda: zsc_eval.half_skill_checkpoint([nan, 1]), "returns must be finite, got nan"),
        (lambda: zsc_eval.ranks([]), "values must be a full array"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_one_clear_line(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)

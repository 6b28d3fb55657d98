"""Statistics over seeds and tasks, against hand-worked numbers and SciPy."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from brigade.metrics.stats import (
    bootstrap,
    inter_quartile_mean,
    inter_quartile_mean_interval,
    paired_test,
    probability_of_improvement,
    smallest_p,
)

RNG = np.random.default_rng(5)
OURS = RNG.normal(1.0, 0.3, size=(6, 4))  # [seed, task]
THEIRS = RNG.normal(0.8, 0.3, size=(5, 4))


def test_the_inter_quartile_mean_drops_a_quarter_at_each_end():
    assert inter_quartile_mean([[100, 1], [2, 3], [4, 5], [6, -100]]) == 3.5  # of 2, 3, 4, 5
    trimmed = scipy_stats.trim_mean(OURS.ravel(), 0.25)
    assert inter_quartile_mean(OURS) == pytest.approx(trimmed)
    assert np.isnan(inter_quartile_mean([]))
    assert np.isnan(inter_quartile_mean([1.0, 2.0, 3.0, np.nan]))


def test_a_bootstrap_resamples_seeds_within_their_task():
    """Tasks with other scores but equal seeds give an interval of no width."""
    alike = np.tile([0.0, 0.5, 2.0, 5.0], (3, 1))
    assert inter_quartile_mean_interval(alike) == (1.25, 1.25, 1.25)
    assert np.isnan(inter_quartile_mean_interval(alike[:1])[1:]).all()


def test_the_bootstrap_agrees_with_scipys():
    """One stratum, the mean: SciPy's percentile bootstrap, up to what random numbers differ."""
    scores = OURS[:, :1]
    low, high = bootstrap(lambda drawn: drawn.mean(axis=(1, 2)), [scores], resamples=9999)
    found = scipy_stats.bootstrap(
        (scores[:, 0],), np.mean, n_resamples=9999, method="percentile", rng=0
    ).confidence_interval
    assert (low, high) == pytest.approx((found.low, found.high), abs=0.01)
    assert inter_quartile_mean_interval(OURS) == inter_quartile_mean_interval(OURS)


def test_the_probability_of_improvement_counts_pairs_of_seeds():
    # Task 1: 2 beats 1 and ties 2, 3 beats both: 3.5 of 4. Task 2: all lost.
    found = probability_of_improvement([[2, 0], [3, 0]], [[1, 1], [2, 1]])
    assert found.value == pytest.approx(3.5 / 8)
    assert found.low <= found.value <= found.high
    u = [scipy_stats.mannwhitneyu(a, b).statistic for a, b in zip(OURS.T, THEIRS.T, strict=True)]
    ours = probability_of_improvement(OURS, THEIRS)
    assert ours.value == pytest.approx(np.mean(u) / (len(OURS) * len(THEIRS)))
    theirs = probability_of_improvement(THEIRS, OURS)
    assert theirs.value == pytest.approx(1 - ours.value)
    assert probability_of_improvement(OURS, OURS).value == pytest.approx(0.5)
    assert probability_of_improvement(OURS + 9, THEIRS) == (1.0, 1.0, 1.0)
    assert np.isnan(probability_of_improvement(OURS, THEIRS[:1]).low)
    with pytest.raises(ValueError, match="the tasks of ours"):
        probability_of_improvement(OURS, THEIRS[:, :2])


def test_the_paired_test_flips_signs():
    # Differences 1, 2, 3: only all + and all - reach a sum of 6, of eight.
    found = paired_test([2, 4, 6], [1, 2, 3])
    assert found == (2.0, 0.25, 3)
    # Differences 3, -1, 1: sums of size 3 or more are ±5 (twice), ±3 (four times): 6 of 8.
    assert paired_test([3, 0, 1], [0, 1, 0]).p == pytest.approx(6 / 8)
    assert paired_test([1, 2], [1, 2]).p == 1.0
    assert paired_test([1], [0]) == (1.0, 1.0, 1)


@pytest.mark.parametrize("number", [5, 8])
def test_the_paired_test_is_scipys_permutation_test(number):
    first, second = RNG.normal(0.5, 1, number), RNG.normal(0, 1, number)
    found = scipy_stats.permutation_test(
        (first, second),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    ours = paired_test(first, second)
    assert (ours.difference, ours.p) == pytest.approx((found.statistic, found.pvalue))


def test_many_seeds_are_sampled_and_few_cannot_be_significant():
    first = np.concatenate([np.full(15, 1.0), np.full(5, -1.0)])
    # A sum of 10 or more of 20 coins: twice the probability of 15 or more heads.
    exact = 2 * scipy_stats.binom.sf(14, 20, 0.5)
    assert paired_test(first, np.zeros(20)).p == pytest.approx(exact, abs=0.002)
    assert [smallest_p(n) for n in (1, 2, 5, 6)] == [1.0, 0.5, 0.0625, 0.03125]
    assert np.isnan(paired_test([1.0, np.nan], [0.0, 0.0]).p)

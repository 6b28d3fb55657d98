"""Metrics worked out by hand, their edge cases, and what they refuse."""

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from math import e, isnan, nan
from pathlib import Path

import numpy as np
import pytest

from brigade.metrics import cora, icrl4aht, lifelong_hanabi, meal, plasticity, zsc_eval
from brigade.metrics.stats import mean_and_interval

ROOT = Path(__file__).parents[2]

# Two tasks of 100 steps. Task 0 ends at .8 and falls to .6 and .2 afterwards.
TIMES = [0, 50, 100, 150, 200]
SCORE = np.array([[0.0, 0.0], [0.5, 0.1], [0.8, 0.2], [0.6, 0.6], [0.2, 0.6]])
ENDS = [100, 200]


@pytest.fixture(autouse=True)
def no_numpy_warnings() -> Iterator[None]:
    """Undefined values are nan on purpose, so no case may get there through a NumPy warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- MEAL ---------------------------------------------------------------------------------------


def test_the_average_score_is_taken_at_the_last_evaluation() -> None:
    assert meal.average_score(SCORE) == pytest.approx(0.4)  # (.2 + .6) / 2


def test_forgetting_weighs_early_drops_more() -> None:
    # Drops (.8-.6)/.8 = .25 and (.8-.2)/.8 = .75 at 1/2 and 1 of the remaining time, so the
    # weights are e^-1 and e^-2: (.25 e^-1 + .75 e^-2) / (e^-1 + e^-2) = (.25 e + .75) / (e + 1).
    result = meal.forgetting(TIMES, SCORE, ENDS)
    assert result.per_task == pytest.approx([(0.25 * e + 0.75) / (e + 1)])
    assert float(result) == pytest.approx(0.38447, abs=1e-5)


def test_without_decay_forgetting_is_the_plain_mean_drop() -> None:
    assert meal.forgetting(TIMES, SCORE, ENDS, decay=0).value == pytest.approx(0.5)


def test_a_task_that_got_better_afterwards_is_not_forgotten() -> None:
    improving = SCORE.copy()
    improving[3:, 0] = [0.9, 1.2]
    assert meal.forgetting(TIMES, improving, ENDS).value == 0


@pytest.mark.parametrize("learned", [0.0, -0.3])
def test_a_task_that_was_never_learned_cannot_be_forgotten(learned: float) -> None:
    never = SCORE.copy()
    never[2, 0] = learned
    assert meal.forgetting(TIMES, never, ENDS).per_task == pytest.approx([0.0])


def test_a_single_task_has_no_forgetting_to_report() -> None:
    result = meal.forgetting([0, 50, 100], SCORE[:3, :1], [100])
    assert isnan(result.value)
    assert result.per_task is not None
    assert result.per_task.shape == (0,)


def test_a_score_that_is_missing_does_not_pass_for_zero_forgetting() -> None:
    missing = SCORE.copy()
    missing[2, 0] = nan
    assert isnan(meal.forgetting(TIMES, missing, ENDS).value)


def test_forgetting_starts_from_the_last_evaluation_at_or_before_the_end() -> None:
    # Task 0 ends at 120: its score is still that of step 100; the drops of .25 and .75 now lie at
    # 30/80 and 80/80 of the remaining time.
    early, late = np.exp(-2 * 3 / 8), np.exp(-2)
    expected = (0.25 * early + 0.75 * late) / (early + late)
    assert meal.forgetting(TIMES, SCORE, [120, 200]).value == pytest.approx(expected)


def test_a_rounded_step_count_still_falls_on_the_end_of_its_task() -> None:
    rounded = [0, 50, 100 * (1 + 1e-12), 150, 200]
    exact = meal.forgetting(TIMES, SCORE, ENDS).value
    assert meal.forgetting(rounded, SCORE, ENDS).value == pytest.approx(exact)


def test_forward_transfer_is_the_share_of_the_room_above_the_baseline() -> None:
    # AUC of task 0 over 0, .5, .8: (.25 + .65) / 2 = .45; baseline 0, .2, .4: .2; .25/.8 = .3125.
    # AUC of task 1 over .2, .6, .6: (.4 + .6) / 2 = .5; baseline .5 throughout: 0.
    result = meal.forward_transfer(
        TIMES, SCORE, ENDS, [0, 50, 100], [[0, 0.2, 0.4], [0.5, 0.5, 0.5]]
    )
    assert result.per_task == pytest.approx([0.3125, 0.0])
    assert result.value == pytest.approx(0.15625)


def test_area_gained_is_the_mean_distance_of_the_curves() -> None:
    # The areas of the test above. Baselines beyond 1 turn forward transfer's sign, not this one's.
    alone = [[0, 0.2, 0.4], [2, 2, 2]]
    result = meal.area_gained(TIMES, SCORE, ENDS, [0, 50, 100], alone)
    assert result.per_task == pytest.approx([0.25, -1.5])
    assert result.value == pytest.approx(-0.625)
    divided = meal.forward_transfer(TIMES, SCORE, ENDS, [0, 50, 100], alone)
    assert divided.per_task == pytest.approx([0.3125, 1.5])


def test_a_perfect_baseline_leaves_no_room_and_is_left_out_of_the_mean() -> None:
    result = meal.forward_transfer(TIMES, SCORE, ENDS, [0, 50, 100], [[1, 1, 1], [0.2, 0.2, 0.2]])
    assert result.per_task == pytest.approx([nan, 0.375], nan_ok=True)  # (.5 - .2) / .8
    assert result.value == pytest.approx(0.375)


def test_perfect_baselines_everywhere_leave_nothing_to_average() -> None:
    result = meal.forward_transfer(TIMES, SCORE, ENDS, [0, 50, 100], np.ones((2, 3)))
    assert isnan(result.value)


def test_a_task_that_was_added_later_is_compared_from_its_first_evaluation() -> None:
    times, ends = [0, 50, 100, 150, 200], [100, 200]
    score = [[0, nan], [1, nan], [1, nan], [1, 0.5], [1, 1]]
    result = meal.forward_transfer(times, score, ends, [0, 50, 100], [[0, 0, 0], [0, 0, 0]])
    assert result.per_task is not None
    assert result.per_task.tolist() == [0.75, 0.75]  # the second from step 150 to 200 only
    score[3][1] = nan
    assert isnan(
        meal.forward_transfer(
            times, [*score[:4], [1, nan]], ends, [0, 50, 100], [[0] * 3] * 2
        ).value
    )


def test_a_missing_baseline_score_is_not_left_out_silently() -> None:
    result = meal.forward_transfer(TIMES, SCORE, ENDS, [0, 50, 100], [[nan, 0, 0], [0, 0, 0]])
    assert isnan(result.value)


def test_a_baseline_that_trained_longer_is_cut_to_the_length_of_the_task() -> None:
    short = meal.forward_transfer(TIMES, SCORE, ENDS, [0, 50, 100], [[0, 0.2, 0.4]] * 2)
    long = meal.forward_transfer(TIMES, SCORE, ENDS, [0, 50, 100, 150], [[0, 0.2, 0.4, 9]] * 2)
    assert long.per_task == pytest.approx(short.per_task)


def test_evaluations_off_the_task_ends_average_what_they_cover() -> None:
    # Task 0 is seen at 10, 50, 90 of [0, 100] at a constant .4, task 1 at 110, 150, 190 at .6.
    times = [10, 50, 90, 110, 150, 190]
    result = meal.forward_transfer(times, [[0.4, 0.6]] * 6, ENDS, [0, 100], [[0, 0], [0, 0]])
    assert result.per_task == pytest.approx([0.4, 0.6])


# --- CORA ---------------------------------------------------------------------------------------

BOUNDARIES = [[0.0, 1.0], [4.0, 3.0], [1.0, 5.0]]  # start, end of task 0, end of task 1


def test_cora_reads_forgetting_above_and_transfer_below_the_diagonal() -> None:
    forgetting = cora.isolated_forgetting(BOUNDARIES, [4, 5])
    transfer = cora.zero_shot_forward_transfer(BOUNDARIES, [4, 5])
    assert forgetting.value == pytest.approx(7.5)  # task 0 during task 1: 10 (4 - 1) / 4
    assert transfer.value == pytest.approx(4.0)  # task 1 during task 0: 10 (3 - 1) / 5
    np.testing.assert_allclose(forgetting.matrix, [[nan, 7.5], [nan, nan]])
    np.testing.assert_allclose(transfer.matrix, [[nan, nan], [4.0, nan]])


def test_a_negative_maximum_scales_by_its_size() -> None:
    assert cora.isolated_forgetting(BOUNDARIES, [-4, 5]).value == pytest.approx(7.5)


def test_a_task_without_a_scale_is_left_out_of_the_mean() -> None:
    # Three tasks; pairs i < j are 01, 02 (no scale) and 12: 10 (6 - 3) / 6 = 5.
    table = [[0, 0, 0], [0, 2, 0], [0, 6, 0], [0, 3, 1]]
    result = cora.isolated_forgetting(table, [0, 6, 1])
    assert result.value == pytest.approx(5.0)
    assert result.matrix is not None
    assert np.isnan(result.matrix[0]).all()


def test_one_task_has_no_pairs_to_compare() -> None:
    assert isnan(cora.isolated_forgetting([[0], [1]], [1]).value)
    assert isnan(cora.zero_shot_forward_transfer([[0], [1]], [1]).value)


# --- Lifelong Hanabi ----------------------------------------------------------------------------


def test_hanabi_metrics_by_hand() -> None:
    score = [[0.2, 0.4, 0.9], [0.6, 0.8, 0.1], [0.5, 0.6, 0.7]]
    assert lifelong_hanabi.average_score(score) == pytest.approx([0.2, 0.7, 0.6])
    # t=2: .2 - .6; t=3: ((max(.2, .6) - .5) + (max(.4, .8) - .6)) / 2
    assert lifelong_hanabi.forgetting(score) == pytest.approx([-0.4, 0.15])
    assert lifelong_hanabi.future_score(score) == pytest.approx([0.65, 0.1])


def test_the_best_earlier_score_may_come_from_before_training_with_that_partner() -> None:
    score = [[0.1, 0.9, 0.0], [0.1, 0.5, 0.0], [0.1, 0.5, 0.0]]
    # t=3: partner 1 loses nothing, partner 2 falls from .9 (after partner 1 only) to .5.
    assert lifelong_hanabi.forgetting(score)[-1] == pytest.approx(0.2)


def test_one_partner_has_an_average_but_no_past_and_no_future() -> None:
    assert lifelong_hanabi.average_score([[0.3]]) == pytest.approx([0.3])
    assert lifelong_hanabi.forgetting([[0.3]]).shape == (0,)
    assert lifelong_hanabi.future_score([[0.3]]).shape == (0,)


def test_scores_with_partners_to_come_are_not_needed_for_the_average() -> None:
    assert lifelong_hanabi.average_score([[0.2, nan], [0.6, 0.8]]) == pytest.approx([0.2, 0.7])


def test_generalization_improvement_is_the_mean_gain() -> None:
    improvement = lifelong_hanabi.generalization_improvement([0.2, 0.4], [0.5, 0.3])
    assert improvement == pytest.approx(0.1)  # (.3 - .1) / 2


# --- ZSC-Eval -----------------------------------------------------------------------------------


def br_proximity(returns, best, **options) -> float:
    """BR-Prox of one ego with every partner on one seat."""
    one, best = np.reshape(returns, (1, -1, 1)), np.reshape(best, (-1, 1))
    return zsc_eval.br_proximity_table(one, best, **options).value


def test_br_proximity_averages_the_middle_half_of_the_ratios() -> None:
    # Ratios .1, .5, 1.5, 2: the middle half is .5 and 1.5. Capped at 1 it is .5 and 1.
    assert br_proximity([1, 5, 30, 20], [10, 10, 20, 10]) == pytest.approx(1.0)
    released = br_proximity([1, 5, 30, 20], [10, 10, 20, 10], as_released=True)
    assert released == pytest.approx(0.75)


def test_br_proximity_rounds_the_trimmed_quarter_down() -> None:
    # Seven ratios: 7 // 4 = 1 goes at each end, (2 + 3 + 4 + 5 + 6) / 5 stays.
    assert br_proximity([7, 1, 6, 2, 5, 3, 4], np.ones(7)) == pytest.approx(4.0)
    # Three ratios are too few to trim.
    assert br_proximity([0, 0, 3], np.ones(3)) == pytest.approx(1.0)


def test_a_missing_return_is_not_trimmed_away() -> None:
    assert isnan(br_proximity([1, 2, 3, nan], np.ones(4)))


def test_br_diversity_is_the_determinant_of_the_scaled_gram_matrix() -> None:
    # Rows (1, 0) and (0, 2) become (1/1.001, 0) and (0, 2/2.001).
    expected = (1 / 1.001) ** 2 * (2 / 2.001) ** 2
    assert zsc_eval.br_diversity([[1, 0], [0, 2]]) == pytest.approx(expected)


def test_two_partners_with_the_same_best_response_have_no_diversity() -> None:
    assert zsc_eval.br_diversity([[3, 1, 0], [3, 1, 0]]) == pytest.approx(0.0, abs=1e-12)


# --- Plasticity ---------------------------------------------------------------------------------


def test_plasticity_metrics_by_hand() -> None:
    # Running averages 1, 1, 1 (AUC 2) and 2, 1, 1 (AUC 1.5 + 1 = 2.5).
    reward = [[1, 1, 1], [2, 0, 1]]
    assert plasticity.auc_loss(reward).per_repetition == pytest.approx([-0.25])
    assert plasticity.raw_auc_ratio(reward).per_repetition == pytest.approx([1.25])
    assert plasticity.final_performance_ratio(reward).per_repetition == pytest.approx([1.0])


def test_the_value_is_the_mean_over_later_repetitions() -> None:
    reward = np.outer([2.0, 1.0, 0.5], np.ones(4))
    assert plasticity.auc_loss(reward, sigma=1.5).value == pytest.approx(0.625)  # (.5 + .75) / 2


def test_smoothing_keeps_the_repetitions_apart() -> None:
    reward = np.outer([1.0, 0.5], np.ones(6))
    assert plasticity.final_performance_ratio(reward, sigma=3.0).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    "metric", [plasticity.auc_loss, plasticity.final_performance_ratio, plasticity.raw_auc_ratio]
)
def test_a_repetition_without_a_reference_is_undefined(metric: Callable[..., object]) -> None:
    assert isnan(float(metric([[1, 2, 3]])))  # type: ignore[arg-type]
    assert isnan(float(metric([[0, 0, 0], [1, 2, 3]])))  # type: ignore[arg-type]


# --- ICRL4AHT and seeds -------------------------------------------------------------------------


def test_adaptation_gain_compares_the_last_window_with_the_first() -> None:
    assert icrl4aht.adaptation_gain([1, 2, 3, 4, 5, 9], window=2) == pytest.approx(5.5)  # 7 - 1.5
    assert icrl4aht.adaptation_gain([1, 2, 6], window=2) == pytest.approx(2.5)  # 4 - 1.5


def test_the_interval_over_seeds_is_students() -> None:
    # 1, 2, 3: mean 2, standard deviation 1, t(.975, 2 degrees) = 4.302653: 4.302653 / sqrt(3).
    mean, half_width = mean_and_interval([1, 2, 3])
    assert float(mean) == 2
    assert float(half_width) == pytest.approx(2.484138, abs=1e-6)
    # t(.95, 2 degrees) = 2.919986
    assert float(mean_and_interval([1, 2, 3], confidence=0.9).half_width) == pytest.approx(
        2.919986 / 3**0.5, abs=1e-6
    )


def test_the_seed_axis_goes_and_the_others_stay() -> None:
    result = mean_and_interval(np.tile([[1.0], [2.0], [3.0]], (1, 5)).T, axis=1)
    assert result.mean == pytest.approx(np.full(5, 2.0))
    assert result.half_width == pytest.approx(np.full(5, 2.484138), abs=1e-6)


def test_one_seed_has_a_mean_but_no_interval() -> None:
    mean, half_width = mean_and_interval([[1.0, 4.0]])
    assert mean == pytest.approx([1.0, 4.0])
    assert np.isnan(half_width).all()


# --- Refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: meal.average_score([[1, 2], [3]]), r"score must .* \[evaluation, task\]"),
        (lambda: meal.average_score([1, 2]), r"score must .* got shape \(2,\)"),
        (lambda: meal.average_score([]), r"score must .* got shape \(0,\)"),
        (lambda: meal.forgetting(TIMES[1:], SCORE, ENDS), r"score must have shape \(4, 2\)"),
        (lambda: meal.forgetting(TIMES, SCORE, [100]), r"score must have shape \(5, 1\)"),
        (lambda: meal.forgetting(TIMES[::-1], SCORE, ENDS), "times must .* increasing"),
        (lambda: meal.forgetting([0, 50, 50, 150, 200], SCORE, ENDS), "times must .* increasing"),
        (lambda: meal.forgetting(TIMES, SCORE, [200, 100]), "task_ends must .* increasing"),
        (lambda: meal.forgetting(TIMES, SCORE, [0, 100]), "task_ends must be positive"),
        (lambda: meal.forgetting(TIMES, SCORE, ENDS, decay=-1), "decay must be zero or more"),
        (lambda: meal.forgetting([0, 150, 160, 170, 200], SCORE, ENDS), "task 0 has no .* during"),
        (lambda: meal.forgetting([0, 10, 20, 30, 40], SCORE, ENDS), "task 0 has no .* after"),
        (
            lambda: meal.forward_transfer(TIMES, SCORE, ENDS, [0, 100], [[0, 0]]),
            r"baseline_score must have shape \(2, 2\)",
        ),
        (
            lambda: meal.forward_transfer([0, 10, 20, 100, 200], SCORE, ENDS, [0], [[0], [0]]),
            "the baseline of task 0 needs two evaluations",
        ),
        (
            lambda: meal.forward_transfer(TIMES, SCORE, ENDS, [0, 20, 40], np.zeros((2, 3))),
            r"the baseline of task 0 is evaluated only from 0 to 40 of \[0, 100\]",
        ),
        (
            lambda: cora.isolated_forgetting(BOUNDARIES[1:], [4, 5]),
            r"boundary_returns must have shape \(3, 2\)",
        ),
        (lambda: cora.zero_shot_forward_transfer(BOUNDARIES, 4), r"max_returns must .* \[task\]"),
        (lambda: lifelong_hanabi.forgetting(np.ones((2, 3))), r"score must have shape \(2, 2\)"),
        (
            lambda: lifelong_hanabi.generalization_improvement([1, 2], [1]),
            r"after must have shape \(2,\)",
        ),
        (lambda: zsc_eval.br_diversity([1, 2]), r"features must .* \[partner, feature\]"),
        (lambda: plasticity.raw_auc_ratio([1, 2]), r"reward must .* \[repetition, step\]"),
        (lambda: plasticity.auc_loss([[1], [2]]), "reward needs at least two steps"),
        (lambda: plasticity.auc_loss([[1, 2], [2, 3]], sigma=-1), "sigma must be zero or more"),
        (lambda: icrl4aht.adaptation_gain([1, 2, 3], window=4), "from 1 to the 3 episodes, got 4"),
        (lambda: icrl4aht.adaptation_gain([1, 2, 3], window=0), "from 1 to the 3 episodes, got 0"),
        (lambda: mean_and_interval(3.0), "values must be a full array"),
        (lambda: mean_and_interval([1, 2], axis=1), "values must have the seeds on axis 1"),
        (lambda: mean_and_interval([1, 2], confidence=95), "confidence must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_one_clear_line(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


# --- Imports ------------------------------------------------------------------------------------

IMPORT_ALL = """
import importlib, pkgutil, sys
import brigade.metrics as metrics
names = [found.name for found in pkgutil.iter_modules(metrics.__path__)]
assert len(names) >= 8, names
for name in names:
    importlib.import_module(f"brigade.metrics.{name}")
"""


def run_in_a_fresh_interpreter(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_importing_the_metrics_does_not_import_jax() -> None:
    run_in_a_fresh_interpreter(
        IMPORT_ALL + "heavy = {'jax', 'jaxlib', 'flax'} & set(sys.modules)\nassert not heavy, heavy"
    )


@pytest.mark.slow
def test_the_metrics_need_nothing_else_of_brigade() -> None:
    # An empty stand-in for the package keeps what brigade/__init__.py imports out of the picture.
    package = Path(cora.__file__).parents[1]
    stand_in = (
        "import sys, types\n"
        "sys.modules['brigade'] = types.ModuleType('brigade')\n"
        f"sys.modules['brigade'].__path__ = [{str(package)!r}]\n"
    )
    run_in_a_fresh_interpreter(
        stand_in
        + IMPORT_ALL
        + "ours = [name for name in sys.modules if name.startswith('brigade.')]\n"
        + "other = [name for name in ours if not name.startswith('brigade.metrics')]\n"
        + "assert not other and 'jax' not in sys.modules, other\n"
    )

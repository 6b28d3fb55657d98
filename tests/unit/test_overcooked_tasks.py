"""Kitchens as data: from grids to tasks, and the errors on the way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.core import TaskSequence
from brigade.envs.overcooked import LAYOUTS, Overcooked, sequence_from_grids, task_from_grid
from brigade.envs.overcooked.grid import GridError

CRAMPED = LAYOUTS["cramped_room"]


def test_a_grid_is_padded_with_counters_on_the_right_and_below():
    task = task_from_grid(CRAMPED, height=6, width=7)
    plain = task_from_grid(CRAMPED)
    assert task.tile.shape == (6, 7)
    np.testing.assert_array_equal(task.tile[:4, :5], plain.tile)
    assert (np.asarray(task.tile)[4:] == 1).all()
    assert (np.asarray(task.tile)[:, 5:] == 1).all()
    assert task.start.tolist() == [2 * 7 + 1, 1 * 7 + 3]
    assert plain.start.tolist() == [2 * 5 + 1, 1 * 5 + 3]


def test_text_rows_and_spaces_mean_the_same():
    as_text = task_from_grid("XXPXX\nO  2O\nX1  X\nXDXSX\n")
    for a, b in zip(
        jax.tree.leaves(as_text), jax.tree.leaves(task_from_grid(list(CRAMPED))), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_a_layout_for_two_can_be_played_alone():
    assert task_from_grid(CRAMPED, num_agents=1).start.shape == (1,)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["XXPXX", "O1.2", "XDXSX"], "R1 rectangle: row 2 has 4 tiles"),
        (["XXXXX", "O1.2X", "XDXSX"], "R2 parts: there is no tile P"),
        (["XXPXX", "O1.2.", "XDXSX"], "R3 border: row 2, column 5 is floor"),
        (["XXPXX", "O1.2q", "XDXSX"], "symbols: row 2, column 5 is 'q'"),
        (["XXPXX", "O1..X", "XDXSX"], "R2 parts: there is no tile 2"),
        (["XXPXX", "O112X", "XDXSX"], "starts: row 2, column 3 is a second start of seat 1"),
        ([], "empty: the kitchen has no tiles"),
    ],
)
def test_a_bad_grid_is_told_which_rule_and_where(rows, message):
    with pytest.raises(GridError) as caught:
        task_from_grid(rows)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_kitchen_that_does_not_fit_is_refused():
    with pytest.raises(GridError, match="4 rows and 5 columns and does not fit into 4 x 4"):
        task_from_grid(CRAMPED, height=4, width=4)


def test_tasks_of_a_sequence_have_one_shape_and_their_number():
    sequence = sequence_from_grids([CRAMPED, LAYOUTS["forced_coordination"]], ["a", "b"], steps=10)
    assert len(sequence) == 2
    assert sequence.tasks.tile.shape == (2, 5, 5)
    assert [int(sequence[i].id) for i in range(2)] == [0, 1]


def test_a_task_that_comes_back_keeps_its_number():
    task = task_from_grid(CRAMPED)
    sequence = TaskSequence.from_tasks([task] * 4, list("abab"), 1, ids=[0, 1, 0, 1])
    assert sequence.tasks.id.tolist() == [0, 1, 0, 1]


def test_names_and_tasks_must_match():
    with pytest.raises(ValueError, match="1 tasks with 2 names"):
        TaskSequence.from_tasks([task_from_grid(CRAMPED)], ["a", "b"], 1)


@pytest.mark.parametrize(
    "wrong", [{"num_agents": 0}, {"num_agents": 5}, {"start_facing": "down"}, {"horizon": 0}]
)
def test_an_impossible_environment_is_refused(wrong):
    with pytest.raises(ValueError, match=r"num_agents|start_facing|horizon"):
        Overcooked(**wrong)


def test_scores_of_a_hopeless_kitchen_are_finite():
    """No soup can be served: the maximum counts as 1, so nothing is divided by 0."""
    task = task_from_grid(["XXPXX", "X1.2X", "XXXXX", "XO.DX", "XXXSX"])
    env = Overcooked(height=5, width=5)
    _, now = env.reset(jax.random.key(0), task)
    assert float(now.info["score"]) == 0.0
    assert int(env.max_soups(task)) == 1


def test_the_maximum_follows_the_horizon():
    task = task_from_grid(CRAMPED)  # a cycle of 49 steps
    assert int(Overcooked(height=4, width=5).max_soups(task)) == 8
    assert int(Overcooked(height=4, width=5, horizon=100).max_soups(task)) == 2
    assert task.cycle_time.dtype == jnp.int32


def test_a_task_of_another_size_is_refused():
    with pytest.raises(ValueError, match="the environment expects"):
        Overcooked(height=5, width=5).reset(jax.random.key(0), task_from_grid(CRAMPED))

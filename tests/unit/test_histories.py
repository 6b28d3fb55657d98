"""Recorded histories as a source: what batches are, and runs that learn from them."""

import json
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.parts import nonsense

import brigade
from brigade.core import Acting, Windows
from brigade.core.histories import EXPERT_ACTIONS, NO_LABEL, steps_in_episodes
from brigade.envs.dark_room import MOVES
from brigade.errors import UserError
from brigade.histories import ArrayHistories, Batches, RecordedSource
from brigade.histories.controls import explorers, lever_pullers, walks_and_experts
from brigade.learners.in_context import AD, DPT, ContextNetworkConfig, next_obs_loss

TINY = {
    "benchmark": "icrl/levers",
    "seeds": 2,
    "num_envs": 4,
    "steps_per_task": 6 * 4 * 80,
    "eval_every": 3,
    "eval_consecutive": 2,
    "env": {"known": 20, "held_out": 3, "streams": 1},
    "network": {"hidden": [8]},
}


def test_steps_count_from_the_start_of_each_episode():
    dones = np.array([False, True, True, False, False, True])
    assert steps_in_episodes(dones).tolist() == [0, 1, 0, 0, 1, 2]


def test_windows_start_where_they_are_told_to():
    histories = nonsense()
    for starts, wanted in (("anywhere", 9), ("episodes", 0), ("beginning", 0)):
        batches = Batches(histories, 12, 200, Windows(starts=starts))
        batch = batches.sample(np.random.default_rng(0))
        assert batch["step"][:, 0].max() == wanted
        assert batch["valid"].all()
        begins = (batch["prev_actions"][:, 0] == -1).mean()  # of a history
        assert begins == 1.0 if starts == "beginning" else 0.0 < begins < 0.9
        if starts == "episodes":
            assert (batch["prev_actions"][:, 0] >= 0).any()  # also later ones


def test_a_window_within_a_history_shows_what_came_before_it():
    histories = nonsense()
    whole, part = (Batches(histories, n, 1).window(1, s) for n, s in ((30, 0), (7, 11)))
    for name in whole:
        assert (whole[name][11:18] == part[name]).all(), name


def test_short_histories_are_padded_and_do_not_count():
    histories = nonsense(lengths=(12, 20))
    batch = Batches(histories, 16, 50).sample(np.random.default_rng(0))
    assert sorted(set(batch["valid"].sum(1).tolist())) == [12, 16]
    learner = DPT(network=ContextNetworkConfig("small", hidden=(8,))).build(
        brigade.get("envs", "dark_room").example()[0], num_tasks=1, updates_per_task=1
    )
    traj = RecordedSource(Batches(histories, 16, 50), 4).trajectory(batch)
    _, sequences, _ = learner.prepare(learner_state(), traj, jax.random.key(0))
    assert (np.asarray(sequences.weight) == batch["valid"]).all()


def learner_state():
    from brigade.core import LearnerState

    return LearnerState((), (), jnp.int32(0))


@pytest.mark.parametrize(
    ("windows", "length", "message"),
    [
        (
            Windows(),
            41,
            "num_steps is 41, and the longest history has 40 timesteps; use --num-steps",
        ),
        (Windows(("secrets",)), 10, "these histories have no secrets; they have obs, rewards"),
    ],
)
def test_what_histories_do_not_have_is_refused(windows, length, message):
    with pytest.raises(ValueError, match=message):
        Batches(nonsense(), length, 2, windows)


def test_histories_need_the_same_fields_of_one_length():
    rows = [{"obs": np.zeros((3, 1)), "dones": np.ones(3, bool), "actions": np.zeros(2)}]
    with pytest.raises(ValueError, match=r"history 0 has .*'actions': 2.* all of the same length"):
        ArrayHistories(rows)


def batches_of(source, state, number):
    found = []
    for _ in range(number):
        state, traj = source.next(state, Acting(()), None, None)
        found.append(np.asarray(traj.action))
    return found


def test_batches_follow_from_the_seed_and_the_update_alone():
    """Whatever a thread has made before: another source gives the same ones from the middle on."""
    batches = Batches(nonsense(), 10, 3)
    one, two = RecordedSource(batches, 4), RecordedSource(batches, 4)
    start = one.start(jax.random.key(3), None)
    all_of_them = batches_of(one, start, 6)
    later = batches_of(two, start.replace(update=jnp.int32(3)), 3)
    assert all((a == b).all() for a, b in zip(all_of_them[3:], later, strict=True))
    other = batches_of(two, two.start(jax.random.key(4), None), 6)
    assert not any((a == b).all() for a, b in zip(all_of_them, other, strict=True))


class Slow(ArrayHistories):
    """Takes its time."""

    def window(self, history, start, length):
        time.sleep(0.01)
        return super().window(history, start, length)


@pytest.mark.parametrize("slow", [False, True])
def test_waiting_for_data_is_measured(slow):
    histories = nonsense()
    if slow:
        histories = Slow([histories.window(n, 0, 30) for n in range(3)])
    source = RecordedSource(Batches(histories, 10, 2), 4)
    state = source.start(jax.random.key(0), None)
    for _ in range(10):
        state, _ = source.next(state, Acting(()), None, None)
        time.sleep(0.0 if slow else 0.01)
    waited = source.measured()["data_wait"]
    assert waited > 0.7 if slow else waited < 0.3


# --- players that need no network ---


def goals(*cells):
    return np.array(cells)


def returns_of(histories, horizon):
    rewards = [
        histories.window(n, 0, int(histories.lengths[n]))["rewards"] for n in range(len(histories))
    ]
    return np.stack(rewards).reshape(len(histories), -1, horizon).sum(-1)


def test_explorers_find_the_goal_and_then_go_straight_to_it():
    played = explorers(goals((0, 0), (6, 5)), MOVES, 9, 20, 8, 16, np.random.default_rng(0))
    returns = returns_of(played, 20)
    assert returns[:8, -8:].tolist() == [[13.0] * 8] * 8  # the corner is 8 steps away
    assert returns[8:, -8:].tolist() == [[18.0] * 8] * 8
    assert returns[:, 0].mean() < 6


def test_the_first_episode_of_an_expert_has_labels():
    played = walks_and_experts(goals((0, 0), (8, 2)), MOVES, 9, 20, 50, 8, np.random.default_rng(0))
    returns = returns_of(played, 20)
    labelled = np.stack(
        [played.window(n, 0, 160)[EXPERT_ACTIONS] != NO_LABEL for n in range(len(played))]
    ).reshape(100, 8, 20)
    assert (labelled.all(-1) == labelled.any(-1)).all()
    first = labelled.all(-1).argmax(1)  # the expert's first episode; it plays all later ones, too
    assert labelled.all(-1).sum(1).tolist() == [1] * 100
    assert set(first.tolist()) == set(range(8))
    walks = np.arange(8) < first[:, None]
    assert (returns[:50][~walks[:50]] == 13).all()
    assert returns[walks].mean() < 3


def test_lever_pullers_try_every_lever_once():
    sequences = np.random.default_rng(1).integers(0, 6, (5, 8))
    returns = returns_of(lever_pullers(sequences, 6, 40, 8, np.random.default_rng(0)), 8)
    assert (returns[:, 5:] == 8).all()
    assert abs(returns[:, 0].mean() - 8 / 6) < 0.3
    assert (np.diff(returns, axis=1) >= 0).all()


# --- runs ---


def test_a_learner_from_histories_needs_some():
    with pytest.raises(UserError, match="ad learns from recorded histories and meal/level-1 has"):
        brigade.run({"benchmark": "meal/level-1", "learner": "ad"}, "nowhere")
    with pytest.raises(UserError, match="populations and few-shot updates need a learner that"):
        brigade.run(TINY | {"few_shot_updates": 1}, "nowhere")
    with pytest.raises(UserError, match="num_steps is 81, and the longest history has 80"):
        brigade.run(TINY | {"num_steps": 81}, "nowhere")


def test_a_resumed_run_ends_bit_for_bit_as_if_it_had_not_stopped(tmp_path):
    whole = brigade.run(TINY, tmp_path / "whole")

    def stop(progress, position, experiment):
        if progress.update == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        brigade.run(TINY, tmp_path / "parts", watch=stop)
    resumed = brigade.resume(tmp_path / "parts")
    for name, values in whole.returns.items():
        assert np.array_equal(values, resumed.returns[name]), name
    params = [brigade.load(tmp_path / name).params for name in ("whole", "parts")]
    assert all(jax.tree.leaves(jax.tree.map(lambda x, y: bool((x == y).all()), *params)))
    lines = (tmp_path / "whole" / "log.jsonl").read_text().splitlines()
    assert all(0 <= json.loads(line)["metrics"]["data_wait"][0] <= 1 for line in lines)


def test_the_next_observation_is_predicted_from_the_one_before():
    obs = jnp.arange(6.0).reshape(1, 3, 2)
    right = jnp.concatenate([obs[:, 1:], jnp.full((1, 1, 2), 99.0)], axis=1)
    weight = jnp.array([[1.0, 1.0, 0.0]])
    assert next_obs_loss(right, obs, weight) == 0.0
    assert next_obs_loss(right.at[0, 0].add(1.0), obs, weight) == 1.0
    assert next_obs_loss(right.at[0, 1].add(1.0), obs, weight) == 0.0  # after it nothing counts


def test_layouts_and_additions_are_settings(tmp_path):
    """The query in front, the teammate's actions, the next observation, dropout: all of it runs."""
    more = {
        "learner": "dpt",
        "seeds": 1,
        "steps_per_task": 2 * 4 * 80,
        "network": {
            "hidden": [8],
            "teammate_actions": True,
            "dropout": 0.1,
            "attention_dropout": 0.1,
        },
        "training": {"next_obs_coef": 0.5, "label_smoothing": 0.1, "weight_decay": 0.01},
    }
    for query in ("every", "first"):
        result = brigade.run(TINY | more | {"query": query}, tmp_path / query)
        row = json.loads((result.path / "log.jsonl").read_text().splitlines()[-1])
        assert np.isfinite(row["metrics"]["next_obs_loss"]).all()
    file = brigade.load(tmp_path / "every").export(tmp_path / "all.safetensors")
    assert brigade.load(file).policy().game().view.obs.shape == (2, 1)


def test_ad_imitates_and_dpt_asks_the_expert():
    assert AD().windows.needs == ("actions",)
    assert DPT().windows == Windows(("expert_actions",), reach=DPT().network.context)
    assert replace(DPT(), query="first").windows.query_first

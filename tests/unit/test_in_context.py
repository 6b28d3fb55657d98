"""A policy that adapts within its context, trained for real."""

import numpy as np
import pytest

import brigade
from brigade.benchmarks.icrl_controls import dark_room, levers
from brigade.core.histories import ACTIONS, EXPERT_ACTIONS
from brigade.partners.files import load_policies

LEVERS = {
    "benchmark": "icrl/levers",
    "learner": "ad",
    "num_envs": 32,
    "steps_per_task": 200 * 32 * 80,
    "eval_every": 200,
    "env": {"held_out": 20},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return brigade.run(LEVERS, tmp_path_factory.mktemp("levers") / "run")


def test_ad_finds_out_the_convention_of_a_partner_it_has_never_met(trained):
    """8 is the most there is, and 1.3 what one gets by chance."""
    axes = trained.returns["axes"].tolist()
    last = trained.returns["returns"][-1]  # without the axis of evaluations
    others = tuple(n for n, axis in enumerate(axes[1:]) if axis != "attempt")
    by_episode = last.mean(others)
    assert by_episode.shape == (10,)
    assert by_episode[0] < 2.0
    assert (by_episode[7:] > 6.0).all(), by_episode


def test_a_trained_context_is_a_policy_file_like_any_other(trained, tmp_path):
    file = brigade.load(trained.path).export(tmp_path / "levers.safetensors")
    policies = load_policies(file)
    assert policies.policy.kind == "context"
    assert policies.policy.network.context == 80
    player = brigade.load(file).policy()
    game = player.game()
    pulled = [player.act(game.view, seat=0, greedy=True)]
    assert pulled[0] in range(6)


def test_no_history_has_a_goal_or_a_convention_of_the_evaluations():
    room, held_out = dark_room(), levers().cast.params[0]
    tasks = room.sequence(0, 20, 1).tasks.goal
    known = room.histories(0, (ACTIONS,)).tasks
    assert len(set(known.tolist())) == 60
    assert not set(known.tolist()) & set((np.asarray(tasks) @ [9, 1]).tolist())
    assert 4 * 9 + 4 not in known  # nobody has to look for where one starts
    histories = levers().histories(0, (EXPERT_ACTIONS,))
    conventions = {
        tuple(histories.window(n, 0, 8)[EXPERT_ACTIONS].tolist()) for n in range(len(histories))
    }
    assert len(conventions) == 300
    assert not conventions & {tuple(row) for row in np.asarray(held_out).tolist()}

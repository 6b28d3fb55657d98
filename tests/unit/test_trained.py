"""Trained policies act alike from a run folder and from a file, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import brigade
from brigade.errors import UserError
from brigade.partners.files import load_policies
from brigade.runs.export import LoadedRun
from brigade.runs.trained import PolicyFile

pytestmark = pytest.mark.slow

SMALL = {
    "benchmark": "meal/level-1",
    "preset": "laptop",
    "seeds": 2,
    "tasks": 2,
    "num_envs": 2,
    "num_steps": 20,
    "steps_per_task": 40,
    "eval_episodes": 1,
    "ppo": {"epochs": 1, "minibatches": 2, "sequence_length": 10},
    "network": {"hidden": [8], "memory": "gru", "memory_size": 4},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return brigade.run(SMALL, out=tmp_path_factory.mktemp("runs") / "mine").path


@pytest.fixture(scope="module")
def run(folder):
    loaded = brigade.load(folder)
    assert isinstance(loaded, LoadedRun)
    return loaded


@pytest.fixture(scope="module")
def file(run, tmp_path_factory):
    return run.export(tmp_path_factory.mktemp("files") / "mine.safetensors", task=1)


def play(policy, steps, seed=3, **how):
    """The actions of a game, and the game."""
    game = policy.game(seed)
    actions = []
    for _ in range(steps):
        actions.append(policy.act(game.view, **how))
        game.step(actions[-1])
    return np.array(actions), game


def test_a_file_acts_like_the_run_it_comes_from(run, file):
    loaded = brigade.load(str(file))
    assert isinstance(loaded, PolicyFile)
    assert loaded.names == run.names == ("mine-seed0", "mine-seed1")
    for seed in (0, 1):
        ours, game = play(run.policy(seed=seed, task=1), 30)
        theirs, same = play(loaded.policy(seed=seed), 30)
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(game.view.obs, same.view.obs)  # the same kitchen
    assert np.unique(ours).size > 1  # it samples


def test_it_acts_as_the_network_of_its_task_does(run):
    """Against the learner's own policy, whose recurrent state we carry here."""
    index, task = 1, 1
    policy, learner = run.policy("mine-seed1", task=task + 1), run.parts.learner.policy
    params = run.acting_params(index, task)
    game, carry = policy.game(), learner.initial_carry((1, 2))
    assert int(game.view.task_id[0]) == task
    for _ in range(5):
        view = jax.tree.map(lambda x: x[None], game.view)
        expected, carry, _ = learner.act(params, carry, view, jax.random.key(0), True)
        action = policy.act(game.view, greedy=True)
        np.testing.assert_array_equal(action, expected[0])
        game.step(action)


def test_seats_can_act_one_by_one(run):
    together, _ = play(run.policy(), 6, greedy=True)
    first, second = run.policy(), run.policy()
    game, alone = first.game(3), []
    for _ in range(6):
        action = [first.act(game.view, 0, greedy=True), second.act(game.view, 1, greedy=True)]
        alone.append(action)
        game.step(action)
    np.testing.assert_array_equal(alone, together)


def test_a_game_ends_counts_and_is_filmed(run, tmp_path):
    policy = run.policy(seed=0)
    game = policy.game()
    rewards = np.zeros(2)
    while not game.over:
        game.step(policy.act(game.view))
        rewards += np.asarray(game._last.reward)
    assert len(game._states) == game.env.horizon + 1
    np.testing.assert_allclose(game.returns, rewards)
    assert game.score == float(game._last.info["score"])
    with pytest.raises(UserError, match=r"^the game is over; start another with reset\(\)$"):
        game.step([0, 0])
    game.reset(1)
    assert not game.over
    assert not game.returns.any()
    game.step([0, 1])
    with Image.open(game.film(tmp_path / "film.gif")) as film:
        assert film.n_frames >= 1
    with pytest.raises(UserError, match=r"film\.gif exists already"):
        game.film(tmp_path / "film.gif")
    with pytest.raises(UserError, match=r"must end in \.gif"):
        game.film(tmp_path / "film.png")


def test_mistakes_are_one_line(run, file, tmp_path):
    for loaded in (run, brigade.load(file)):
        with pytest.raises(UserError, match="unknown policy 'mine-seed3': did you mean"):
            loaded.policy("mine-seed3")
        with pytest.raises(UserError, match="there is no policy of seed 7; seeds are 0, 1"):
            loaded.policy(seed=7)
    with pytest.raises(UserError, match="the run has 2 tasks; there is no task 3"):
        run.policy(task=3)
    with pytest.raises(UserError, match="exists already"):
        run.export(file)
    policy = run.policy()
    with pytest.raises(UserError, match="seat is 2; it must be from 0 to 1"):
        policy.act(policy.game().view, 2)
    view = policy.game().view.replace(state=None)
    twice = jax.tree.map(lambda x: jnp.concatenate([x, x]), view)
    with pytest.raises(UserError, match="a game with 2 seats; this view has 4"):
        policy.act(twice)
    game = policy.game()
    for action, message in (
        ([0], "one action per seat: 2, not 1"),
        ([0, 99], r"actions are 0 to 5, not \[0, 99\]"),
        (None, "one action per seat, not None"),
        (["a", "b"], "actions are numbers"),
    ):
        with pytest.raises(UserError, match=message):
            game.step(action)
    with pytest.raises(UserError, match="by its name or by seed=0"):
        run.policy(0)
    for loaded in (run, brigade.load(file)):
        assert len(repr(loaded)) < 300


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.safetensors", None, "there is no policy file"),
        ("bad.safetensors", b"\x08" * 40, "is not a policy file"),
        ("other.npz", b"PK", r"its name should end in \.safetensors"),
        ("nowhere", None, "there is no run folder"),
    ],
)
def test_a_bad_file_is_one_line(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        brigade.load(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_file_executes_the_code_it_names_only_if_it_is_trusted(file, tmp_path):
    policies = load_policies(file)
    code = tmp_path / "mine.py"
    code.write_text("raise SystemExit\n")
    named = PolicyFile(file, policies)
    policies.origin["benchmark"] = f"{code}:mine"
    policy = named.policy()
    with pytest.raises(UserError, match="is not installed; load it with trust=True"):
        policy.game()
    with pytest.raises(UserError, match="line 1: SystemExit"):
        PolicyFile(file, policies, trust=True).policy().game()
    policies.origin["benchmark"] = "meal/partners"
    policies.origin["env"] = {"partners": [f"{code}:mine"]}
    PolicyFile(file, policies).policy().game()  # without what it names: nothing is executed
    policies.origin["env"] = {"deep": {"partners": f"{code}:mine"}}
    with pytest.raises(UserError, match="add --trust"):
        PolicyFile(file, policies).policy().game()

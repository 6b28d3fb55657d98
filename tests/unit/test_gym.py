"""Gymnasium environments: games on the host, streams of several, crashes, records and films."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from brigade.cli import main
from brigade.envs.gym import gym_game
from brigade.errors import UserError
from brigade.runs.folder import read_npz

GAMES = Path(__file__).parents[1] / "support" / "gym_games.py"
SMALL = (
    "--num-envs 2 --num-steps 8 --steps-per-task 32 --eval-every 1 --eval-episodes 2 "
    "--env.horizon 4 --ppo.minibatches 2 --ppo.epochs 1 --network.hidden 8"
)


def game(name, **settings):
    return gym_game(f"{GAMES}:{name}", **{"horizon": 4, **settings})


def run_words(*names, file=GAMES):
    ids = " ".join(f"{file}:{name}" for name in names)
    return f"run gym --env.ids {ids} {SMALL}".split()


def test_the_step_after_an_end_starts_the_next_episode():
    """Its action is ignored, and it is not a step of any episode."""
    chase = game("Chase")
    games = chase.open(2)
    now = games.reset(0)
    assert now.view.first.all()
    assert (now.view.prev_action == -1).all()
    returns = np.zeros(2)
    for step in range(4):
        action = now.view.obs[:, 0].argmax(-1)
        action[1] = (action[1] + 1) % 3  # the second game always goes wrong
        now = games.step(action[:, None])
        returns += now.reward[:, 0]
        assert now.info["score"].tolist() == returns.tolist()
        assert now.terminated.tolist() == [step == 2, False]
        assert now.truncated.tolist() == [False, step == 3]
        if step == 2:
            break
    assert returns.tolist() == [3.0, 0.0]
    now = games.step(np.array([[2], [0]]))
    assert now.view.first[:, 0].tolist() == [True, False]
    assert now.view.prev_action[:, 0].tolist() == [-1, 0]
    assert now.info["score"].tolist()[0] == 0.0
    assert now.truncated.tolist() == [False, True]


def test_discrete_numbers_count_from_where_the_space_says():
    wide = game("Wide")
    games = wide.open(1)
    now = games.reset(3)
    assert wide.obs_shape == (5,)
    goal = int(now.view.obs[0, 0].argmax())
    assert games.step(np.array([[goal]])).reward.item() == 1.0


def test_bounded_components_span_their_range():
    """-1 is the lower bound, 1 the upper one, and what is beyond is clipped."""
    games = game("Moves").open(1)
    games.reset(0)
    for component, meant in ((-1.0, 10.0), (0.0, 15.0), (1.0, 20.0), (7.0, 20.0)):
        action = np.full((1, 1, 2), component, np.float32)
        assert games.step(action).reward.item() == pytest.approx(meant)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPole-v7"], "did you mean 'CartPole-v1'"),
        (["Blackjack-v1"], "Blackjack-v1 has observations of type Tuple"),
        ([f"{GAMES}:Mixed"], "has observations of type Dict"),
        ([f"{GAMES}:Nobody"], "unknown name in"),
        (["json:loads"], "json:loads names a module"),
        ([f"{GAMES}:Chase", f"{GAMES}:Moves"], "actions are discrete and continuous"),
        ([f"{GAMES}:Chase", "--tasks", "2"], "tasks is 2, and there are 1 environments"),
        ([f"{GAMES}:Chase", "--env.test-ids", "a", "b"], "test_ids has 2 environments and ids 1"),
    ],
)
def test_what_cannot_be_a_stream_is_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "gym", "--env.horizon", "4", "--env.ids", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_game_without_a_time_limit_needs_one():
    with pytest.raises(UserError, match="say how many steps an episode may have"):
        gym_game(f"{GAMES}:Chase")


@pytest.fixture(scope="module")
def two_games(tmp_path_factory):
    """A stream of two games of different sizes, and another variant in evaluations."""
    folder = tmp_path_factory.mktemp("gym") / "run"
    words = run_words("Chase", "Wide")
    words += ["--env.test-ids", f"{GAMES}:Chase", f"{GAMES}:Chase"]
    assert main([*words, "--seeds", "2", "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_a_stream_of_different_games_is_recorded(two_games, capsys):
    found = read_npz(two_games / "returns.npz")
    assert found["score"].shape[:2] == (5, 2)  # before the first update and after each, both games
    assert np.isfinite(found["score"]).all()
    assert found["score"].max() <= 4.0
    lines = [json.loads(line) for line in (two_games / "log.jsonl").read_text().splitlines()]
    assert len(lines) == 4
    assert main(["report", str(two_games)]) == 0
    shown = capsys.readouterr().out
    assert "Chase" in shown
    assert "Wide" in shown
    page = (two_games / "report" / "report.html").read_text()
    assert "Not normalised: the return of an episode as it is." in page


@pytest.mark.slow
def test_a_simulator_is_filmed(two_games, tmp_path, capsys):
    film = tmp_path / "film.gif"
    assert main(["watch", str(two_games), "--task", "2", "--out", str(film), "--trust"]) == 0
    with Image.open(film) as pictures:
        assert pictures.size == (24, 8)
        assert 2 <= pictures.n_frames <= 5
    assert "score" in capsys.readouterr().out


@pytest.mark.slow
def test_a_stopped_run_goes_on_with_new_episodes(tmp_path, monkeypatch):
    from brigade.runs.config import from_dict
    from brigade.runs.run import resume, run

    settings = {
        "benchmark": "gym",
        "env": {"ids": [f"{GAMES}:Chase", f"{GAMES}:Wide"], "horizon": 4},
        "num_envs": 2,
        "num_steps": 8,
        "steps_per_task": 32,
        "eval_every": 1,
        "eval_episodes": 2,
        "ppo": {"minibatches": 2, "epochs": 1},
        "network": {"hidden": [8]},
        "seeds": 2,
    }

    def interrupt(progress, *_):
        if progress.steps == 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(from_dict(settings), tmp_path / "run", watch=interrupt)
    resume(tmp_path / "run", trust=True)
    found = read_npz(tmp_path / "run" / "returns.npz")
    assert found["score"].shape[0] == 5
    assert np.isfinite(found["score"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["die", "hang"])
def test_a_simulator_that_dies_or_hangs_is_started_again(name, tmp_path, monkeypatch):
    """And counted; the run ends as if nothing had happened."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch()
    file = shutil.copy(GAMES, tmp_path)
    words = [*run_words("Breaks", file=file), "--env.processes", "--env.time-limit", "6"]
    assert main([*words, "--out", "run", "--quiet"]) == 0
    lines = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
    assert lines[-1]["metrics"]["simulator_restarts"] == [1.0]
    assert not (tmp_path / name).exists()


@pytest.mark.slow
def test_a_simulator_that_always_dies_ends_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in range(20):
        (tmp_path / f"die{number}").touch()
    file = shutil.copy(GAMES, tmp_path)
    words = [*run_words("Breaks", file=file), "--env.processes", "--out", "run", "--quiet"]
    assert main(words) == 2
    assert "has died (5 times in a row)" in capsys.readouterr().err


def test_learning_on_the_host():
    """CartPole is learned, from about 20 to 500, by the settings of `brigade run gym`."""
    from brigade.runs.assemble import assemble
    from brigade.runs.config import from_dict

    settings = {"benchmark": "gym", "env": {"ids": ["CartPole-v1"]}, "steps_per_task": 32768}
    parts = assemble(from_dict(settings | {"eval_every": 16}))
    rows = []
    for progress, position in parts.trainer.run(
        parts.sequences,
        parts.evaluator,
        seeds=parts.seeds,
        updates_per_task=16,
        eval_every=16,
    ):
        if progress.evaluated:
            rows.append(float(position.record.arrays()["score"][-1].mean()))
    assert rows[0] < 60.0
    assert rows[-1] > 300.0

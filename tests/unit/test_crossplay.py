"""Cross-play: who sits where, and what comes of it in tables and pictures."""

import csv
from collections import Counter
from dataclasses import replace
from importlib.resources import files

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.tell import TASK, Counts, Says, Tell

from brigade.benchmarks.meal_partners import OURS
from brigade.cli import main
from brigade.core import Cast, Group
from brigade.partners.files import load_policies
from brigade.report.crossplay import Matrix, cells, explanation, headline
from brigade.train.crossplay import cross_play

pytestmark = pytest.mark.slow

KEY = jax.random.key(0)


@pytest.mark.parametrize("agents", [2, 3])
def test_every_pair_plays_with_the_first_on_seat_0(agents):
    """Two architectures and one with a memory; scores are sums of what all said last."""
    cast = Cast(
        (Group(Says(), 3), Group(Counts(), 2), Group(Says(), 1)),
        (jnp.array([0, 1, 2]), jnp.array([0, 5]), jnp.array([7])),
        tuple("abcdef"),
    )
    said = np.array([0, 1, 2, 3, 8, 7])  # in the last of four steps
    found = cross_play(Tell(agents), TASK, cast, 3, KEY)
    expected = said[:, None] + (agents - 1) * said[None, :]
    assert found.score.shape == (6, 6, 3)
    np.testing.assert_array_equal(found.score[..., 2], expected)
    np.testing.assert_array_equal(found.score.std(-1), 0.0)
    over_the_game = np.array([0, 4, 8, 6, 26, 28])  # what seat 0 said in all four steps
    np.testing.assert_array_equal(found.returns[:, 3, 0], over_the_game)


def test_a_game_for_one_has_no_cross_play():
    with pytest.raises(ValueError, match="two seats or more"):
        cross_play(Tell(1), TASK, Cast(), 1, KEY)


def test_the_two_numbers_of_a_matrix_by_hand():
    """Each policy's mean with all others on both sides, then over policies."""
    score = np.array([[1.0, 0.2, 0.4], [0.0, 0.5, 0.6], [0.2, 0.4, 0.3]])[..., None]
    matrix = Matrix(("a", "b", "c"), np.concatenate([score, score], -1), score, "game")
    assert matrix.self_play().mean == pytest.approx(0.6)
    # a: (0.1 + 0.3) / 2, b: (0.1 + 0.5) / 2, c: (0.3 + 0.5) / 2
    assert matrix.cross_play().values == pytest.approx((0.2, 0.3, 0.4))
    assert cells(matrix)[1][:2] == ["0.00 (0.00 to 0.00)", "0.50 (0.50 to 0.50)"]
    assert "cross-play 0.30 (0.20 to 0.40)" in headline(matrix)[1]
    assert explanation(3, "policies") == "In brackets: the lowest and the highest of 3 policies."
    assert explanation(32, "episodes") == "± is half of the 95 % interval over episodes."


def test_a_policy_file_cannot_name_code(tmp_path, capsys, monkeypatch):
    """Nor does a name that looks like markup or mathematics do harm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("open('ran', 'w')")
    ours = load_policies(files("brigade.partners").joinpath(OURS))
    evil = replace(ours.only(["brdiv-1"]), origin={"benchmark": "evil.py:X", "env": {"a": 1}})
    named = replace(evil, members=[{"name": "[/red]$\\foo{$"}])
    (tmp_path / "myrun.safetensors").write_bytes(named.as_bytes())
    assert main(["crossplay", "myrun.safetensors"]) == 2
    assert "give --benchmark NAME" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.py", "myrun.safetensors"]
    game = ["--benchmark", "overcooked/layout", "--env.horizon", "10", "--episodes", "1"]
    assert main(["crossplay", "myrun.safetensors", *game, "--out", "cross"]) == 0
    assert "[/red]" in capsys.readouterr().out
    assert not (tmp_path / "ran").exists()


def test_cross_play_from_the_command_line(tmp_path, capsys, monkeypatch):
    """Names and a file; the game comes from the file."""
    monkeypatch.chdir(tmp_path)
    ours = str(files("brigade.partners").joinpath(OURS))
    words = [f"{ours}:brdiv-1", f"{ours}:brdiv-2", "static", "--episodes", "2", "--out", "cross"]
    assert main(["crossplay", *words]) == 0
    shown = capsys.readouterr().out
    assert "Scores in overcooked/layout, cramped_room, 2 episodes per pair" in shown
    assert "self-play" in shown
    rows = list(csv.DictReader((tmp_path / "cross" / "crossplay.csv").open()))
    assert Counter(row["seat_0"] for row in rows) == dict.fromkeys(
        ("brdiv-1", "brdiv-2", "static"), 3
    )
    assert {row["games"] for row in rows} == {"2"}
    assert float(rows[-1]["score"]) == 0.0  # two that stay where they are
    assert (tmp_path / "cross" / "crossplay.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "cross" / "crossplay.html").read_text()
    assert "<img" in page
    assert "brdiv-2" in page
    assert main(["crossplay", *words]) == 2  # nothing is overwritten
    assert "cross exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["random", "static"], "give --benchmark NAME"),
        (["random", "--benchmark", "meal/level-1", "--seed", "99999999999"], "seed is 99999999999"),
        (
            ["random", "--benchmark", "meal/level-1", "--env.num-agents", "1"],
            "two seats or more",
        ),
        (["random", "--benchmark", "meal/level-9"], "did you mean 'meal/level-"),
        (["nowhere.safetensors"], "there is no policy file nowhere.safetensors"),
        (["rndom", "--benchmark", "meal/level-1"], "did you mean 'random'"),
        (["random", "--benchmark", "meal/level-1", "--greedy"], "Random always samples"),
        (["random", "--benchmark", "overcooked/layout", "--env.layout", "x"], "unknown layout 'x'"),
        (
            ["random", "--benchmark", "meal/partners", "--task", "9"],
            "--tasks is 9, but there are 8 partners",
        ),
        ([], "the following arguments are required: POLICY"),
    ],
)
def test_bad_input_plays_nothing(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["crossplay", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())

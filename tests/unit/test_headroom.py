"""Headroom: what adapting to a test teammate of ICRL4AHT could gain at all."""

import json

import numpy as np
import pytest

from brigade.cli import main

WORDS = (
    "reproduce icrl4aht/headroom --layouts cramped_room_down --horizon 20 --instances 1 "
    "--episodes 3 --num-envs 4 --steps-per-task 160 --ppo.epochs 1 --ppo.minibatches 1 "
    "--network.hidden 8 --quiet"
).split()


@pytest.mark.slow
def test_every_teammate_has_a_random_a_static_and_a_best_response(tmp_path, capsys):
    words = [*WORDS, "--out", str(tmp_path / "h")]
    assert main(words) == 0
    rows = json.loads((tmp_path / "h/table.json").read_text())
    assert [row["teammate"] for row in rows] == [
        "h1:cramped_room_down-0",
        "h2:cramped_room_down-0",
        "h3:0",
        "h4:0",
    ]
    egos = np.load(tmp_path / "h/egos/returns.npz")["returns"]
    assert egos.shape == (1, 2, 4, 3)  # layouts, egos, teammates, episodes
    for place, row in enumerate(rows):
        assert row["random"] == pytest.approx(egos[0, 0, place].mean())
        assert row["static"] == pytest.approx(egos[0, 1, place].mean())
        assert row["headroom"] == pytest.approx(row["best_response"] - row["random"])
    # Each best response is that of its own seed, with its own teammate.
    run = np.load(tmp_path / "h/best_responses/cramped_room_down/returns.npz")
    axes = run["axes_returns"].tolist() if "axes_returns" in run else run["axes"].tolist()
    last = np.moveaxis(run["returns"], [axes.index("eval"), axes.index("seed")], [0, 1])[-1]
    found = [row["best_response"] for row in rows]
    np.testing.assert_allclose(found, last.reshape(4, -1).mean(-1))
    assert "down | h4:0 |" in (tmp_path / "h/table.md").read_text()
    capsys.readouterr()
    assert main([*words[:-2], "--layouts", "no_such_kitchen", "--out", str(tmp_path / "x")]) == 2
    assert "no_such_kitchen" in capsys.readouterr().err

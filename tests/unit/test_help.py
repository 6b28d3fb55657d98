"""`brigade run --help` shows the defaults that a run on this machine would have."""

import re

import jax
import pytest

from brigade.cli import main
from brigade.runs.config import from_dict


@pytest.mark.parametrize(
    ("backend", "words", "preset", "said"),
    [
        ("cpu", [], "laptop", "the preset laptop, which auto is on this machine (a CPU)"),
        ("gpu", [], "paper", "the preset paper, which auto is on this machine (a GPU)"),
        ("cpu", ["--preset", "paper"], "paper", "the preset paper. Others are shown by brigade"),
        ("gpu", ["--preset=laptop"], "laptop", "the preset laptop. Others are shown by brigade"),
    ],
)
def test_help_shows_the_defaults_of_a_run(backend, words, preset, said, monkeypatch, capsys):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert main(["run", "meal/level-2", *words, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    run = from_dict({"preset": preset}, ["meal/level-2"]).config
    for flag, value in (("tasks", run.tasks), ("num-envs", run.num_envs), ("seeds", run.seeds)):
        assert re.search(rf"--{flag} INT .*?\(default: (\d+)\)", shown)[1] == str(value)
    assert said in shown
    other = {"paper": "laptop", "laptop": "paper"}[preset]
    assert f"brigade run meal/level-2 --preset {other} --help." in shown

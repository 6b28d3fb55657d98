"""`brigade reproduce` alone: all targets, with costs that follow from their runs."""

import re
from pathlib import Path

import pytest

from brigade.benchmarks.zsc_scales import PAPER
from brigade.cli import bench, main
from brigade.cli.training import HANABI_STUDIES
from brigade.launch.overview import (
    RECORDED,
    SHOWS,
    TIMED,
    cost,
    overview,
    roughly,
    steps_of,
)
from brigade.launch.reproduce import settings_of
from brigade.launch.targets import TARGETS
from brigade.launch.zsc_study import Study
from brigade.runs.config import from_dict
from brigade.runs.speed import Speed

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.quick


def test_every_target_is_listed_within_80_columns():
    lines = list(overview("cpu"))
    assert set(SHOWS) == {*TARGETS, *HANABI_STUDIES, "zsc_eval/LAYOUT"}
    assert max(map(len, lines)) <= 80
    (table_2,) = [line for line in lines if " meal/table-2 " in line]
    assert table_2.startswith("* meal/table-2 ")
    assert "9 min" in table_2
    assert "six methods" in table_2


@pytest.mark.parametrize("name", ["meal/table-8", "meal/figure-18", "lifelong_hanabi/figure-5"])
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_steps_are_those_of_the_runs(name, scale):
    """Against the settings that a command would train with, up to whole rollouts."""
    target, total = TARGETS[name]("1"), 0.0
    for row in target.rows:
        if scale == "small" and row.heavy:
            continue
        config = from_dict(settings_of(target, row, scale == "small")).config
        total += config.total_tasks * config.steps_per_task * config.seeds
    assert steps_of(name, scale) == pytest.approx(total, rel=0.05)


def test_baselines_are_counted_once_for_all_methods():
    """Six methods, five seeds, 20 tasks of 1e8 steps, and baselines as large as one of them."""
    assert steps_of("meal/table-2", "paper") == 7 * 5 * 20 * 1e8
    assert steps_of("meal/table-3", "paper") == 8 * 5 * 20 * 1e8  # each number of cooks has its own


def test_steps_of_a_study_are_those_of_its_runs(tmp_path):
    """The runs that can be put together before anything is trained, and the egos by hand."""
    study = Study("coordination_ring", tmp_path, PAPER)
    runs = [study.candidates_run(), *(study.population_run(name) for name in study.populations())]
    total = sum(run.config.steps_per_task for _, run in runs)
    egos = 5 * (2 * 1e7 + 5 * 5e7)  # SP and E3T; FCP, MEP, TrajeDi, HSP and COLE
    assert steps_of("zsc_eval/LAYOUT", "paper") == pytest.approx(total + egos, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (3, "1 min"), (540, "9 min"), (5400, "1.5 h"), (9e4, "1.0 d"), (4e7, "1.3 y")],
)
def test_durations_are_rough(seconds, text):
    assert roughly(seconds) == text


def test_costs_follow_the_speed_of_the_machine():
    assert cost("meal/table-2", "small", "cpu", faster=2.0) == 60 * 4.5
    paper = cost("meal/table-2", "paper", "gpu")
    assert cost("meal/table-2", "paper", "gpu", faster=0.5) == 2 * paper
    assert cost("meal/table-2", "small", "gpu") is None  # nobody timed it
    assert cost("lifelong_hanabi/table-1", "paper", "gpu") is None


def test_measured_minutes_are_those_of_the_document():
    page = (DOCS / "verbs" / "reproduce.md").read_text(encoding="utf-8")
    for names, minutes in re.findall(r"^\| (`meal.*?) \|.*\| (\d+) min", page, re.M):
        for name in re.findall(r"`(meal/\S+?)`", names):
            if name not in ("meal/table-11",):
                assert TIMED[name] == int(minutes), name
    assert "`meal/table-12` took 8 min, `meal/table-13` 11" in page
    assert (TIMED["meal/table-12"], TIMED["meal/table-13"]) == (8, 11)


def test_recorded_results_have_a_page():
    for name, page in RECORDED.items():
        assert name in SHOWS
        assert (DOCS / "results" / page).exists()


def test_the_command_can_measure_the_machine(monkeypatch, capsys):
    monkeypatch.setattr(bench, "quick_speed", lambda: Speed(2 * 27.5e3, 0.0))
    assert main(["reproduce", "--measure"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "meal/table-2 4 min" in shown
    assert "this machine trains 2 times as fast" in shown

"""`brigade reproduce` alone: all targets, with costs that follow from their runs."""

from pathlib import Path

import pytest

from brigade.benchmarks.zsc_scales import PAPER
from brigade.cli import bench, main
from brigade.launch.cost import cost, roughly
from brigade.launch.overview import overview
from brigade.launch.targets import find_target, targets
from brigade.launch.zsc_study import Study
from brigade.runs.config import from_dict
from brigade.runs.speed import Speed

DOCS = Path(__file__).parents[2] / "docs"


def test_every_target_is_listed_within_80_columns():
    lines = list(overview("cpu"))
    listed = [line.split()[line.startswith("*")] for line in lines[1 : lines.index("")]]
    assert listed == list(targets())
    assert {"meal/100-tasks", "lifelong_hanabi/pool", "zsc_eval/LAYOUT"} < set(listed)
    assert all(target.shows for target in targets().values())
    assert max(map(len, lines)) <= 80
    (table_2,) = [line for line in lines if " meal/table-2 " in line]
    assert table_2.startswith("* meal/table-2 ")
    assert "9 min" in table_2
    assert "six methods" in table_2


@pytest.mark.parametrize("name", ["meal/table-8", "meal/figure-18", "lifelong_hanabi/figure-5"])
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_steps_are_those_of_the_runs(name, scale):
    """Against the settings that a command would train with, up to whole rollouts."""
    target, total = find_target(name), 0.0
    for row in target.rows:
        if scale == "small" and row.heavy:
            continue
        config = from_dict(target.settings(row, scale)).config
        total += config.total_tasks * config.steps_per_task * config.seeds
    assert target.steps(scale) == pytest.approx(total, rel=0.05)


def test_baselines_are_counted_once_for_all_methods():
    """Six methods, five seeds, 20 tasks of 1e8 steps, and baselines as large as one of them."""
    assert find_target("meal/table-2").steps("paper") == 7 * 5 * 20 * 1e8
    assert find_target("meal/table-3").steps("paper") == 8 * 5 * 20 * 1e8  # one per cooks


def test_steps_of_a_study_are_those_of_its_runs(tmp_path):
    """The runs that can be put together before anything is trained, and the egos by hand."""
    study = Study("coordination_ring", tmp_path, PAPER)
    runs = [study.candidates_run(), *(study.population_run(name) for name in study.populations())]
    total = sum(run.experiment.config.steps_per_task for run in runs)
    egos = 5 * (2 * 1e7 + 5 * 5e7)  # SP and E3T; FCP, MEP, TrajeDi, HSP and COLE
    assert targets()["zsc_eval/LAYOUT"].steps("paper") == pytest.approx(total + egos, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (3, "1 min"), (540, "9 min"), (5400, "1.5 h"), (9e4, "1.0 d"), (4e7, "1.3 y")],
)
def test_durations_are_rough(seconds, text):
    assert roughly(seconds) == text


def test_costs_follow_the_speed_of_the_machine():
    table_2, table_1 = find_target("meal/table-2"), find_target("lifelong_hanabi/table-1")
    assert cost(table_2, "small", "cpu", faster=2.0) == 60 * 4.5
    paper = cost(table_2, "paper", "gpu")
    assert cost(table_2, "paper", "gpu", faster=0.5) == 2 * paper
    assert cost(table_2, "small", "gpu") is None  # nobody timed it
    assert cost(table_1, "paper", "gpu") is None


def test_the_document_lists_all_targets_with_their_costs():
    page = (DOCS / "verbs" / "reproduce.md").read_text(encoding="utf-8")
    for line in overview("cpu"):
        assert line.rstrip() in page
    assert find_target("meal/table-12").minutes == 8


def test_recorded_results_have_a_page():
    pages = {target.recorded for target in targets().values()} - {""}
    assert len(pages) == 5
    assert all((DOCS / "results" / page).exists() for page in pages)


def test_the_command_can_measure_the_machine(monkeypatch, capsys):
    monkeypatch.setattr(bench, "quick_speed", lambda: Speed(2 * 27.5e3, 0.0))
    assert main(["reproduce", "--measure"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "meal/table-2 4 min" in shown
    assert "this machine trains 2 times as fast" in shown

"""Tables run again: every target can be started, runs are resumed, figures set side by side."""

import json
import re
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.run_folders import ALONE

from brigade import registry
from brigade.benchmarks.published import Figure, published_in
from brigade.errors import UserError
from brigade.launch import Job, Processes
from brigade.launch.comparison import Comparison, explanations, save
from brigade.launch.reproduce import reproduce
from brigade.launch.runs_target import Row, RunsTarget
from brigade.launch.stage import Runs
from brigade.launch.target import Request
from brigade.launch.targets import find_target, targets
from brigade.report.estimate import Estimate
from brigade.report.measures import of_tasks
from brigade.report.read import RunData, read_run
from brigade.report.summary import estimate, find
from brigade.runs import ensure
from brigade.runs.config import from_dict

MEETING = str(Path(__file__).parents[2] / "examples" / "meeting.py") + ":meeting"


put_together: set[str] = set()
TABLES = {name: target for name, target in targets().items() if isinstance(target, RunsTarget)}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_run_of_every_target_can_be_put_together(name):
    for level in ("1", "2", "3") if TABLES[name].levelled else (None,):
        target = find_target(name, level)
        for row in target.rows:
            for scale in target.scales if level in (None, "1") else ("paper",):
                settings = target.settings(row, scale)
                # Several targets have the same runs, but for their length.
                seen = json.dumps({**settings, "steps_per_task": None}, sort_keys=True)
                if seen not in put_together:
                    put_together.add(seen)
                    preset = from_dict(settings).config.preset
                    if "paper" in target.scales:
                        assert preset == ("laptop" if scale == "small" else "paper")
        assert set(target.measures) <= set(registry.names("measures"))


def test_small_tables_share_one_budget():
    for target in TABLES.values():
        if "paper" not in target.scales:  # controls are what they are
            continue
        runs = [target.settings(row, "small") for row in target.rows_at("small")]
        steps = sum(
            r["steps_per_task"] * r["tasks"] * r["seeds"] * r.get("repetitions", 1) for r in runs
        )
        assert steps <= 7.3e6


def test_a_cell_says_whether_our_seeds_cover_the_published_number():
    few = Comparison("EWC", "average score", Estimate((0.75, 0.85)), Figure(0.839, 0.03))
    ours = "0.80 (0.75 to 0.85)"
    assert few.texts() == ("EWC", "average score", ours, "0.84 ± 0.03", "-0.04", "yes")
    far = Comparison("EWC", "average score", Estimate((0.65, 0.75)), Figure(0.839))
    assert far.texts()[3:] == ("0.84", "-0.14", "no")
    # Five seeds: mean 0.7, interval 0.7 ± 0.20, which covers what no seed reached.
    many = Comparison("EWC", "average score", Estimate((0.5, 0.6, 0.7, 0.8, 0.9)), Figure(0.89))
    assert many.texts()[2:] == ("0.70 ± 0.20", "0.89", "-0.19", "yes")
    alone = Comparison("EWC", "average score", Estimate((0.70,)), Figure(0.839))
    assert alone.texts()[4:] == ("-0.14", "-")
    unknown = Comparison("EWC", "average score", Estimate((0.65, 0.75)), None)
    assert unknown.texts()[3:] == ("-", "-", "-")
    assert [note[:12] for note in explanations([few, many, alone])] == ["Within: whet"] * 2
    assert explanations([alone]) == []


def small_target(measures=("average_score", "forgetting", "forward_transfer")):
    rows = (
        Row("FT", {"benchmark": MEETING, "method": "ft"}),
        Row("L2", {"benchmark": MEETING, "method": "l2"}),
    )
    small = {
        "tasks": 2,
        "seeds": 2,
        "num_envs": 4,
        "num_steps": 24,
        "steps_per_task": 192,
        "eval_every": 1,
        "eval_episodes": 2,
        "ppo": {"epochs": 1, "minibatches": 1},
        "network": {"hidden": [8]},
    }
    published = {"FT": {"average_score": Figure(0.5, 0.1)}}
    return RunsTarget(
        "test/table",
        title="A table",
        rows=rows,
        measures=measures,
        small=small,
        published=published,
    )


@pytest.mark.slow
def test_a_table_is_run_saved_and_not_run_again(tmp_path, capsys, monkeypatch):
    target, request = small_target(), Request(tmp_path / "out")
    path = reproduce(target, request, quiet=True)
    shown = capsys.readouterr().out
    assert "Small scale" in shown
    assert path.read_text().count("\n| FT |") == 3
    numbers = json.loads((tmp_path / "out" / "table.json").read_text())
    assert {n["measure"] for n in numbers} == {"average score", "forgetting", "forward transfer"}
    assert (numbers[0]["published"], numbers[0]["published_half_width"]) == (0.5, 0.1)
    assert numbers[0]["apart"] == pytest.approx(numbers[0]["mean"] - 0.5)
    assert numbers[0]["within"] is (min(numbers[0]["seeds"]) <= 0.5 <= max(numbers[0]["seeds"]))
    assert all(np.isfinite(n["mean"]) for n in numbers if n["measure"] == "average score")
    assert len(list((tmp_path / "out" / "baselines").glob("*.npz"))) == 2  # one per seed

    beside = reproduce(target, Request(tmp_path / "beside"), Processes(2), quiet=True)
    assert beside.read_text() == path.read_text()

    def fail(*_, **__):
        raise AssertionError("run again")

    monkeypatch.setattr(ensure, "run", fail)
    monkeypatch.setattr(ensure, "resume", fail)
    for kept in (tmp_path / "out").rglob("checkpoints"):  # folders that travel come without
        shutil.rmtree(kept)
    again = reproduce(target, request, quiet=True)
    assert again.read_text() == path.read_text()
    with pytest.raises(UserError, match="was run with other settings"):
        reproduce(target, replace(request, words=["--seeds", "3"]), quiet=True)


STUDIES = ("lifelong_hanabi/pool", "lifelong_hanabi/table-2", "zsc_eval/coordination_ring")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["meal/table-9", *STUDIES])
def test_a_process_of_its_own_gets_the_settings_of_a_run(name, tmp_path):
    """For --jobs and --cluster: runs that need no files of earlier stages."""
    plan = find_target(name).plan(Request(tmp_path, "small", ["--eval-every", "3"]))
    runs = [run for stage in plan.stages if isinstance(stage, Runs) for run in stage.runs]
    first = [run for run in runs if not run.needs]
    assert first
    for run in first:
        settings = Job.of(run.name, run.path, run.experiment).settings
        assert from_dict({}, settings).as_dict() == run.experiment.as_dict()


def test_settings_that_a_config_lacks_have_their_defaults_and_strange_code_is_not_run(tmp_path):
    experiment = from_dict({"benchmark": "meal/partners", "preset": "laptop"})
    config = experiment.as_dict()
    assert ensure.has_settings(config, experiment)
    del config["env"]["reward"]
    assert ensure.has_settings(config, experiment)
    assert not ensure.has_settings(config | {"seeds": 7}, experiment)
    strange = tmp_path / "strange.py"
    strange.write_text("raise SystemExit('ran')")
    assert not ensure.has_settings(config | {"method": f"{strange}:Method"}, experiment)


METHODS = ["FT", "EWC", "Online EWC", "MAS", "L2", "AGEM"]  # the rows of Table 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "target", "folder", "measured", "rows"),
    [
        ("meal.md", "meal/table-2 --level 1", "meal-level-1", ("area gained",), METHODS),
        ("meal_partners.md", "meal/table-10", "meal-partners", (), ["FT", "L2"]),
    ],
)
def test_recorded_tables_come_out_of_their_folders_again(
    page, target, folder, measured, rows, tmp_path
):
    results = Path(__file__).parents[2] / "docs" / "results"
    text = (results / page).read_text(encoding="utf-8")
    words = re.search(rf"`brigade reproduce {target} --scale paper (.*)`", text)[1]
    shutil.copytree(results / folder, tmp_path / "runs")
    name, _, level = target.partition(" --level ")
    request = Request(tmp_path / "runs", "paper", words.split())
    path = reproduce(find_target(name, level or None), request, quiet=True)
    recorded = (results / folder / "table.md").read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8") == recorded
    lines = re.findall(r"\| (.+?) \| (.+?) \| (.+?) \| (.+?) \| .+? \| .+? \|", recorded)
    table = {(run, measure): (ours, theirs) for run, measure, ours, theirs in lines}
    for run in rows:
        cells = [*table[run, "average score"], *table[run, "forgetting"]]
        cells += [table[run, measure][0] for measure in (*measured, "after training")]
        shown = {"AGEM": "A-GEM"}.get(run, run)
        assert f"| {shown} | {' | '.join(cells)} |" in text


@pytest.mark.parametrize(("name", "number"), [("meal_settings.md", 5), ("meal_partners.md", 3)])
def test_recorded_figures_come_out_of_their_folders(name, number):
    results = Path(__file__).parents[2] / "docs" / "results"
    page = (results / name).read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| `(meal-.*)` \|$", page, re.M)
    assert len(rows) == number
    for line in page.splitlines():
        found = re.search(r"`(meal-[^`]*)` \|$", line)
        if found:
            run = read_run(results / found[1])
            for measure in ("average_score", "forgetting", "after_training"):
                found = find(measure)
                assert f"| {estimate(found, found.compute(run))} |" in line


def test_published_numbers_are_the_papers():
    """A few of each table, from the paper: the rows beside ours are no typing errors."""

    def figures_of(name, row, level=None):
        figures = find_target(name, level).published[row]
        return [(f.value, f.half_width) for f in figures.values()]

    ewc = [(0.604, 0.21), (0.027, 0.01), (-0.086, 0.34)]
    assert figures_of("meal/table-2", "EWC", "2") == ewc
    assert figures_of("meal/table-12", "EWC") == ewc
    assert figures_of("meal/table-2", "L2", "3") == [(0.127, 0.03), (0.096, 0.00), (-0.827, 0.04)]
    three = [(0.860, None), (0.197, None), (-0.129, None)]
    assert figures_of("meal/table-3", "3 cooks", "1") == three
    assert figures_of("meal/table-7", "curriculum") == [(0.668, 0.152), (0.653, 0.181)]
    ten = [(0.201, 0.018), (0.509, 0.022), (0.891, 0.066), (0.872, 0.070)]
    assert figures_of("meal/table-8", "10 x") == ten
    assert figures_of("meal/table-4", "10 x") == ten
    roles = [(0.68, 0.09), (0.03, 0.02), (-0.05, 0.09)]
    assert figures_of("meal/table-9", "chef and waiter") == roles
    assert figures_of("meal/table-10", "FT") == [(0.272, 0.03), (0.707, 0.02)]
    assert figures_of("meal/figure-16", "L2") == [(0.563, 0.04), (0.172, 0.02)]


def test_a_damaged_file_of_figures_names_the_table(tmp_path):
    (tmp_path / "lab.toml").write_text('[one]\ncolumns = ["a", "b"]\n[one.rows]\nFT = [0.9]\n')
    with pytest.raises(ValueError, match=r"lab.toml, \[one\]: zip"):
        published_in(tmp_path / "lab.toml", "one")


def test_a_published_figure_that_stands_beside_no_run_is_refused():
    for wrong in ({"FTT": {"forgetting": Figure(0.5)}}, {"FT": {"dormant": Figure(0.5)}}):
        (row,) = wrong
        with pytest.raises(ValueError, match=f"test/table has no row '{row}' with the measure"):
            replace(small_target(), published=wrong)


def run_data(**arrays):
    """A run of 2 tasks, 2 seeds."""
    score = arrays.pop("score")
    steps = arrays.pop("steps")
    log = arrays.pop("log", ())
    table = {
        "score": score[:, :, None, None, :, None],
        "returns": score[:, :, None, None, :, None],
        "steps": np.asarray(steps),
        "task_ends": np.asarray(arrays.pop("task_ends")),
        "task_names": np.array(["a", "b"]),
        "seeds": np.array([0, 1]),
        "repetitions": np.array(arrays.pop("repetitions", 1)),
    }
    return RunData(Path("run"), {}, ALONE | table | arrays, tuple(log), {})


def mean(name, run):
    """The mean of a measure over seeds."""
    return find(name).compute(run).mean()


def test_updates_without_an_episode_have_no_score():
    log = [{"steps": n, "metrics": {"score": s}} for n, s in enumerate([[None, None], [1.0, 2.0]])]
    run = run_data(score=np.zeros((2, 2, 2)), steps=[0, 8], task_ends=[4, 8], log=log)
    steps, score = run.logged("score")
    assert steps.tolist() == [1]
    assert score.tolist() == [[1.0, 2.0]]


def test_unknown_numbers_are_null_in_json(tmp_path):
    cell = Comparison("FT", "forgetting", Estimate(()), None)
    save(tmp_path, "title", [cell], [])
    text = (tmp_path / "table.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)[0]["mean"] is None


def test_after_training_by_hand():
    score = np.zeros((3, 2, 2))
    score[1, 0] = (0.8, 0.6)  # task 1 at its end
    score[2, 1] = (0.4, 1.0)  # task 2 at its end
    run = run_data(score=score, steps=[0, 10, 20], task_ends=[10, 20])
    assert mean("after_training", run) == pytest.approx(0.7)
    assert mean("average_score", run) == pytest.approx(0.35)
    half = of_tasks("half", Fraction(1, 2), Fraction(1))
    assert half.compute(run).mean() == pytest.approx(0.7)  # task 2 alone: (0.4 + 1.0) / 2
    assert find("forward_transfer").compute(run) is None  # no baselines


def test_plasticity_of_a_repeated_sequence_by_hand():
    """Task a learns 1, 1 then 0.5, 0.5; task b the same both times. Two updates per task."""
    scores = [1.0, 1.0, 2.0, 2.0, 0.5, 0.5, 2.0, 2.0]
    log = [
        {"steps": n, "metrics": {"score": [s, s], "dormant": [0.1, 0.3]}}
        for n, s in enumerate(scores)
    ]
    run = run_data(
        score=np.zeros((2, 2, 2)), steps=[0, 8], task_ends=[6, 8], repetitions=2, log=log
    )
    assert mean("auc_loss", run) == pytest.approx(0.25)  # (0.5 + 0) / 2
    assert mean("final_performance_ratio", run) == pytest.approx(0.75)
    assert mean("raw_auc_ratio", run) == pytest.approx(0.75)
    assert mean("dormant", run) == pytest.approx(0.2)
    assert run.task_starts.tolist() == [4, 6]  # of the second time
    gaps = [row | {"metrics": {"score": [None, None]}} for row in log[:4]] + log[4:]
    holed = run_data(
        score=np.zeros((2, 2, 2)), steps=[0, 8], task_ends=[2, 4], repetitions=2, log=[*gaps, *log]
    )
    assert find("auc_loss").compute(holed) is None  # 12 of 16 updates: not 3 for every visit
    bare = run_data(score=np.zeros((2, 2, 2)), steps=[0, 8], task_ends=[6, 8], repetitions=2)
    for name in ("auc_loss", "final_performance_ratio", "raw_auc_ratio", "dormant", "collapse"):
        assert find(name).compute(bare) is None  # folders that travel have no log or events
    once = run_data(score=np.zeros((2, 2, 2)), steps=[0, 8], task_ends=[4, 8])
    assert mean("auc_loss", once) == 0.0
    assert mean("raw_auc_ratio", once) == 1.0

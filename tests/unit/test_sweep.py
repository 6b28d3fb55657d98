"""Sweeps: every mistake is found before a run starts, nothing is done twice, the best is marked."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from support.run_folders import ALONE

from brigade.cli import main, sweeps
from brigade.core.benchmark import CONTINUAL_MEASURES
from brigade.launch import processes
from brigade.launch.sweep_figure import ENDINGS, as_numbers, is_wide, write_figure
from brigade.launch.sweep_plan import Over, Sweep, SweptRun, make_sweep, take_over
from brigade.launch.sweep_table import Outcome, Row, print_outcome, read_outcome, table
from brigade.report.read import RunData
from brigade.report.summary import find, summary
from brigade.runs.config import from_dict

MEETING = str(Path(__file__).parents[2] / "examples" / "meeting.py") + ":meeting"
TINY = (
    f"{MEETING} --tasks 2 --seeds 2 --num-envs 4 --num-steps 24 --steps-per-task 192 "
    "--eval-every 1 --eval-episodes 2 --network.hidden 8 --ppo.epochs 1 --ppo.minibatches 1"
).split()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "nothing to sweep; give a setting and its values: --over method-settings.coeffic"),
        ("--over", "--over has no setting; give"),
        ("--over method", "--over method has no values; give"),
        ("--over=method ft", "--over=method: give"),
        ("--over method ft ''", "--over method: a value is empty"),
        (
            "--from taken --over method ft ewc",
            "taken is a run folder; a sweep needs a file: brigade",
        ),
        ("--over method ft ewc ft", "--over method: ft is there 2 times; give it once"),
        ("--over method ft --over method ewc", "--over method is given twice"),
        ("--method ft --over method ft ewc", "method is given by --over and by itself; remove"),
        ("--greedy --over greedy true false", "greedy is given by --over and by itself"),
        ("--no-greedy --over greedy true false", "greedy is given by --over and by itself"),
        ("--over benchmark meal/level-2 meal/mix", "benchmark is given by --over and by itself"),
        (
            "--over ppo.clip 0.2 0.1 1e-1",
            "0.1 and 1e-1 are the same settings; give each value once",
        ),
        ("--over method ft ewcc", "unknown method 'ewcc': did you mean 'ewc'?"),
        ("--over method.coefficient 1 2", "unknown setting 'method.coefficient'"),
        ("--over ppo.epochs 1 two", "--ppo.epochs: 'two' is not an integer"),
        ("--over jobs 1 2", "unknown setting 'jobs'"),
        ("--over ppo.clip 0.1 -0.1", "clip is -0.1"),
        ("--over seed 1 2 --over ppo.minibatches 4 7", "with seed 1, minibatches 7: "),
        ("--over seed 1 2 --tasks 0", "tasks is 0"),
        ("--over seed 1 2 --out taken", "taken exists already and holds no sweep; choose another"),
        ("--over seed 1 2 --out taken/file", "taken/file is a file; --out must be a folder"),
        ("--over seed 1 2 --jobs 0", "0 is too small; it must be at least 1"),
        ("--over seed 1 2 --gpus-per-run 1", "--gpus-per-run is for a cluster; add --cluster"),
        ("--over seed 1 2 --cluster --jobs 2", "--jobs is for this machine; on a cluster"),
        ("--over seed 1 2 --cluster --gpus-per-run 1.5", "1.5 must be 0, a part of 1, or a who"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(here, capsys, monkeypatch, words, message):
    (here / "taken").mkdir()
    (here / "taken" / "file").touch()
    monkeypatch.setattr(processes, "start_process", pytest.fail)
    words = ["'" if word == "''" else word for word in words.split()]
    words = ["" if word == "'" else word for word in words]
    assert main(["sweep", "meal/level-1", "--preset", "laptop", *words]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert sorted(path.name for path in here.rglob("*")) == ["file", "taken"]


@pytest.mark.slow
def test_code_that_a_config_names_needs_trust(here, capsys, monkeypatch):
    monkeypatch.setattr(processes, "start_process", pytest.fail)
    (here / "mine.py").write_text("raise SystemExit('executed')\n")
    (here / "c.toml").write_text('benchmark = "meal/level-1"\nmethod = "mine.py:Mine"\n')
    words = ["sweep", "--config", "c.toml", "--over", "seed", "1", "2"]
    assert main(words) == 2
    assert "add --trust" in capsys.readouterr().err
    assert main([*words, "--trust"]) == 2
    assert "SystemExit: executed" in capsys.readouterr().err  # now it was


def test_far_too_many_runs_are_refused(here, capsys):
    seeds = [str(seed) for seed in range(40)]
    words = ["--over", "seed", *seeds, "--over", "tasks", *seeds]
    assert main(["sweep", "meal/level-1", *words]) == 2
    assert "that is 1,600 runs; a sweep has at most 1,000" in capsys.readouterr().err


def test_all_combinations_are_run_and_their_folders_can_be_read():
    words = "meal/level-1 --over method ft ./a.py:Mine --tasks 2 --over network.hidden".split()
    over, rest = take_over([*words, "8", "8 16", "--over", "seed_count", "-1"])
    assert rest == ["meal/level-1", "--tasks", "2"]
    assert over[0] == Over("method", ("ft", "./a.py:Mine"))
    assert over[1] == Over("network.hidden", ("8", "8 16"))
    assert over[2] == Over("seed-count", ("-1",))
    assert over[1].flags("8 16") == ["--network.hidden", "8", "16"]
    assert Over("network.multi-head", ()).flags("False") == ["--network.no-multi-head"]
    assert Over("from", ()).flags("x") == ["--start-from", "x"]

    over = [Over("method", ("l2", "ewc")), Over("network.hidden", ("8", "8 16"))]
    planned = make_sweep({}, ["meal/level-1", "--preset", "laptop", "--tasks", "2"], over, None)
    assert planned.folder == Path("sweeps/meal-level-1-method-hidden")
    names = [run.name for run in planned.runs]
    assert names == [f"method-{m}_hidden-{h}" for m in ("l2", "ewc") for h in ("8", "8-16")]
    experiment = planned.runs[3].experiment
    assert (experiment.config.method, experiment.learner.network.hidden) == ("ewc", (8, 16))
    assert experiment.config.tasks == 2

    by_benchmark = [Over("benchmark", ("meal/level-1", "meal/level-2"))]
    planned = make_sweep({"method": "ewc", "tasks": 1}, [], by_benchmark, None)
    assert planned.folder == Path("sweeps/ewc-benchmark")
    assert [run.name for run in planned.runs] == ["benchmark-level-1", "benchmark-level-2"]
    assert planned.runs[1].experiment.config.benchmark == "meal/level-2"


class Here(processes.Processes):
    """One run after another in this process, whose programs are compiled once."""

    started: list[str] = []  # noqa: RUF012

    def start(self, job):
        self.started.append(job.name)
        status = main([*job.words(), *self.flags])
        self.done = [(job, "" if status == 0 else f"status {status}")]

    def ended(self):
        return self.done


@pytest.mark.slow
def test_a_sweep_is_done_once_grows_and_outlives_a_failure(here, capsys, monkeypatch):
    monkeypatch.setattr(processes, "Processes", Here)
    started = Here.started = []
    words = ["sweep", *TINY, "--out", "out", "--over", "method", "ft"]
    assert main(words) == 0
    assert started == ["method-ft"]
    kept = (here / "out" / "method-ft" / "returns.npz").stat().st_mtime_ns
    capsys.readouterr()

    (here / "out" / "method-l2").touch()  # in the way
    assert main([*words, "l2", "--quiet"]) == 1
    shown = capsys.readouterr()
    assert shown.err.splitlines()[-1].startswith(
        "brigade: 1 of 2 runs failed; the same command tries them again: method-l2: status 2"
    )
    assert "Not finished: method-l2." in (here / "out" / "table.md").read_text()

    (here / "out" / "method-l2").unlink()
    assert main([*words, "l2"]) == 0
    assert started == ["method-ft", "method-l2", "method-l2"]
    assert (here / "out" / "method-ft" / "returns.npz").stat().st_mtime_ns == kept
    shown = capsys.readouterr().out
    assert "2 runs in out, 1 of them done" in shown
    assert "[1/1] method-l2 done" in shown
    with (here / "out" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    ours = {row["method"]: float(row["mean"]) for row in rows if row["measure"] == "average_score"}
    for method, mean in ours.items():
        arrays = np.load(here / "out" / f"method-{method}" / "returns.npz")
        assert mean == pytest.approx(arrays["score"][-1].mean())
    assert {(here / "out" / f"figure.{ending}").is_file() for ending in ENDINGS} == {True}

    record = json.loads((here / "out" / "sweep.json").read_text())
    assert record["over"] == [{"setting": "method", "values": ["ft", "l2"]}]
    for other, why in [
        (["--over", "method", "l2", "ewc"], "out is a sweep with method ft, too; give all its"),
        (["--over", "seed", "1", "2"], "out is a sweep over method; choose another --out"),
        (["--over", "method", "ft", "l2", "--tasks", "1"], "was run with other settings"),
    ]:
        assert main(["sweep", *TINY, "--out", "out", *other]) == 2
        assert why in capsys.readouterr().err
    (here / "out" / "sweep.json").write_text('{"over": [{"setting": 3, "values": []}]}')
    assert main([*words, "l2"]) == 2
    assert (
        "out/sweep.json is damaged (over: 'setting' is 3; it must be text)"
        in capsys.readouterr().err
    )
    assert started == ["method-ft", "method-l2", "method-l2"]


@pytest.mark.slow
def test_ctrl_c_prints_the_command_that_continues(here, capsys, monkeypatch):
    stopped = []

    class Stopped(Here):
        def start(self, job):
            raise KeyboardInterrupt

        def stop(self):
            stopped.append(True)

    monkeypatch.setattr(processes, "Processes", Stopped)
    words = ["sweep", *TINY[:-6], "--over", "network.hidden", "8", "8 8", "--quiet"]
    assert main(words) == 130
    assert stopped == [True]
    error = capsys.readouterr().err
    assert "brigade: stopped; continue with: brigade sweep " in error
    assert "--over network.hidden 8 '8 8' --quiet" in error


@pytest.mark.slow
def test_gpus_of_a_cluster_decide_the_preset_not_this_machine(here, monkeypatch):
    """The machine that starts a sweep may have no GPU."""
    found = []

    class Stop(Exception):
        pass

    def plan(tree, words, over, out):
        found.append(words)
        raise Stop

    monkeypatch.setattr("brigade.launch.sweep_plan.make_sweep", plan)
    monkeypatch.setattr(sweeps, "make_workers", lambda options, flags: None)
    for more in ([], ["--preset", "laptop"], ["--gpus-per-run", "0"]):
        with pytest.raises(Stop):
            main(["sweep", *"meal/mix --over seed 1 --cluster --gpus-per-run 1".split(), *more])
    assert [words[1:] for words in found] == [["--preset", "paper"], ["--preset", "laptop"], []]


# --- tables and figures, from numbers that are known ---


def row_with(values, scores, finished=True, before=2):
    """A run whose two tasks have these scores [seed] at the end, the first a multiple before."""
    scores = np.asarray(scores, dtype=np.float64)
    score = np.zeros((3, 2, len(scores)))
    score[1, 0], score[2, 0], score[2, 1] = before * scores, scores, scores
    table = {
        "score": score[:, :, None, None, :, None],
        "returns": score[:, :, None, None, :, None],
        "steps": np.array([0, 10, 20 if finished else 15]),
        "task_ends": np.array([10, 20]),
        "task_names": np.array(["a", "b"]),
        "seeds": np.arange(len(scores)),
        "repetitions": np.array(1),
    }
    config = {"benchmark": "meal/level-1", "method": "ewc"}
    data = RunData(
        Path("-".join(values)), config, ALONE | table, (), {}, measures=CONTINUAL_MEASURES
    )
    return Row("-".join(values), tuple(values), summary(data))


MISSING = Row("3e8", ("3e8",), None)


def test_the_best_of_every_measure_is_marked():
    rows = (
        row_with(["1e6"], [0.2, 0.4]),
        row_with(["1e7"], [0.5, 0.7]),
        row_with(["1e8"], [0.8, 0.9], finished=False),  # still changing
        MISSING,
    )
    outcome = Outcome((Over("method-settings.coefficient", ("1e6", "1e7", "1e8", "3e8")),), rows)
    assert outcome.best("average_score", find("average_score")) == [False, True, False, False]
    assert outcome.best("forgetting", find("forgetting")) == [False] * 4  # 0.5 twice
    assert outcome.best("collapse", find("collapse")) == [False] * 4
    lines = table(outcome).to_markdown().splitlines()
    best = rows[1].numbers.values["average_score"]
    assert lines[3].startswith(f"| 1e7 | **{best}** |")
    assert lines[5] == "| 3e8 | - | - | - |"
    assert outcome.notes()[-1] == "Not finished: 1e8, 3e8."
    console = Console(width=100, record=True)
    print_outcome(console, outcome)
    shown = console.export_text()
    assert "meal/level-1, ewc, 2 seeds, 2 tasks, 20 steps per seed" in shown
    assert shown.count(" *") == 2  # average score and after training


def test_the_lowest_is_best_where_less_is_better():
    rows = (row_with(["a"], [0.2], before=4), row_with(["b"], [0.2]))
    outcome = Outcome((Over("method", ("a", "b")),), rows)
    assert outcome.best("forgetting", find("forgetting")) == [False, True]


@pytest.mark.parametrize(
    ("over", "rows"),
    [
        (
            [("x", "1e6 1e7 1e8 3e8")],
            [
                *(
                    row_with([v], [s, s / 2, s / 3])
                    for v, s in [("1e6", 0.3), ("1e7", 0.8), ("1e8", 0.6)]
                ),
                MISSING,
            ],
        ),
        (
            [("method", "ft ewc")],
            [row_with([m], np.linspace(s, 1, 6)) for m, s in [("ft", 0.1), ("ewc", 0.7)]],
        ),
        (
            [("a.b", "1 2 3"), ("c", "x y")],
            [row_with([a, c], [int(a) / 3 * (c == "x")]) for a in "123" for c in "xy"],
        ),
        (
            [("a", "1 2"), ("b", "1 2"), ("c", "$x y")],
            [
                row_with([a, b, c], [int(a) / int(b), 0.1])
                for a in "12"
                for b in "12"
                for c in ("$x", "y")
            ],
        ),
    ],
    ids=["numbers", "names", "map", "list"],
)
def test_figures_are_written_in_three_formats_and_show_something(tmp_path, over, rows):
    over = tuple(Over(setting, tuple(values.split())) for setting, values in over)
    paths = write_figure(Outcome(over, tuple(rows)), tmp_path)
    assert [path.suffix for path in paths] == [".png", ".svg", ".pdf"]
    picture = np.asarray(Image.open(paths[0]).convert("L"))
    assert min(picture.shape) > 300
    assert (picture < 128).sum() > 500
    assert b"/FontFile2" in paths[2].read_bytes()  # fonts are embedded


def test_values_that_span_much_get_a_logarithmic_axis():
    assert is_wide(as_numbers(["1e6", "1e7", "1e8"]))
    assert not is_wide(as_numbers(["1", "2", "4"]))
    assert not is_wide(as_numbers(["0", "1000"]))
    assert as_numbers(["ft", "ewc"]) is None
    assert as_numbers(["1", "nan"]) is None


def test_runs_that_have_not_started_have_no_numbers(tmp_path):
    experiment = from_dict({"benchmark": "meal/level-1"})
    planned = Sweep(tmp_path, (Over("seed", ("1",)),), (SweptRun("a", ("1",), experiment),))
    outcome = read_outcome(planned)
    assert outcome.known == []
    assert outcome.measures == {}
    assert write_figure(outcome, tmp_path) == []

"""Runs that are made longer, start from others, crash early, or keep the user's code."""

import json
import shutil
import sys

import numpy as np
import pytest

from brigade import registry
from brigade.cli import main
from brigade.errors import UserError
from brigade.methods.ft import FineTuning
from brigade.methods.packnet import PackNet
from brigade.report import read_run
from brigade.report.numbers import write_csv
from brigade.report.summary import summary
from brigade.runs.extend import ended_phases
from brigade.runs.flags import as_flags
from brigade.runs.folder import RunFolder, RunFolderError
from brigade.runs.kept_files import copies, named_by_content
from brigade.runs.run import load, resume, run

pytestmark = pytest.mark.slow

TINY = {
    "benchmark": "meal/level-1",
    "tasks": 1,
    "seeds": 1,
    "steps_per_task": 2400,
    "num_envs": 2,
    "eval_every": 2,
    "eval_episodes": 2,
    "network": {"hidden": [8]},
    "ppo": {"minibatches": 4, "epochs": 1},
}


class CrashError(Exception):
    """Something went wrong."""


def crash_after(updates):
    """Stop a run without saving, as a crash does."""
    seen = []

    def watch(*_):
        seen.append(1)
        if len(seen) > updates:
            raise CrashError

    return watch


def did(path):
    return [json.loads(line)["did"] for line in (path / "sessions.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(TINY, tmp_path_factory.mktemp("runs") / "one").path


@pytest.fixture
def copied(finished, tmp_path):
    """A finished run that a test may change."""
    return shutil.copytree(finished, tmp_path / "run")


# --- longer ---


def test_more_repetitions_are_what_a_run_with_them_would_have_been(copied, tmp_path):
    resume(copied, repetitions=2)
    whole = run(TINY | {"repetitions": 2}, tmp_path / "whole").path
    assert (copied / "returns.npz").read_bytes() == (whole / "returns.npz").read_bytes()
    assert did(copied) == ["started", "extended"]


def test_a_run_gets_more_tasks(copied):
    before = np.load(copied / "returns.npz")
    trained = load(copied).params
    with pytest.raises(CrashError):  # the config has the new task, the checkpoint does not
        resume(copied, tasks=2, on_start=lambda: crash_after(0)())
    grown = load(copied)
    actions = 6
    assert trained["actor_head"]["bias"].shape == (1, actions)
    assert grown.params["actor_head"]["bias"].shape == (1, 2 * actions)
    old, new = trained["actor_head"]["kernel"], grown.params["actor_head"]["kernel"]
    np.testing.assert_array_equal(old, new[:, : old.shape[1], :actions])
    resume(copied)
    after = np.load(copied / "returns.npz")
    known = len(before["steps"])
    assert after["steps"].tolist() == [*before["steps"].tolist(), 4000, 4800]
    assert after["task_ends"].tolist() == [2400, 4800]
    np.testing.assert_array_equal(after["score"][:known, :1], before["score"])
    assert np.isnan(after["score"][:known, 1]).all()
    assert np.isfinite(after["score"][known:]).all()
    assert did(copied) == ["started", "extended", "resumed"]
    numbers = summary(read_run(copied))
    assert numbers.finished
    assert numbers.values["average_score"].mean == pytest.approx(after["score"][-1].mean())
    scores, *_ = write_csv([read_run(copied)], copied / "csv")
    assert len(scores.read_text().splitlines()) == 1 + known + 2 * 2  # no rows of unknown scores


def test_the_last_task_is_trained_longer(copied):
    resume(copied, steps_per_task=4000)
    arrays = np.load(copied / "returns.npz")
    assert arrays["steps"].tolist() == [0, 1600, 2400, 3200, 4000]
    assert arrays["task_ends"].tolist() == [4000]
    assert json.loads((copied / "config.json").read_text())["config"]["steps_per_task"] == 4000


def test_tasks_that_have_ended_stay_as_long_as_they_were(tmp_path):
    path = tmp_path / "two"
    with pytest.raises(CrashError):
        run(TINY | {"tasks": 2}, path, watch=crash_after(4))  # saved at the end of the first task
    resume(path, steps_per_task=4000)
    arrays = np.load(path / "returns.npz")
    assert arrays["task_ends"].tolist() == [2400, 6400]
    assert arrays["steps"].tolist() == [0, 1600, 2400, 4000, 5600, 6400]
    data = read_run(path)
    assert data.task_starts.tolist() == [0, 2400]
    assert summary(data).finished


def test_a_task_that_its_method_has_finished_goes_on_from_before(tmp_path):
    settings = TINY | {"method": "online_ewc"}
    with pytest.raises(RunFolderError, match="the method has ended a phase of it"):
        resume(run(settings, tmp_path / "a").path, steps_per_task=4000)
    path = run(settings, tmp_path / "b", checkpoint_minutes=0.0).path  # one from before is there
    resume(path, steps_per_task=4000)
    assert np.load(path / "returns.npz")["steps"].tolist() == [0, 1600, 3200, 4000]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--steps-per-task 100", "steps_per_task is 100; the run has 2400 and can only get more"),
        ("--steps-per-task nan", "steps_per_task"),
        ("--tasks 0", "it must be at least 1"),
        ("--tasks two", "is not an integer"),
        ("--repetitions 2 --steps-per-task 4000", "of a run with repetitions cannot change"),
        ("--tasks 99999999999", "memory"),
    ],
)
def test_lengths_that_cannot_be(finished, flags, message, capsys):
    before = (finished / "config.json").read_bytes()
    assert main(["resume", str(finished), *flags.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert (finished / "config.json").read_bytes() == before


def test_repeated_tasks_keep_their_number_and_length(copied):
    resume(copied, repetitions=2)
    for lengths in ({"tasks": 2}, {"steps_per_task": 4000}):
        with pytest.raises(UserError, match="of a run with repetitions cannot change"):
            resume(copied, **lengths)
    assert read_run(copied).repetitions == 2


def test_tasks_of_different_lengths_are_not_repeated(tmp_path):
    path = tmp_path / "two"
    with pytest.raises(CrashError):
        run(TINY | {"tasks": 2}, path, watch=crash_after(4))
    with pytest.raises(CrashError):
        resume(path, steps_per_task=4000, watch=crash_after(4), checkpoint_minutes=0.0)
    before = (path / "config.json").read_bytes()
    with pytest.raises(UserError, match="different lengths cannot be repeated"):
        resume(path, repetitions=2)
    assert (path / "config.json").read_bytes() == before


def test_phases_do_not_end_twice():
    method = PackNet(keep=0.5)  # pruned after 6 of 8 updates
    assert ended_phases(method, 8, 7) == ["train"]
    assert ended_phases(method, 16, 7) == []  # so a checkpoint from before is needed
    assert ended_phases(method, 16, 5) == ended_phases(method, 8, 5) == []
    assert ended_phases(FineTuning(), 8, 8) == []  # nothing happens at its ends
    with pytest.raises(ValueError, match="PackNet has divided all weights"):
        PackNet().check_longer(more_tasks=True)
    PackNet().check_longer(more_tasks=False)
    method.check_longer(more_tasks=True)


# --- from others, and from crashes ---


def test_a_run_starts_from_the_policy_of_another(finished, tmp_path, capsys):
    started = run(TINY | {"start_from": str(finished)}, tmp_path / "on")
    first, last = np.load(started.path / "returns.npz"), np.load(finished / "returns.npz")
    assert first["events"][0].sum() != last["events"][0].sum()  # not from initial parameters
    start = json.loads((started.path / "config.json").read_text())["config"]["start_from"]
    assert (started.path / start).is_file()
    assert load(started.path).returns["steps"][-1] == 2400
    tiny = as_flags({name: value for name, value in TINY.items() if name != "benchmark"})
    words = [TINY["benchmark"], *tiny, "--from", str(finished)]
    assert main(["plan", *words, "--no-measure"]) == 0
    for name in ("", ":one"):
        more = ["--from", f"{finished}{name}", "--tasks", "2", "--out", str(tmp_path / "other")]
        assert main(["run", *words[:-2], *more]) == 2
        error = capsys.readouterr().err
        assert "has another network than the learner: num_tasks is 1, here 2" in error


def test_a_folder_of_another_process_is_not_removed(tmp_path, monkeypatch):
    """Both made it at the same instant, and the other one was faster to lock it."""

    def taken(folder):
        (folder.path / "theirs").touch()
        raise RunFolderError("is being written by another process")

    monkeypatch.setattr(RunFolder, "lock", taken)
    with pytest.raises(RunFolderError, match="another process"):
        run(TINY, tmp_path / "run")
    assert (tmp_path / "run" / "theirs").exists()


def test_a_crash_before_the_first_checkpoint_is_taken_up_by_the_same_command(finished, tmp_path):
    path = tmp_path / "crashed"
    with pytest.raises(CrashError):
        run(TINY, path, watch=crash_after(1))
    with pytest.raises(RunFolderError, match="with other settings or code"):
        run(TINY | {"seed": 1}, path)
    run(TINY, path)
    assert (path / "returns.npz").read_bytes() == (finished / "returns.npz").read_bytes()
    assert len((path / "log.jsonl").read_text().splitlines()) == 3
    (tmp_path / "mine").mkdir()
    holder = RunFolder(tmp_path / "mine")
    holder.lock()  # another process has just begun here
    with pytest.raises(RunFolderError, match="is being written by another process"):
        run(TINY, tmp_path / "mine")
    assert (tmp_path / "mine" / ".lock").exists()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(RunFolderError, match="mine exists already; choose another --out"):
        run(TINY, tmp_path / "mine")


# --- the user's code ---

METHOD = """
from dataclasses import dataclass
from brigade.core import ContinualMethod
from {helper} import FACTOR

@dataclass(frozen=True)
class Mine(ContinualMethod):
    strength: float = FACTOR
"""


@pytest.fixture(scope="module")
def own_code(tmp_path_factory):
    """A run of a method in a file that imports a module next to it."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "mine.py").write_text(METHOD.format(helper="beside_mine"))
    (folder / "beside_mine.py").write_text("FACTOR = 3.0\n")
    path = run(TINY | {"method": f"{folder}/mine.py:Mine"}, folder / "run").path
    assert str(folder) not in sys.path
    return folder, path


def test_a_run_keeps_the_code_it_was_made_of(own_code):
    folder, path = own_code
    tree = json.loads((path / "config.json").read_text())
    (copy,) = tree["code"].values()
    assert (path / copy).read_bytes() == (folder / "mine.py").read_bytes()
    assert (path / copy).with_name("beside_mine.py").read_text() == "FACTOR = 3.0\n"
    session = json.loads((path / "sessions.jsonl").read_text())
    assert session["jax"]
    assert session["device"]
    assert session["brigade"] == tree["brigade"]


def test_changed_code_is_told_and_the_copy_is_used(own_code, capsys, monkeypatch):
    folder, path = own_code
    with pytest.raises(UserError, match="add --trust"):
        load(path)
    said = []
    monkeypatch.setitem(sys.modules, "beside_mine", None)  # a new process would not have it
    monkeypatch.delitem(sys.modules, "beside_mine")
    assert load(path, trust=True, warn=said.append).experiment.method.strength == 3.0
    assert said == []
    (folder / "beside_mine.py").write_text("FACTOR = 4.0\n")
    monkeypatch.delitem(sys.modules, "beside_mine")
    assert load(path, trust=True, warn=said.append).experiment.method.strength == 3.0
    assert len(said) == 1
    assert "mine.py has changed since this run started" in said[0]
    for file in ("mine.py", "beside_mine.py"):
        (folder / file).unlink()
    assert load(path, trust=True, warn=said.append).experiment.method.strength == 3.0
    assert main(["resume", str(path), "--trust", "--quiet"]) == 0
    (copy,) = (path / "code").glob("*/mine.py")
    copy.write_text(copy.read_text() + "# changed\n")
    with pytest.raises(UserError, match="is missing or was changed"):
        load(path, trust=True)


def test_nothing_but_sources_is_executed_from_a_copy(own_code, monkeypatch):
    _, path = own_code
    (copy,) = (path / "code").glob("*/mine.py")
    assert not list((path / "code").rglob("*.pyc"))  # loading leaves none behind
    hidden = copy.parent / "__pycache__" / "mine.cpython-311.pyc"
    hidden.parent.mkdir()
    hidden.write_bytes(b"\x00")
    with pytest.raises(UserError, match="is missing or was changed"):
        load(path, trust=True)
    hidden.unlink()
    hidden.parent.rmdir()


def test_a_folder_cannot_have_the_name_of_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')\n")
    folder = tmp_path / "evil.py:x"
    folder.mkdir()
    config = {"benchmark": "partners/0123456789abcdef.safetensors"}
    (folder / "config.json").write_text(json.dumps({"format": 1, "config": config}))
    with pytest.raises(UserError, match="rename the folder"):
        load("evil.py:x")


def test_a_copy_has_what_its_file_imports_and_nothing_else(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(METHOD.format(helper=f"helper_{name}"))
        (tmp_path / f"helper_{name}.py").write_text("import json\nFACTOR = 1.0\n")
    methods = [f"{tmp_path}/{name}.py:Mine" for name in ("one", "two")]
    for method in (*methods, *methods):
        registry.get("methods", method)
    _, files = copies({"method": methods[0]})
    assert sorted(name.rpartition("/")[2] for name in files) == ["helper_one.py", "one.py"]
    named = named_by_content({"method": methods[0], "tasks": 2})
    assert str(tmp_path) not in named["method"]
    assert named["method"].endswith("/one.py:Mine")
    (tmp_path / "helper_one.py").write_text("FACTOR = 2.0\n")
    assert named_by_content({"method": methods[0]})["method"] != named["method"]


def test_mistakes_in_a_method_are_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    head = "from dataclasses import dataclass\nfrom brigade.core import ContinualMethod\n"
    head += "@dataclass(frozen=True)\nclass Mine(ContinualMethod):\n    "
    words = ["run", *as_flags(TINY | {"method": "mine.py:Mine"})]
    words[1:3] = [TINY["benchmark"]]
    for body, message in (
        ("weight: float\n", "mine.py:Mine: the setting weight needs a default"),
        (
            "def loss(self, mem, base, params, learner, key):\n        import jax.numpy as jnp\n"
            "        return jnp.ones(3) * base(params)[0], {}\n",
            "Mine.loss must return a scalar, not shape (3,)",
        ),
    ):
        (tmp_path / "mine.py").write_text(head + body)
        shutil.rmtree("out", ignore_errors=True)
        assert main([*words, "--out", "out", "--quiet"]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_files_in_two_folders_may_have_helpers_of_the_same_name(tmp_path):
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "m.py").write_text(METHOD.format(helper="same_name"))
        (folder / "same_name.py").write_text(f"FACTOR = {number}.0\n")
    for number in (1, 2, 1):
        assert registry.get("methods", f"{tmp_path}/{number}/m.py:Mine")().strength == number

"""A run folder, a policy file and a config are a stranger's: whatever is in them, the answer is one
line and status 2. Nothing is executed, nothing outside the folder is written."""

import json
import os
import shutil
import socket

import pytest

from brigade.cli import main
from brigade.runs.run import run

TINY = {
    "benchmark": "meal/level-1",
    "tasks": 1,
    "seeds": 1,
    "steps_per_task": 1600,
    "num_envs": 2,
    "eval_every": 1,
    "eval_episodes": 2,
    "snapshots": 2,
    "network": {"hidden": [8]},
    "ppo": {"minibatches": 4, "epochs": 1},
}
READERS = ("resume {} --quiet", "report {}", "watch {}", "export {} --out film.safetensors")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One small run with two checkpoints, a report, snapshots and an exported file."""
    path = tmp_path_factory.mktemp("hostile") / "whole"
    run(TINY, path, checkpoint_minutes=0.0)
    assert main(["report", str(path)]) == 0
    assert main(["export", str(path), "--out", str(path.parent / "file.safetensors")]) == 0
    return path


class Place:
    """A copy of the run, with files of the user and code next to it that must stay as they are."""

    def __init__(self, folder, finished):
        self.folder, self.run, self.outside = folder, folder / "run", folder / "outside"
        shutil.copytree(finished, self.run)
        shutil.copy(finished.parent / "file.safetensors", self.run / "file.safetensors")
        self.outside.mkdir()
        (self.outside / "letter.txt").write_text("dear")
        (self.outside / "folder").mkdir()
        self.evil = self.outside / "evil.py"
        self.evil.write_text(f"open({str(folder / 'executed')!r}, 'w')\nclass X: pass\n")

    def state(self):
        """Everything outside the run folder: names and contents."""
        files = sorted(self.outside.rglob("*"))
        return [(f.name, f.read_bytes() if f.is_file() else b"") for f in files]


@pytest.fixture
def place(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, finished)


def refused(place, capsys, words, expected=(2,)):
    """The one line of a command that must fail; nothing may be executed or changed outside."""
    before = place.state()
    capsys.readouterr()
    status = main(words.format(place.run).split() if isinstance(words, str) else words)
    shown = capsys.readouterr()
    assert status in expected, shown.err
    assert "Traceback" not in shown.err
    *warnings, last = shown.err.splitlines()
    assert all("is damaged" in line for line in warnings), shown.err
    assert last.startswith("brigade: ")
    assert place.state() == before
    assert not (place.folder / "executed").exists()
    return last


# --- code ---


def config_with(place, change):
    path = place.run / "config.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"config": whole["config"] | change}))


CODE_IN_SETTINGS = [
    {"method": "{code}"},
    {"benchmark": "{code}"},
    {"learner": "{code}"},
    {"generator": "{code}"},
    {"partners": ["{code}"]},
    {"method": {"{code}": 1}},
    {"method": ["{code}"]},
    {"benchmark": {"a": "{code}"}},
    {"generator": [["{code}"]]},
    {"partners={code}": True},
    {"partners": {"{code}": 1}},
    {"env": {"partners": ["{code}"]}},
    {"ppo": {"a=1 --partners": "{code}"}},
    {"start_from": "{code}"},
]


@pytest.mark.parametrize("change", CODE_IN_SETTINGS, ids=str)
def test_code_in_a_config_is_not_executed(place, capsys, change):
    change = json.loads(json.dumps(change).replace("{code}", f"{place.evil}:X"))
    config_with(place, change)
    for words in (
        *READERS,
        "run --config {}/config.json --out new",
        "plan --config {}/config.json",
    ):
        if not words.startswith("report"):  # which reads names as text
            refused(place, capsys, words)
    settings = json.loads((place.run / "config.json").read_text())["config"]
    (place.run / "by_hand.json").write_text(json.dumps(settings))
    refused(place, capsys, "run --config {}/by_hand.json --out new")
    refused(place, capsys, "population --config {}/by_hand.json --out new")
    assert not (place.folder / "new").exists()


def test_code_named_where_a_name_becomes_text_is_not_executed(place, capsys):
    """The name of a file can be anything, such as how Python prints a dictionary."""
    trap = place.folder / "{'x.py"
    trap.write_text(place.evil.read_text())
    config_with(place, {"method": {"x.py": "1"}})
    for words in ("resume {} --quiet", "run --config {}/config.json --out new"):
        assert "method is an object of 1; it must be a name" in refused(place, capsys, words)


@pytest.mark.parametrize("name", ["their.toml", "their.json"])
def test_code_of_a_config_file_needs_trust_and_code_of_a_flag_does_not(place, capsys, name):
    text = f'benchmark = "meal/level-1"\nmethod = "{place.evil}:X"\n'
    if name.endswith("json"):
        text = json.dumps({"benchmark": "meal/level-1", "method": f"{place.evil}:X"})
    (place.folder / name).write_text(text)
    line = refused(place, capsys, f"run --config {name} --out new")
    assert line.endswith("evil.py:X; add --trust if you trust that file")
    for words in (
        f"plan --config {name} --trust --no-measure",
        f"plan meal/level-1 --method {place.evil}:X --no-measure",
    ):
        assert main(words.split()) == 2  # X is not a method
        assert "is not a method; it must be a frozen dataclass" in capsys.readouterr().err
        (place.folder / "executed").unlink()


def test_a_policy_file_names_neither_code_nor_other_files(place, capsys, monkeypatch):
    from brigade.commands.crossplay import find_benchmark
    from brigade.partners.files import Policies, load_policies
    from brigade.runs import config

    made = load_policies(place.run / "file.safetensors")
    seen = []
    monkeypatch.setattr(
        "brigade.commands.crossplay.from_dict",
        lambda tree, flags: seen.append(tree) or config.from_dict({"benchmark": "meal/level-1"}),
    )
    env = {"pool": "/somewhere", "x": [f"{place.evil}:X"], "view": 3, "y": "other.safetensors"}
    origin = {"benchmark": "meal/level-1", "env": env}
    find_benchmark(Policies(made.policy, made.params, made.game, made.members, origin), None, [])
    assert seen == [{"benchmark": "meal/level-1", "env": {"view": 3}}]


# --- links and pipes ---


def link_to_file(path, place):
    path.symlink_to(place.outside / "letter.txt")


def link_to_folder(path, place):
    path.symlink_to(place.outside / "folder")


def named_pipe(path, place):
    os.mkfifo(path)


def local_socket(path, place):
    server = socket.socket(socket.AF_UNIX)
    os.chdir(path.parent)  # the name of a socket must be short
    server.bind(path.name)
    server.close()
    os.chdir(place.folder)


PARTS = [
    ".lock",
    "log.jsonl",
    "config.json",
    "returns.npz",
    "report",
    "report/report.html",
    "pictures",
    "pictures/seed0-task1.png",
    "checkpoints",
    "checkpoints/.draft-00000001",
    "snapshots",
    "partners",
]


@pytest.mark.parametrize("make", [link_to_file, link_to_folder, named_pipe, local_socket])
def test_a_folder_with_anything_but_plain_files_is_refused(place, capsys, make):
    for part in PARTS:
        path = place.run / part
        kept = place.folder / "kept"
        if path.exists():
            path.rename(kept)
        make(path, place)
        for words in READERS:
            assert "it must be a plain file" in refused(place, capsys, words)
        path.unlink()
        if kept.exists():
            kept.rename(path)


@pytest.mark.parametrize("make", [named_pipe, local_socket])
def test_a_pipe_is_no_config_and_no_policy_file(place, capsys, make):
    make(place.folder / "x.toml", place)
    make(place.folder / "x.safetensors", place)
    assert "plain file" in refused(place, capsys, "run meal/level-1 --config x.toml --out new")
    words = "run meal/level-1 --partners x.safetensors --out new"
    assert "plain file" in refused(place, capsys, words)
    assert "plain file" in refused(place, capsys, "crossplay x.safetensors --out new")
    assert not (place.folder / "new").exists()


def test_the_run_folder_itself_may_be_a_link(place, capsys):
    place.run.rename(place.folder / "moved")
    place.run.symlink_to(place.folder / "moved")
    assert main(["report", "run"]) == 0


def test_a_second_name_of_another_file_is_not_written_through(place):
    """Hard links look like plain files: so no file is changed in place."""
    for name in (".lock", "log.jsonl"):
        (place.run / name).unlink()
        os.link(place.outside / "letter.txt", place.run / name)
    assert main(["resume", str(place.run), "--quiet"]) == 0
    assert (place.outside / "letter.txt").read_text() == "dear"


def test_what_a_killed_process_left_is_cleaned_up_on_resume(place):
    for name in (".draft-00000001", f".draft-{'a' * 16}"):
        (place.run / "checkpoints" / name / "state").mkdir(parents=True)
        (place.run / "checkpoints" / name / "state" / "part").write_text("half")
    (place.run / "checkpoints" / "notes").mkdir()
    assert main(["resume", str(place.run), "--quiet"]) == 0
    left = {path.name for path in (place.run / "checkpoints").iterdir() if not path.name.isdigit()}
    assert left == {"notes"}

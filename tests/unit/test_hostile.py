"""A run folder, a policy file and a config are a stranger's: whatever is in them, the answer is one
line and status 2. Nothing is executed, nothing outside the folder is written."""

import hashlib
import io
import json
import os
import resource
import shutil
import socket
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import tensorstore
from support.run_folders import TINY

from brigade.cli import main
from brigade.cli.crossplay import find_benchmark
from brigade.cli.training import finish
from brigade.errors import UserError
from brigade.partners.files import Policies, load_policies
from brigade.runs import config
from brigade.runs import folder as folders
from brigade.runs.folder import RunFolder, npz_bytes
from brigade.runs.run import resume, run

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("name", ["method", "benchmark", "learner", "generator", "preset"])
def test_a_name_is_text(place, capsys, name):
    """Whatever else it is could become the name of code when it is made text."""
    for value in (["ft"], {"ft": 1}, 3, None, True):
        config_with(place, {name: value})
        for words in ("resume {} --quiet", "run --config {}/config.json --out new"):
            assert "it must be a name" in refused(place, capsys, words)


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
        assert (
            "is not a method; it must be a subclass of brigade.core.ContinualMethod"
            in capsys.readouterr().err
        )
        (place.folder / "executed").unlink()


def test_a_policy_file_names_neither_code_nor_other_files(place, capsys, monkeypatch):
    made = load_policies(place.run / "file.safetensors")
    seen = []
    monkeypatch.setattr(
        "brigade.cli.crossplay.from_dict",
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
    f"checkpoints/.draft-{'a' * 16}",
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
            line = refused(place, capsys, words)
            assert "it must be a plain file" in line or "--out must be a folder" in line
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
    draft = place.run / "checkpoints" / f".draft-{'a' * 16}"
    (draft / "state").mkdir(parents=True)
    (draft / "state" / "part").write_text("half")
    (place.run / "checkpoints" / "notes").mkdir()
    assert main(["resume", str(place.run), "--quiet"]) == 0
    left = {path.name for path in (place.run / "checkpoints").iterdir() if not path.name.isdigit()}
    assert left == {"notes"}


# --- damage ---


def forge(checkpoint, name, content):
    """Change a file of a checkpoint and its hash in the manifest."""
    (checkpoint / name).write_bytes(content)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest[name] = hashlib.sha256(content).hexdigest()
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


DEEP = b"[" * 100_000
MANIFESTS = [b"", b"\xff\xfe", b"[]", b"3", b"null", DEEP, b'{"a": ' * 900 + b"1" + b"}" * 900]
MANIFESTS += [
    b'{"../../config.json": "0"}',
    b'{"/etc/passwd": "0"}',
    b'{"meta.json": ' + b"9" * 5000 + b"}",
]
MANIFESTS += [
    b'{"meta.json": ' + b"9" * 5000 + b"}",
    b'{"meta.json": 1e999}',
    b'{"meta.json": {}}',
    b'{"\\u0000": ""}',
]


def newest(place):
    return sorted((place.run / "checkpoints").iterdir())[-1]


@pytest.mark.parametrize("content", MANIFESTS, ids=range(len(MANIFESTS)))
def test_a_damaged_manifest_falls_back_to_the_checkpoint_before(place, finished, content):
    (newest(place) / "manifest.json").write_bytes(content)
    lines = []
    resume(place.run, warn=lines.append)
    assert len(lines) == 1
    assert "trying the one before it" in lines[0]
    assert (place.run / "returns.npz").read_bytes() == (finished / "returns.npz").read_bytes()


META = {"task": 0, "update": 2, "log_size": 0, "seconds": 1.0}
METAS = [b"", b"[]", DEEP, b"{}"]
METAS += [
    json.dumps(META | change).encode()
    for change in (
        {"task": -1},
        {"task": 10**6},
        {"task": "0"},
        {"update": 1.5},
        {"log_size": True},
        {"seconds": 1e300},
        {"seconds": None},
    )
]


@pytest.mark.parametrize("content", METAS, ids=range(len(METAS)))
def test_a_forged_meta_falls_back(place, content):
    forge(newest(place), "meta.json", content)
    lines = []
    resume(place.run, warn=lines.append)
    assert len(lines) == 1
    assert "meta.json" in lines[0]


def bomb(shape):
    """An array whose header promises more than there is."""
    header, content = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("score.npy", header.getvalue())
    return content.getvalue()


RECORDS = {
    "empty": lambda arrays: b"",
    "bomb": lambda arrays: bomb((10**6, 10**6)),
    "hollow": lambda arrays: bomb((0, 10**15)),
    "pickle": lambda arrays: npz_bytes(arrays | {"score": np.array([{}], dtype=object)}),
    "no score": lambda arrays: npz_bytes({k: v for k, v in arrays.items() if k != "score"}),
    "text": lambda arrays: npz_bytes(arrays | {"score": np.array("many")}),
    "seeds": lambda arrays: npz_bytes(arrays | {"seeds": np.arange(3)}),
    "episodes": lambda arrays: npz_bytes(
        arrays | {name: np.repeat(arrays[name], 2, -1) for name in ("score", "returns")}
    ),
    "repetitions": lambda arrays: npz_bytes(arrays | {"repetitions": np.array(0)}),
}


@pytest.mark.parametrize("how", RECORDS)
def test_a_forged_record_falls_back(place, how):
    checkpoint = newest(place)
    with np.load(checkpoint / "record.npz") as file:
        forge(checkpoint, "record.npz", RECORDS[how](dict(file)))
    lines = []
    resume(place.run, warn=lines.append)
    assert len(lines) == 1
    assert "record.npz" in lines[0]


def test_a_forged_state_that_no_memory_holds_falls_back(place):
    """Arrays on disk may leave parts out, so a small file can promise any size."""
    checkpoint = newest(place)
    state = checkpoint / "state"
    store = {"driver": "ocdbt", "base": f"file://{state}/", "path": "key/"}
    spec = {"driver": "zarr", "kvstore": store, "metadata": {"shape": [10**7, 10**7]}}
    spec["metadata"] |= {"chunks": [1, 1], "dtype": "<f4"}
    tensorstore.open(spec, create=True, delete_existing=True).result()
    manifest = {name: folders.digest(checkpoint / name) for name in folders.files_below(checkpoint)}
    del manifest["manifest.json"]
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    lines = []
    resume(place.run, warn=lines.append)
    assert len(lines) == 1
    assert "its arrays would fill 400 TB" in lines[0]


CONFIGS = [
    b"",
    b"\xff",
    DEEP,
    b'{"format": 1, "format": 1, "config": {}}',
    b'{"format": true, "config": {}}',
    b'{"format": 1, "config": []}',
    b'{"format": 1, "config": {"benchmark": "meal/level-1", "network": 3}}',
    b'{"format": 1, "config": {"benchmark": "meal/level-1", "ppo": [1]}}',
    b'{"format": 1, "config": {"benchmark": "meal/level-1", "seeds": 1' + b"0" * 5000 + b"}}",
    b'{"format": 1, "config": {"benchmark": "meal/level-1", "tasks": 1000000000000}}',
    b'{"format": 1, "config": {"benchmark": "meal/level-1", "partners": ["-h"]}}',
    b'{"format": 1, "config": {"benchmark": "meal/level-1", "partners": ["a\\u0000b"]}}',
    b'{"format": 2, "brigade": "\\u001b[2J", "config": {}}',
]


@pytest.mark.parametrize("content", CONFIGS, ids=range(len(CONFIGS)))
def test_a_damaged_config_is_one_line(place, capsys, content):
    (place.run / "config.json").write_bytes(content)
    before = {path: path.stat().st_mtime_ns for path in place.run.rglob("*")}
    for words in (*READERS, "run --config {}/config.json --out new"):
        if not words.startswith("report") or content in CONFIGS[:6]:  # it reads no settings
            assert "\x1b" not in refused(place, capsys, words)
    (place.folder / "x.toml").write_bytes(content)
    refused(place, capsys, "run --config x.toml --out new")
    after = {path: path.stat().st_mtime_ns for path in place.run.rglob("*")}
    assert {path.name for path in after.keys() ^ before.keys()} <= {".lock"}
    assert all(after[path] == before[path] for path in before if path.is_file())


TOMLS = [b"a = " + b"[" * 5000, b"a" + b".a" * 5000 + b" = 1", b"seeds = " + b"9" * 5000]
TOMLS += [b"seeds = 2020-01-01", b'[method]\na = "ft"', b"\xff", b"'--partners' = 'x'", b"a = nan"]


@pytest.mark.parametrize("content", TOMLS, ids=range(len(TOMLS)))
def test_a_damaged_toml_is_one_line(place, capsys, content):
    (place.folder / "x.toml").write_bytes(content)
    refused(place, capsys, "run meal/level-1 --config x.toml --out new")
    assert not (place.folder / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        "run meal/level-1 --tasks 1000000000000",
        "run meal/level-1 --seeds 1000000",
        "run meal/level-1 --num-envs 1000000000000",
        "run meal/level-1 --eval-episodes 1000000000000",
        "run meal/level-1 --network.hidden 1000000 1000000",
        "run meal/level-1 --ppo.epochs 1000000000000",
        "run meal/level-1 --method er --method-settings.memory-size 100000000000",
        "run meal/level-1 --method er --method-settings.sample-size 100000000000",
        "run meal/level-1 --learner iql --network.memory-layers 1000000",
        "run overcooked/layout --env.horizon 1000000000000",
        "run jaxnav/20 --env.situations 1000000000",
        "population overcooked/layout --members 1000000000",
        "layouts --num 1000000000000",
        "crossplay random --benchmark meal/level-1 --task 1000000000000",
        "crossplay random --benchmark meal/level-1 --episodes 1000000000000",
        "run meal/level-1 --method=",
        "run meal/level-1 --learner=",
    ],
)
def test_absurd_flags_are_refused_before_anything_is_made(place, capsys, words):
    before = sorted(place.folder.rglob("*"))
    refused(place, capsys, words)
    assert sorted(place.folder.rglob("*")) == before


# --- a full disk ---


def test_a_full_disk_in_a_checkpoint_is_one_error_and_nothing_is_lost(tmp_path, capfd):
    """Here a limit on the size of files, which Orbax meets in its own threads."""
    folder = RunFolder(tmp_path)
    folder.save_checkpoint(1, {"weights": np.zeros(3)}, {})
    capfd.readouterr()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    large = np.random.default_rng(0).random(100_000)
    try:
        with pytest.raises(OSError, match="File too large"):
            folder.save_checkpoint(2, {"one": large, "two": large + 1}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capfd.readouterr().err == ""
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000001"]
    assert [path.name for path in folder.valid_checkpoints(print)] == ["00000001"]


WRITES = ("write_atomically", "save_state")


def full_after(number, monkeypatch):
    """Let the disk be full after so many files."""
    written = []

    def limited(real):
        def write(*arguments):
            written.append(arguments[0])
            if len(written) > number:
                raise OSError(28, "No space left on device", str(arguments[0]))
            return real(*arguments)

        return write

    for name in WRITES:
        monkeypatch.setattr(folders, name, limited(getattr(folders, name)))


def test_a_disk_that_is_full_at_any_moment_leaves_a_run_that_can_go_on(
    finished, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    flags = ["--config", str(finished / "config.json"), "--quiet", "--checkpoint-minutes", "0"]
    for number in range(100):
        path = tmp_path / f"run{number}"
        with monkeypatch.context() as patch:
            full_after(number, patch)
            status = main(["run", *flags, "--out", str(path)])
        line = capsys.readouterr().err
        if status == 0:
            break
        assert (status, line.count("\n")) == (1, 1)
        assert "No space left on device" in line
        assert path.exists() == (f"continue with: brigade resume {path}" in line)
        assert not list(path.glob("checkpoints/.draft*"))
        if path.exists():
            assert main(["resume", str(path), "--quiet"]) == 0
            capsys.readouterr()
            assert (path / "returns.npz").read_bytes() == (finished / "returns.npz").read_bytes()
    assert number > 8


def test_a_full_disk_after_training_says_how_to_get_the_policies(tmp_path, monkeypatch, capsys):
    """The checkpoint of the run has them: nothing has to be trained again."""
    (tmp_path / "config.json").write_text("{}")

    def full(run, out, *_, **__):
        try:
            raise OSError(28, "No space left on device", str(out))
        except OSError as error:
            raise UserError(f"cannot write {out}: full; choose another --out") from error

    monkeypatch.setattr("brigade.cli.export.export", full)
    generator = SimpleNamespace(stages=("init", "final"))
    result = SimpleNamespace(path=tmp_path, experiment=SimpleNamespace(generator=generator))
    monkeypatch.setattr("brigade.cli.VERBS", {"population": lambda words: finish(result, True)})
    assert main(["population"]) == 1
    assert capsys.readouterr().err == (
        "brigade: No space left on device; once that is fixed, get the policies of the "
        f"complete run with: brigade export {tmp_path} --out {tmp_path}/population.safetensors "
        "--stages init final\n"
    )

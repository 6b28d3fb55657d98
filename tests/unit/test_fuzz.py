"""Whatever one file of a run folder, a policy file or a config becomes, commands end in one line.

Each example changes one file and gives one command. Training and playing are left out: they start
only when everything has been read.
"""

import copy
import hashlib
import io
import json
import os
import shutil
import signal
import tempfile
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from support.run_folders import TINY

from brigade.cli import main
from brigade.errors import UserError
from brigade.runs.folder import npz_bytes
from brigade.runs.run import run

pytestmark = pytest.mark.slow

SECONDS = 30  # of one command, far more than any needs
STARTED = "everything was read"
# More find more: BRIGADE_FUZZ_EXAMPLES=1000 make test
EXAMPLES = int(os.environ.get("BRIGADE_FUZZ_EXAMPLES", "60"))
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking would take minutes
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One small run, and its policies in a file."""
    path = tmp_path_factory.mktemp("fuzz") / "whole"
    run(TINY, path, checkpoint_minutes=0.0)
    assert main(["export", str(path), "--out", str(path / "file.safetensors")]) == 0
    alone = {"baseline_steps": np.array([0, 800, 1600]), "baseline_score": np.zeros((1, 1, 3))}
    (path / "baselines.npz").write_bytes(npz_bytes(alone))
    return path


def started(*_, **__):
    raise UserError(STARTED)


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    """Stop commands where they would train or play."""
    monkeypatch.setattr("brigade.runs.run._train", started)
    monkeypatch.setattr("brigade.cli.watch.play", started)
    monkeypatch.setattr("brigade.cli.crossplay.cross_play", started)


# --- what a file can become ---

EVIL = "{evil}:X"  # where code is that must not be executed
HOSTILE = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        3,
        10**12,
        10**30,
        2.5,
        1e300,
        float("nan"),
        float("inf"),
        "",
        "x",
        "-h",
        "--partners",
        "\x00",
        "\x1b[2J",
        "../../outside/letter.txt",
        "/dev/zero.safetensors",
        EVIL,
        [],
        [EVIL],
        [[1]],
        {},
        {EVIL: 1},
        {f"partners={EVIL}": True},
        ["random"] * 3,
    ]
)


def nodes(tree, path=()):
    """The paths of all values in a tree."""
    yield path
    items = enumerate(tree) if isinstance(tree, list) else getattr(tree, "items", tuple)()
    for key, value in items:
        yield from nodes(value, (*path, key))


def changed_tree(draw, tree):
    """One value of a tree replaced, removed or added."""
    tree = copy.deepcopy(tree)
    path = draw(st.sampled_from(list(nodes(tree))))
    value = draw(HOSTILE)
    if not path:
        return value
    node = tree
    for key in path[:-1]:
        node = node[key]
    how = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
    if how == "remove":
        del node[path[-1]]
    elif how == "add" and isinstance(node, dict):
        node[draw(st.sampled_from(["method", "partners", "generator", "x", f"a={EVIL}"]))] = value
    else:
        node[path[-1]] = value
    return tree


def changed_bytes(draw, content):
    """Bytes cut off, flipped, inserted or all replaced."""
    place = draw(st.integers(0, max(len(content) - 1, 0)))
    how = draw(st.sampled_from(["cut", "flip", "insert", "random", "deep"]))
    if how == "cut":
        return content[:place]
    if how == "random":
        return draw(st.binary(max_size=64))
    if how == "deep":
        return b"[" * 200_000
    new = draw(st.binary(min_size=1, max_size=8))
    return content[:place] + new + content[place + (len(new) if how == "flip" else 0) :]


def changed_json(draw, content):
    return json.dumps(changed_tree(draw, json.loads(content))).encode()


def changed_lines(draw, content):
    lines = content.splitlines()
    place = draw(st.integers(0, len(lines) - 1))
    lines[place] = changed_json(draw, lines[place])
    return b"\n".join(lines) + b"\n"


ARRAYS = [
    lambda array: array[:0],
    lambda array: array.reshape(-1),
    lambda array: array[None],
    lambda array: np.concatenate([array.ravel(), array.ravel()]),
    lambda array: array.astype(str),
    lambda array: np.full(array.shape, np.nan),
    lambda array: np.full(array.shape, -1),
    lambda array: np.full(array.shape, 10**15),
    lambda array: np.zeros((0, 10**15)),
    lambda array: np.array(3),
    lambda array: np.array({"a": 1}, dtype=object),
    lambda array: np.zeros(2, [("a", "f4")]),
]


def changed_arrays(draw, content):
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    name = draw(st.sampled_from(sorted(arrays)))
    change = draw(st.sampled_from([None, *ARRAYS]))
    if change is None:
        del arrays[name]
    else:
        array = np.atleast_1d(arrays[name])
        arrays[name] = change(array)
    return npz_bytes(arrays)


def changed_policy(draw, content):
    """A policy file with another header, or other metadata within it."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if draw(st.booleans()):
        header = changed_tree(draw, header)
    else:
        about = json.loads(header["__metadata__"]["brigade"])
        header["__metadata__"]["brigade"] = json.dumps(changed_tree(draw, about))
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


BY_SUFFIX = {
    ".json": changed_json,
    ".jsonl": changed_lines,
    ".npz": changed_arrays,
    ".safetensors": changed_policy,
}


def changed(draw, file, content):
    """What a file becomes."""
    structured = BY_SUFFIX.get(file.suffix, changed_json if file.name == "_METADATA" else None)
    if structured is not None and draw(st.integers(0, 3)):
        return structured(draw, content)
    return changed_bytes(draw, content)


# --- what must hold ---


@contextmanager
def time_limit():
    """Fail where a command hangs."""

    def late(*_):
        pytest.fail(f"no answer after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def said(words):
    """The status and the lines on standard error."""
    out = io.StringIO()
    with time_limit(), redirect_stderr(out), redirect_stdout(io.StringIO()):
        status = main(words)
    return status, out.getvalue().splitlines()


def everything_in(folder):
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


@contextmanager
def place_with(finished):
    """A folder with a copy of the run and with files that must stay as they are."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        folder = Path(name)
        shutil.copytree(finished, folder / "run")
        (folder / "outside").mkdir()
        (folder / "outside" / "letter.txt").write_text("dear")
        evil = folder / "outside" / "evil.py"
        evil.write_text(f"open({str(folder / 'executed')!r}, 'w')\nclass X: pass\n")
        yield folder, evil


def check(folder, words):
    """One line and status 2, or nothing wrong; nothing executed, nothing outside changed."""
    before = everything_in(folder / "outside")
    try:
        status, lines = said([word.format(folder / "run") for word in words])
    except SystemError as error:
        if "AST constructor recursion depth" not in str(error):
            raise
        reject()  # a defect of Python 3.11.7 and before: parsing a type's source fails by chance
    assert status in (0, 2), lines
    warnings = lines if status == 0 else lines[:-1]
    assert all("is damaged" in line for line in warnings), lines
    assert all(line.startswith("brigade: ") and line.isprintable() for line in lines), lines
    assert everything_in(folder / "outside") == before
    assert {path.name for path in folder.iterdir()} <= {"run", "outside", "new.safetensors"}


def reseal(checkpoint):
    """Make the hashes of a checkpoint right again, as a forger would."""
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    hashes = {str(f.relative_to(checkpoint)): hashlib.sha256(f.read_bytes()) for f in files}
    hashes.pop("manifest.json", None)
    manifest = {name: each.hexdigest() for name, each in hashes.items()}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


RUN_VERBS = [
    ["resume", "{}", "--quiet"],
    ["report", "{}"],
    ["watch", "{}"],
    ["export", "{}", "--out", "new.safetensors"],
    ["export", "{}", "--out", "new.safetensors", "--stages", "init", "final"],
]
FILES = ["log.jsonl", "returns.npz", "baselines.npz", "pictures/seed0-task1.png"]


@FUZZ
@given(data=st.data())
def test_a_run_folder_with_one_changed_file(finished, data):
    whole = [finished / name for name in FILES]
    whole += sorted((finished / "snapshots").iterdir())
    file = data.draw(st.sampled_from(whole))
    with place_with(finished) as (folder, evil):
        content = changed(data.draw, file, file.read_bytes())
        path = folder / "run" / file.relative_to(finished)
        path.write_bytes(content.replace(EVIL.encode(), f"{evil}:X".encode()))
        check(folder, data.draw(st.sampled_from(RUN_VERBS)))


@FUZZ
@given(data=st.data())
def test_a_checkpoint_with_one_changed_file(finished, data):
    newest = sorted((finished / "checkpoints").iterdir())[-1]
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    often = [newest / name for name in ("manifest.json", "meta.json", "record.npz")] * 4
    file = data.draw(st.sampled_from([*often, *files]))
    with place_with(finished) as (folder, _):
        path = folder / "run" / file.relative_to(finished)
        path.write_bytes(changed(data.draw, file, file.read_bytes()))
        if file.name != "manifest.json" and data.draw(st.integers(0, 3)):
            reseal(folder / "run" / newest.relative_to(finished))
        check(folder, data.draw(st.sampled_from(RUN_VERBS)))


@FUZZ
@given(data=st.data())
def test_a_changed_config(finished, data):
    with place_with(finished) as (folder, evil):
        path = folder / "run" / "config.json"
        content = changed(data.draw, path, path.read_bytes())
        path.write_bytes(content.replace(EVIL.encode(), f"{evil}:X".encode()))
        plan = ["plan", "--config", "{}/config.json", "--no-measure"]
        check(folder, data.draw(st.sampled_from([*RUN_VERBS, plan, plan])))


@FUZZ
@given(data=st.data())
def test_a_changed_policy_file(finished, data):
    with place_with(finished) as (folder, evil):
        path = folder / "run" / "file.safetensors"
        content = changed(data.draw, path, path.read_bytes())
        path.write_bytes(content.replace(EVIL.encode(), f"{evil}:X".encode()))
        words = [
            ["crossplay", "{}/file.safetensors", "--out", "new"],
            ["plan", "meal/level-1", "--partners", "{}/file.safetensors", "--no-measure"],
            ["plan", "meal/level-1", "--from", "{}/file.safetensors", "--no-measure"],
        ]
        check(folder, data.draw(st.sampled_from(words)))


@FUZZ
@given(data=st.data())
def test_a_changed_toml(finished, data):
    """TOML has no null and writes = for a colon; the rest of JSON is much like it."""
    tree = changed_tree(data.draw, TINY)
    rows = tree.items() if isinstance(tree, dict) else [("x", tree)]
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in rows]
    content = "\n".join(lines).replace(": ", " = ").encode()
    if not data.draw(st.integers(0, 3)):
        content = changed_bytes(data.draw, content)
    with place_with(finished) as (folder, evil):
        path = folder / "run" / "x.toml"
        path.write_bytes(content.replace(EVIL.encode(), f"{evil}:X".encode()))
        check(folder, ["plan", "--config", "{}/x.toml", "--no-measure"])

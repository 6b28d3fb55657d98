"""Run folders: what is in them, and that nothing is lost, overwritten or executed."""

import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import brigade
from brigade import registry
from brigade.errors import UserError
from brigade.report import read_run
from brigade.runs import folder as folders
from brigade.runs import progress as progress_module
from brigade.runs.assemble import assemble
from brigade.runs.config import MAX_UPDATES, from_dict
from brigade.runs.folder import RunFolder, RunFolderError, write_atomically
from brigade.runs.interrupt import until_ctrl_c
from brigade.runs.run import load, resume, run
from brigade.runs.sinks import Sinks
from brigade.runs.writer import RunWriter
from brigade.train import Position, Progress, Trainer

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden" / "data"
SMALL = {
    "benchmark": "meal/level-1",
    "tasks": 2,
    "seeds": 2,
    "seed": 3,
    "steps_per_task": 2400,
    "num_envs": 2,
    "eval_every": 2,
    "eval_episodes": 2,
    "network": {"hidden": [8]},
    "ppo": {"minibatches": 4, "epochs": 1},
}
SMALL_FLAGS = (
    "meal/level-1 --tasks 2 --seeds 2 --seed 3 --steps-per-task 2400 --num-envs 2 --eval-every 2 "
    "--eval-episodes 2 --network.hidden 8 --ppo.minibatches 4 --ppo.epochs 1"
).split()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One small run, never stopped."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    return run(SMALL, path, checkpoint_minutes=0.0)


def test_a_run_folder_has_everything_in_it(finished):
    path = finished.path
    config = json.loads((path / "config.json").read_text())
    assert config["format"] == 1
    assert config["config"]["ppo"]["epochs"] == 1
    assert config["config"]["steps_per_task"] == 2400
    rows = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    assert [(row["task"], row["update"]) for row in rows] == [
        (task, update) for task in (0, 1) for update in (1, 2, 3)
    ]
    assert len(rows[0]["metrics"]["loss"]) == 2
    with np.load(path / "returns.npz", allow_pickle=False) as arrays:
        assert arrays["axes"].tolist() == ["eval", "task", "partner", "seat", "seed", "episode"]
        assert arrays["score"].shape == (5, 2, 1, 1, 2, 2)
        assert arrays["steps"].tolist() == [0, 1600, 2400, 4000, 4800]
        assert arrays["task_ends"].tolist() == [2400, 4800]
        assert arrays["seeds"].tolist() == [3, 4]
    assert (path / "pictures" / "seed4-task2.png").is_file()
    assert len(list((path / "checkpoints").iterdir())) == 2


def test_the_config_runs_again_to_the_same_numbers(finished, tmp_path):
    config = json.loads((finished.path / "config.json").read_text())["config"]
    again = run(config, tmp_path / "again")
    assert (again.path / "returns.npz").read_bytes() == (finished.path / "returns.npz").read_bytes()


def test_a_run_that_exists_is_not_overwritten(finished):
    before = (finished.path / "config.json").stat().st_mtime_ns
    with pytest.raises(RunFolderError, match="exists already; continue it with 'brigade resume"):
        run(SMALL, finished.path)
    assert (finished.path / "config.json").stat().st_mtime_ns == before


def test_two_processes_cannot_write_one_run(finished):
    holder = RunFolder.open(finished.path)
    holder.lock()
    with pytest.raises(RunFolderError, match="is being written by another process"):
        resume(finished.path)


def test_a_recorded_run_is_resumed_and_ends_as_it_did_then(tmp_path):
    with tarfile.open(GOLDEN / "recorded_run.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    path = tmp_path / "recorded_run"
    assert read_run(path).score.shape[1:] == (2, 1)
    assert load(path).params["actor_head"]["bias"].shape == (1, 12)
    resume(path)
    before, after = (np.load(path / name) for name in ("expected_returns.npz", "returns.npz"))
    known = len(before["steps"]) - 1  # evaluations before it was stopped
    for name in ("score", "returns", "events"):
        np.testing.assert_array_equal(before[name][:known], after[name][:known])
    losses = [
        [json.loads(line)["metrics"]["loss"] for line in (path / name).read_text().splitlines()]
        for name in ("expected_log.jsonl", "log.jsonl")
    ]
    assert len(losses[0]) == 8
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)  # compiled by other flags


def stopped_run(path, after, settings=SMALL):
    """A run that was interrupted after some updates, as by Ctrl-C."""
    seen = []

    def interrupt(progress, position, experiment):
        seen.append(progress)
        if len(seen) > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, path, watch=interrupt)


SAME_STATE_AS_EWC = {"l2", "mas", "online_ewc"}


@pytest.mark.parametrize("name", sorted({*registry.names("methods")} - {"ft"} - SAME_STATE_AS_EWC))
def test_a_run_of_every_method_ends_the_same_after_a_stop(name, tmp_path):
    """Stopped in the second task, when methods remember the first."""
    settings = SMALL | {"method": name}
    if name in ("agem", "er"):
        settings |= {"method_settings": {"memory_size": 64, "sample_size": 16}}
    whole = run(settings, tmp_path / "whole")
    stopped_run(tmp_path / "stopped", 5, settings)
    resume(tmp_path / "stopped")
    logs = [
        [json.loads(line)["metrics"] for line in (path / "log.jsonl").read_text().splitlines()]
        for path in (whole.path, tmp_path / "stopped")
    ]
    assert logs[0] == logs[1]
    returns = [(path / "returns.npz").read_bytes() for path in (whole.path, tmp_path / "stopped")]
    assert returns[0] == returns[1]


@pytest.mark.parametrize("after", [0, 2, 3, 5])
def test_ctrl_c_leaves_a_run_that_ends_the_same(finished, tmp_path, after):
    stopped_run(tmp_path / "run", after)
    resume(tmp_path / "run")
    for name in ("returns.npz", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (finished.path / name).read_bytes()
    logs = [(p / "log.jsonl").read_text().splitlines() for p in (tmp_path / "run", finished.path)]
    drop = [[json.loads(line) | {"seconds": 0} for line in log] for log in logs]
    assert drop[0] == drop[1]


def damage(file, how):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2] if how == "truncated" else b"x" + content[1:])


@pytest.mark.parametrize("how", ["truncated", "changed"])
@pytest.mark.parametrize("which", ["record.npz", "state"])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_used(finished, tmp_path, how, which):
    path = shutil.copytree(finished.path, tmp_path / "run")
    newest = sorted((path / "checkpoints").iterdir())[-1]
    target = newest / which
    if target.is_dir():
        target = max((p for p in target.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    damage(target, how)
    lines = []
    resume(path, warn=lines.append)
    assert len(lines) == 1
    assert "is damaged" in lines[0]
    assert newest.name in lines[0]
    assert (path / "returns.npz").read_bytes() == (finished.path / "returns.npz").read_bytes()


def test_with_no_valid_checkpoint_a_run_starts_over(finished, tmp_path):
    path = tmp_path / "run"
    stopped_run(path, 4)
    for manifest in path.rglob("manifest.json"):
        manifest.unlink()
    resume(path, warn=lambda line: None)
    assert (path / "returns.npz").read_bytes() == (finished.path / "returns.npz").read_bytes()


def test_a_full_disk_leaves_a_run_that_resumes(finished, tmp_path, monkeypatch):
    path = tmp_path / "run"
    real, calls = folders.write_atomically, []

    def full(target, content):
        calls.append(target)
        if len(calls) == 4:
            raise OSError(28, "No space left on device", str(target))
        real(target, content)

    monkeypatch.setattr(folders, "write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        run(SMALL, path, checkpoint_minutes=0.0)
    monkeypatch.undo()
    resume(path, warn=lambda line: None)
    assert (path / "returns.npz").read_bytes() == (finished.path / "returns.npz").read_bytes()


@pytest.mark.parametrize(
    ("size", "kept"),
    [
        (99, b"first\nsecond\n"),  # a crash lost what the checkpoint had seen logged
        (16, b"first\nsecond\n"),
        (13, b"first\nsecond\n"),
        (9, b"first\n"),
        (0, b""),
    ],
)
def test_a_log_is_cut_to_whole_lines_and_never_lengthened(tmp_path, size, kept):
    folder = RunFolder(tmp_path)
    folder.log_path.write_bytes(b"first\nsecond\nthi")
    folder.truncate_log(size)
    assert folder.log_path.read_bytes() == kept


def test_a_log_that_is_gone_is_cut_to_nothing(tmp_path):
    RunFolder(tmp_path).truncate_log(7)
    assert (tmp_path / "log.jsonl").read_bytes() == b""


def test_a_run_whose_log_lost_its_end_goes_on_with_a_log_that_can_be_read(finished, tmp_path):
    path = tmp_path / "run"
    stopped_run(path, 4)  # four updates are logged
    log = path / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-10])
    resume(path)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    logged = [(row["task"], row["update"]) for row in rows]
    assert logged == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    assert (path / "returns.npz").read_bytes() == (finished.path / "returns.npz").read_bytes()


def test_two_processes_may_write_one_file_at_the_same_time(tmp_path, monkeypatch):
    """The second begins and ends while the first has yet to rename its draft."""
    path, real, others = tmp_path / "shared", os.fsync, [b"of the second"]

    def written_by_another(descriptor):
        real(descriptor)
        if others:
            write_atomically(path, others.pop())
            assert path.read_bytes() == b"of the second"

    monkeypatch.setattr(os, "fsync", written_by_another)
    write_atomically(path, b"of the first")
    assert path.read_bytes() == b"of the first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


class NothingRecorded:
    """Stands in for the record of a run."""

    def arrays(self):
        return {}


def save_at(folder, task, update):
    """A checkpoint of a run that stands there."""
    position = Position(task, update, {"weights": jnp.zeros(2)}, NothingRecorded())
    RunWriter(folder, 0.0, 0.0).save(position)


def kept_positions(folder):
    """The tasks and updates of all checkpoints, newest first."""
    metas = [path / "meta.json" for path in folder.valid_checkpoints(print)]
    found = [json.loads(meta.read_text()) for meta in metas]
    return [(meta["task"], meta["update"]) for meta in found]


@pytest.mark.parametrize("updates", [1_000_001, 2_000_000, MAX_UPDATES])
def test_checkpoints_are_told_apart_after_any_number_of_updates(tmp_path, updates):
    folder = RunFolder(tmp_path)
    save_at(folder, 0, updates - 1)
    save_at(folder, 0, updates)
    save_at(folder, 1, 1)
    assert kept_positions(folder) == [(1, 1), (0, updates)]


def test_a_loaded_run_has_policies_that_act(finished):
    loaded = load(finished.path)
    assert loaded.returns["score"].shape == (5, 2, 1, 1, 2, 2)
    env, task = loaded.parts.benchmark.env, loaded.parts.sequences[1][0]
    _, now = env.reset(jax.random.key(0), task)
    params = loaded.acting_params(seed=1, task=0)
    action, _, _ = loaded.parts.learner.policy.act(params, (), now.view, jax.random.key(1))
    assert action.shape == (2,)


def test_a_strangers_run_executes_nothing(finished, tmp_path):
    """A config that points at a file of code, and arrays that are pickles, are refused."""
    path = tmp_path / "theirs"
    path.mkdir()
    (path / "evil.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\nclass X: pass\n")
    config = json.loads((finished.path / "config.json").read_text())
    config["config"]["method"] = f"{path}/evil.py:X"
    (path / "config.json").write_text(json.dumps(config))
    for act in (load, resume):
        with pytest.raises(UserError, match="add --trust if you trust that file"):
            act(path)
    np.savez(path / "returns.npz", score=np.array([object()], dtype=object))
    with pytest.raises(RunFolderError, match="is damaged"):
        RunFolder.open(path).read_returns()
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged"),
        ('{"format": 1}', "is damaged"),
        ('{"format": 2, "brigade": "9.0", "config": {}}', "format 2, this Brigade reads 1"),
    ],
)
def test_a_broken_or_newer_config_is_told_so(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=message):
        load(tmp_path)


def test_a_missing_run_is_told_so(tmp_path):
    with pytest.raises(RunFolderError, match="there is no run folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match="is not a run folder"):
        load(tmp_path)


def brigade_process(words):
    environment = os.environ | {"XDG_CACHE_HOME": str(Path(__file__).parents[2] / ".cache")}
    command = [sys.executable, "-m", "brigade", *words]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def saved(path):
    """The names of the checkpoints so far."""
    folder = path / "checkpoints"
    return {p.name for p in folder.iterdir()} if folder.exists() else set()


def kill_while_learning(process, path, delay):
    """Wait until the process has saved something new, then a moment more, then kill it."""
    before = saved(path)
    while saved(path) <= before and process.poll() is None:
        os.sched_yield()
    moment = time.monotonic() + delay
    while time.monotonic() < moment and process.poll() is None:
        os.sched_yield()
    process.kill()
    return process.wait()


def test_a_process_killed_at_any_moment_resumes_to_the_same_end(finished, tmp_path):
    """Real processes, killed while they learn and save; returns.npz ends bit for bit alike."""
    rng = np.random.default_rng(int(os.environ.get("BRIGADE_KILL_SEED", "0")))
    path = tmp_path / "run"
    words = ["run", *SMALL_FLAGS, "--out", str(path), "--checkpoint-minutes", "0", "--quiet"]
    codes = []
    for _ in range(3):
        codes.append(kill_while_learning(brigade_process(words), path, rng.uniform(0.0, 0.2)))
        words = ["resume", str(path), "--checkpoint-minutes", "0", "--quiet"]
    assert codes[0] == -signal.SIGKILL  # later ones may have been too quick for us
    assert brigade_process(words).wait() == 0
    assert (path / "returns.npz").read_bytes() == (finished.path / "returns.npz").read_bytes()


def test_the_library_offers_the_same(finished):
    assert brigade.run is run
    assert brigade.resume is resume
    assert brigade.load(finished.path).path == load(finished.path).path


def pressing_ctrl_c(times, seen):
    """Five updates; Ctrl-C is pressed so many times within the third."""

    def updates():
        for number in range(5):
            for _ in range(times if number == 2 else 0):
                signal.raise_signal(signal.SIGINT)
            yield number

    for update in until_ctrl_c(updates()):
        seen.append(update)


@pytest.mark.parametrize(
    ("times", "apart", "done"), [(1, 1.0, [0, 1, 2]), (2, 0.01, [0, 1, 2]), (2, 1.0, [0, 1])]
)
def test_ctrl_c_stops_after_the_update_and_pressed_again_at_once(times, apart, done, monkeypatch):
    clock = itertools.count(1.0, apart / 2)  # read twice per press
    monkeypatch.setattr("brigade.runs.interrupt.time.monotonic", lambda: next(clock))
    seen, before = [], signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        pressing_ctrl_c(times, seen)
    assert seen == done
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_stopped_within_an_update_keeps_its_last_checkpoint(tmp_path, monkeypatch):
    """The update has overwritten the state it began with, so there is none to save."""
    updates = Trainer.run

    def broken_off(self, *arguments, **settings):
        for progress, position in updates(self, *arguments, **settings):
            yield progress, position
            if progress.update:
                jax.tree.map(lambda leaf: leaf.delete(), position.state)
                raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", broken_off)
    with pytest.raises(KeyboardInterrupt):
        run(SMALL, tmp_path / "run")
    monkeypatch.undo()
    resume(tmp_path / "run")
    assert (tmp_path / "run" / "returns.npz").exists()


def test_a_loss_that_is_not_finite_is_reported_once(tmp_path, capsys):
    sinks = Sinks(tmp_path, quiet=True)
    fine = Progress(0, 1, 80, {"loss": np.array([1.0, 2.0])}, evaluated=True)
    broken = Progress(0, 2, 160, {"loss": np.array([1.0, np.nan])}, evaluated=True)
    for progress in (fine, broken, broken):
        sinks._check_loss(progress)
    shown = capsys.readouterr().err
    assert shown.startswith("brigade: the loss is not finite at step 160:")
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tasks two", "--tasks: 'two' is not an integer"),
        ("--tasks=2.5", "--tasks: '2.5' is not an integer"),
        ("--ppo.minibatches 1.5", "--ppo.minibatches: '1.5' is not an integer"),  # a long message
        ("--steps-per-task abc", "--steps-per-task: 'abc' is not a number"),
        ("--ppo.sequence-length x", "--ppo.sequence-length: 'x' is not an integer"),
        ("--ppo.shaping-steps x", "--ppo.shaping-steps: 'x' is not a number"),
        ("--ppo.gamma 2", "gamma is 2.0; it must be from 0.0 to 1.0"),
        ("--tasks", "--tasks needs a value"),
        ("--tasks --seeds 2", "--tasks needs a value"),
        ("--learner", "--learner needs a value"),
    ],
)
def test_errors_of_the_parser_are_plain(words, message):
    with pytest.raises(UserError) as caught:
        from_dict({"benchmark": "meal/level-1"}, words.split())
    assert str(caught.value) == message


def test_packnet_refuses_a_stream_in_which_tasks_come_back():
    settings = {"benchmark": "examples/meeting.py:meeting", "method": "packnet"}
    assemble(from_dict(settings | {"tasks": 9}))
    with pytest.raises(UserError, match="packnet needs streams of new tasks"):
        assemble(from_dict(settings | {"tasks": 11}))


def test_the_speed_counts_updates_that_have_ended(monkeypatch):
    """Programs run on while Python goes on; the score of an update is known when it has ended."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock.now)

    class Score:
        """Takes five seconds to be there."""

        def __array__(self, dtype=None, copy=None):
            clock.now += 5.0
            return np.array([0.5], dtype)

    shown = io.StringIO()
    display = progress_module.Display(console=Console(file=shown, width=200))
    record = SimpleNamespace(ends=lambda: [400], score=[np.full((1, 1), 0.5)])
    experiment = SimpleNamespace(config=SimpleNamespace(total_tasks=1, updates_per_task=4, seeds=1))
    for update in (1, 2, 3):
        progress = Progress(0, update, 100 * update, {"score": Score()}, evaluated=True)
        display(progress, SimpleNamespace(record=record), experiment)
    assert "20 steps/s  0:05 left" in shown.getvalue().splitlines()[-1]

"""Runs on a Ray cluster of two nodes, of which one is killed in the middle."""

import contextlib
import json
import socket
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest

from brigade.cli import main
from brigade.errors import UserError
from brigade.launch import cluster
from brigade.launch.cluster import Needs, Surroundings, chosen, find_problem, wait_for_lock
from brigade.runs.folder import RunFolder
from brigade.runs.run import run

MEETING = str(Path(__file__).parents[2] / "examples" / "meeting.py") + ":meeting"
UPDATES = 15  # per task
TINY = (
    f"{MEETING} --tasks 2 --num-envs 2 --num-steps 24 --steps-per-task {48 * UPDATES} "
    "--eval-every 5 --eval-episodes 2 --network.hidden 8 --ppo.epochs 1 --ppo.minibatches 1"
).split()
STORE = 80 * 2**20  # bytes, the least Ray takes


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster whose second node the test kills."""
    cluster.load_ray()  # silences it
    from ray import cluster_utils

    node = {"num_cpus": 1, "object_store_memory": STORE}
    found = cluster_utils.Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False}
    )
    second = found.add_node(**node)
    yield found, second
    found.shutdown()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_folder_that_a_node_does_not_see_is_refused(two_nodes, here, capsys, monkeypatch):
    found, _ = two_nodes
    words = ["sweep", *TINY, "--over", "seed", "1", "2", "--cluster", found.address]
    monkeypatch.setattr(cluster, "write_token", lambda token, content: None)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "is another folder or none there; --out must be on a disk all nodes share" in error
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert main([*words, "--gpus-per-run", "1", "--preset", "laptop"]) == 2
    assert "no node of the cluster has 1 CPUs and 1 GPUs; add nodes" in capsys.readouterr().err
    assert list(here.rglob("*.*")) == []


@pytest.mark.slow
def test_a_node_that_is_killed_loses_nothing_and_nothing_is_done_twice(two_nodes, here, capsys):
    found, second = two_nodes
    folders = [here / "out" / f"seed-{seed}" for seed in (1, 2)]
    before: dict[Path, bytes] = {}
    started: dict[Path, set[int]] = {folder: set() for folder in folders}
    over = threading.Event()

    def kill_in_the_middle():
        while not over.wait(0.05):
            for folder in folders:
                started[folder] |= processes_of(folder)
            if not before and all(log_saved(folder).count(b"\n") >= 4 for folder in folders):
                before.update({folder: log_saved(folder) for folder in folders})
                found.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill_in_the_middle)
    killer.start()
    words = ["sweep", *TINY, "--over", "seed", "1", "2", "--out", "out"]
    try:
        status = main([*words, "--cluster", found.address, "--checkpoint-minutes", "0"])
    finally:
        over.set()
        killer.join()
    shown = capsys.readouterr()
    assert (status, shown.err) == (0, "")
    assert "[2/2] seed-" in shown.out
    assert "raylet" not in shown.out
    assert not (here / "out" / cluster.TOKEN).exists()
    # Each node had one run. One of them was started, killed and started again.
    assert sorted(len(processes) for processes in started.values()) == [1, 2]

    for folder in folders:
        log = (folder / "log.jsonl").read_bytes()
        # The log has the seconds of every update: what was saved was not trained again.
        assert 4 <= before[folder].count(b"\n") < 2 * UPDATES
        assert log.startswith(before[folder])
        rows = [json.loads(line) for line in log.splitlines()]
        assert [(row["task"], row["update"]) for row in rows] == [
            (task, update + 1) for task in (0, 1) for update in range(UPDATES)
        ]
        whole = uninterrupted(folder, here / f"whole-{folder.name}")
        assert (folder / "returns.npz").read_bytes() == (whole / "returns.npz").read_bytes()
        again = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
        for row, other in zip(rows, again, strict=True):
            np.testing.assert_equal(row["metrics"], other["metrics"])


CHILD = "brigade.launch.child"


def processes_of(folder):
    """The processes that train this run."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words, parent = process.cmdline(), process.parent()
            of_run = CHILD in words and str(folder.relative_to(Path.cwd())) in words
            # A run that starts a command, such as git, is there twice for a moment.
            if of_run and (parent is None or CHILD not in parent.cmdline()):
                found.add(process.pid)
    return found


def log_saved(folder):
    """The log up to the last checkpoint; later lines may be written again."""
    numbers = RunFolder(folder).checkpoint_numbers()
    try:
        newest = folder / "checkpoints" / f"{numbers[-1]:08d}"
        size = json.loads((newest / "meta.json").read_text())["log_size"]
    except (IndexError, FileNotFoundError):  # none yet, or just replaced by the next
        return b""
    return (folder / "log.jsonl").read_bytes()[:size]


def uninterrupted(folder, path):
    """The same run, never stopped."""
    config = json.loads((folder / "config.json").read_text())["config"]
    return run(config, path).path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--cluster 127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1 ([Errno 111] Connection"),
        ("--cluster nowhere", "no Ray cluster answers at nowhere (an address is HOST:PORT); start"),
        ("--cluster", "no Ray cluster answers ("),
    ],
)
def test_a_cluster_that_does_not_answer_is_one_line(here, capsys, monkeypatch, words, message):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert main(["sweep", *TINY, "--over", "seed", "1", "2", *words.split()]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "start one with 'ray start --head', or use --cluster local" in shown.err
    assert shown.err.count("\n") == 1
    assert list(here.iterdir()) == []


def test_something_else_at_the_address_is_one_line(capfd):
    """Ray would try for minutes and say so every second."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up():
            with contextlib.suppress(OSError):
                while True:
                    server.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster, "PROBE_SECONDS", 2.0)
            with pytest.raises(UserError, match=f"no Ray cluster answers at {address} [(]"):
                cluster.connect(cluster.load_ray(), address)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("verb", [["sweep", *TINY, "--over", "seed", "1"], ["reproduce", "meal/t"]])
def test_without_ray_one_line_says_what_to_install(here, capsys, monkeypatch, verb):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*verb, "--cluster"]) == 2
    assert capsys.readouterr().err == "brigade: --cluster needs pip install 'brigade-rl[cluster]'\n"
    assert list(here.iterdir()) == []


def test_a_node_must_have_the_folder_and_this_version(tmp_path):
    token = tmp_path / "token"
    around = Surroundings(token, "abc", str(tmp_path), {}, ())
    assert find_problem(around, cluster.__version__).startswith(f"{tmp_path} is another folder")
    token.write_text("other")
    assert find_problem(around, cluster.__version__).startswith(f"{tmp_path} is another folder")
    token.write_text("abc")
    assert find_problem(around, cluster.__version__) == ""
    assert "there and 9.9 here; install the same version" in find_problem(around, "9.9")
    elsewhere = Surroundings(token, "abc", str(tmp_path / "none"), {}, ())
    assert "there is no folder" in find_problem(elsewhere, cluster.__version__)


def test_a_task_waits_for_the_lock_of_a_run_but_not_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.01)
    wait_for_lock(tmp_path / "none")
    holder = RunFolder(tmp_path)
    holder.lock()
    assert not cluster.is_free(tmp_path)
    monkeypatch.setattr(cluster, "LOCK_SECONDS", 0.05)
    wait_for_lock(tmp_path)
    monkeypatch.setattr(cluster, "LOCK_SECONDS", 600.0)
    timer = threading.Timer(0.1, holder._lock.close)
    timer.start()
    wait_for_lock(tmp_path)
    assert cluster.is_free(tmp_path)


def test_runs_elsewhere_get_variables_but_no_keys():
    here = {"JAX_PLATFORMS": "cpu", "HOME": "/root", "WANDB_API_KEY": "x", "WANDB_MODE": "offline"}
    assert chosen(here, 0.0) == {"JAX_PLATFORMS": "cpu", "WANDB_MODE": "offline"}
    assert chosen({}, 0.5) == {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.450"}
    assert chosen({}, 2.0) == {}


def test_a_node_needs_enough_of_everything():
    needs = Needs(cpus=2, gpus=0.5)
    assert needs.fit({"CPU": 2.0, "GPU": 1.0})
    assert not needs.fit({"CPU": 1.0, "GPU": 1.0})
    assert not needs.fit({"CPU": 4.0})

"""Jobs in processes: failures, Ctrl-C, progress and what a crash leaves behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from brigade.launch import Job, Processes, run_jobs
from brigade.launch.job import last_step, progress_line
from brigade.launch.processes import MEMORY, PREALLOCATE, leave_memory
from brigade.runs.config import from_dict

MEETING = str(Path(__file__).parents[2] / "examples" / "meeting.py") + ":meeting"


@dataclass(frozen=True)
class Script(Job):
    """Any Python instead of a run."""

    text: str = ""


class Scripts(Processes):
    """Processes that execute the text of a job."""

    def command(self, job):
        return [sys.executable, "-c", job.text]


def script(path, text):
    return Script(path.name, path, (), 1, text)


def test_a_run_that_fails_is_named_when_the_others_are_done(tmp_path, capsys):
    failing = script(tmp_path / "bad", "import sys; sys.exit('brigade: the disk is full')")
    other = script(tmp_path / "good", f"open({str(tmp_path / 'done')!r}, 'w')")
    with Scripts(1) as workers:
        failed = run_jobs([failing, other], workers, quiet=False)
    assert failed == {"bad": "the disk is full"}
    assert (tmp_path / "done").exists()
    assert capsys.readouterr().out == "[1/2] bad the disk is full\n[2/2] good done\n"


@pytest.fixture
def heard():
    """A worker of the test runner ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_reaches_the_runs_and_waits_for_them(tmp_path, heard):
    began, saved = tmp_path / "began", tmp_path / "saved"
    waiting = f"""
import pathlib, signal, sys, time

def save(*_):
    time.sleep(0.5)
    pathlib.Path({str(saved)!r}).touch()
    sys.exit()

signal.signal(signal.SIGTERM, save)
pathlib.Path({str(began)!r}).touch()
time.sleep(60)
"""

    def press():
        while not began.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with Scripts(2) as workers, pytest.raises(KeyboardInterrupt):
        run_jobs([script(tmp_path / "run", waiting)], workers, quiet=True)
    assert saved.exists()


def test_how_far_a_run_is_stands_in_its_log(tmp_path):
    log = tmp_path / "log.jsonl"
    assert last_step(log) == 0
    job = Job("first", tmp_path, (), 40)
    assert progress_line([job]) == "compiling first"
    log.write_text('{"steps": 5}\n{"steps": 10}\n{"ste')
    assert last_step(log) == 10
    assert progress_line([job, Job("second", tmp_path / "none", (), 40)]) == "first 25%"
    log.write_text(json.dumps({"metrics": [0.5] * 50_000, "steps": 20}) + "\n")
    assert last_step(log) == 0  # a row longer than the end that is read: not known, not an error


def test_the_words_of_a_job_give_the_same_experiment():
    network = {"hidden": [8, 8], "multi_head": False}
    tree = {"benchmark": MEETING, "method": "ewc", "tasks": 2, "greedy": True, "network": network}
    experiment = from_dict(tree)
    job = Job.of("run", Path("run"), experiment)
    assert from_dict({}, job.settings) == experiment
    assert job.steps == 2 * experiment.config.steps_per_task


def test_a_job_starts_a_run_or_resumes_it(tmp_path):
    job = Job("run", tmp_path / "run", ("meal/level-1",), 1)
    start = ["run", "meal/level-1", "--out", str(job.path), "--quiet"]
    assert job.words() == start
    job.path.mkdir()
    (job.path / ".lock").touch()  # what a crash left, which `run` takes up
    assert job.words() == start
    (job.path / "config.json").touch()
    assert job.words()[0] == "resume"


def test_processes_share_the_memory_of_a_device(monkeypatch):
    monkeypatch.delenv(MEMORY, raising=False)
    monkeypatch.setenv(PREALLOCATE, "false")  # restored afterwards
    monkeypatch.delenv(PREALLOCATE)
    environment = leave_memory(3)
    assert environment[MEMORY] == "0.300"
    assert PREALLOCATE not in environment
    assert os.environ[PREALLOCATE] == "false"
    assert MEMORY not in leave_memory(1)


@pytest.mark.slow
def test_a_run_in_a_worker_of_ray_hears_interrupts():
    """Ray blocks them, and a script that starts it with `&` ignores them."""
    code = """
import signal
from brigade.launch.child import hear_interrupts
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
hear_interrupts()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("heard")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "heard\n"


@pytest.mark.slow
def test_a_run_ends_with_its_worker():
    """Otherwise it would keep its lock, for which another worker waits."""
    child = "import os, time; from brigade.launch.child import end_with_parent; "
    child += "end_with_parent(os.getppid()); print('began', flush=True); "
    child += "time.sleep(10); print('survived')"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    worker = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert worker.stdout.readline() == "began\n"
    worker.kill()
    assert worker.stdout.read() == ""
    worker.wait()

"""Runs in parallel, each in its own process.

Small batches leave an accelerator idle between kernels, and compilation leaves cores idle. Several
runs at a time fill these gaps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from brigade import __version__
from brigade.runs.config import Experiment
from brigade.runs.folder import RunFolderError

MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION"
POLL_SECONDS, LINE_SECONDS = 0.2, 15.0
TAIL = 1 << 16  # bytes at the end of a log, enough for its last line


@dataclass(frozen=True, eq=False)  # hashed by identity, to be a key
class Job:
    """A run to start or resume."""

    name: str
    path: Path
    experiment: Experiment

    def command(self, work: Path, number: int) -> list[str]:
        """The command that starts or resumes it."""
        words = [sys.executable, "-m", "brigade"]
        if (self.path / "config.json").exists():
            return [*words, "resume", str(self.path), "--trust", "--quiet"]
        config = work / f"{number}.json"
        config.write_text(self.experiment.as_json(__version__), encoding="utf-8")
        words += ["run", "--config", str(config), "--trust"]  # the user named its code
        return [*words, "--out", str(self.path), "--quiet"]

    def done(self) -> float:
        """The share that is done, from 0 to 1."""
        config = self.experiment.config
        return last_step(self.path / "log.jsonl") / (config.total_tasks * config.steps_per_task)


def share_memory(jobs: int) -> None:
    """Divide the device's memory equally between the jobs and this process.

    Call it before JAX uses the device.
    """
    if jobs > 1:
        os.environ.setdefault(MEMORY, f"{0.9 / (jobs + 1):.3f}")


def run_jobs(jobs: Sequence[Job], parallel: int, flags: Sequence[str], quiet: bool) -> None:
    """Run all jobs, `parallel` at a time. Failures are reported when all others have ended."""
    failed: dict[str, str] = {}
    waiting, running = list(jobs), dict[Job, subprocess.Popen[str]]()
    line = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        try:
            while waiting or running:
                while waiting and len(running) < parallel:
                    job = waiting.pop(0)
                    words = [*job.command(work, len(waiting)), *flags]
                    running[job] = start(words, work / f"{job.path.name}.txt")
                for job in [job for job, process in running.items() if process.poll() is not None]:
                    if running.pop(job).returncode:
                        failed[job.name] = last_error(work / f"{job.path.name}.txt")
                if not quiet and time.monotonic() - line > LINE_SECONDS:
                    line = time.monotonic()
                    print("  ".join(f"{job.name} {job.done():.0%}" for job in running), flush=True)
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            stop(running)
            raise
    if failed:
        raise RunFolderError("; ".join(f"{name}: {why}" for name, why in failed.items()))


def start(words: Sequence[str], errors: Path) -> subprocess.Popen[str]:
    """Start a process whose standard error goes to a file and whose output is dropped."""
    with errors.open("w", encoding="utf-8") as out:
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=out, text=True)


def stop(running: Mapping[Job, subprocess.Popen[str]]) -> None:
    """Stop all jobs, which first save a checkpoint; a Ctrl-C they also received counts once."""
    for process in running.values():
        process.terminate()
    for process in running.values():
        process.wait()


def last_error(path: Path) -> str:
    """The last line of a process's standard error."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    written = [line for line in lines if line.strip()]
    return written[-1].removeprefix("brigade: ") if written else "failed without an error message"


def last_step(log: Path) -> int:
    """The steps in the last complete line of a run's log; 0 if there is none."""
    if not log.exists():
        return 0
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = file.read().split(b"\n")[:-1]
    return int(json.loads(lines[-1])["steps"]) if lines else 0

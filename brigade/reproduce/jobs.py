"""Several runs at a time, each a process of its own.

Small batches leave gaps on an accelerator and cores idle while a program compiles; the runs of a
table fill them for each other.
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
LOOK_SECONDS, LINE_SECONDS = 0.2, 15.0
TAIL = 1 << 16  # bytes of a log that hold its last line


@dataclass(frozen=True, eq=False)  # a key by who it is
class Job:
    """A run to do or to finish."""

    name: str
    path: Path
    experiment: Experiment

    def command(self, work: Path, number: int) -> list[str]:
        """What does it, as words for a shell."""
        words = [sys.executable, "-m", "brigade"]
        if (self.path / "config.json").exists():
            return [*words, "resume", str(self.path), "--trust", "--quiet"]
        config = work / f"{number}.json"
        config.write_text(self.experiment.as_json(__version__), encoding="utf-8")
        return [*words, "run", "--config", str(config), "--out", str(self.path), "--quiet"]

    def done(self) -> float:
        """How much of it is done, from 0 to 1."""
        config = self.experiment.config
        return last_step(self.path / "log.jsonl") / (config.tasks_in_all * config.steps_per_task)


def share_memory(jobs: int) -> None:
    """An accelerator's memory in equal parts, one for this process; before it is first used."""
    if jobs > 1:
        os.environ.setdefault(MEMORY, f"{0.9 / (jobs + 1):.3f}")


def do_all(jobs: Sequence[Job], at_once: int, flags: Sequence[str], quiet: bool) -> None:
    """Do all, so many at a time. One that fails is reported when the others are done."""
    failed: dict[str, str] = {}
    waiting, running = list(jobs), dict[Job, subprocess.Popen[str]]()
    line = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.pop(0)
                    words = [*job.command(work, len(waiting)), *flags]
                    running[job] = start(words, work / f"{job.path.name}.txt")
                for job in [job for job, process in running.items() if process.poll() is not None]:
                    if running.pop(job).returncode:
                        failed[job.name] = complaint(work / f"{job.path.name}.txt")
                if not quiet and time.monotonic() - line > LINE_SECONDS:
                    line = time.monotonic()
                    print("  ".join(f"{job.name} {job.done():.0%}" for job in running), flush=True)
                time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            stop(running)
            raise
    if failed:
        raise RunFolderError("; ".join(f"{name}: {why}" for name, why in failed.items()))


def start(words: Sequence[str], complaints: Path) -> subprocess.Popen[str]:
    """A process that writes nothing but what went wrong."""
    with complaints.open("w", encoding="utf-8") as out:
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=out, text=True)


def stop(running: Mapping[Job, subprocess.Popen[str]]) -> None:
    """Let all save themselves; those that heard the same Ctrl-C take it for one."""
    for process in running.values():
        process.terminate()
    for process in running.values():
        process.wait()


def complaint(path: Path) -> str:
    """The last line a process wrote."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    said = [line for line in lines if line.strip()]
    return said[-1].removeprefix("brigade: ") if said else "ended without a word"


def last_step(log: Path) -> int:
    """Steps at the last whole line of a run's log; 0 before there is one."""
    if not log.exists():
        return 0
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = file.read().split(b"\n")[:-1]
    return int(json.loads(lines[-1])["steps"]) if lines else 0

"""Jobs as processes of this machine.

Small batches leave an accelerator idle between kernels, and compilation leaves cores idle. Several
runs at a time fill these gaps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from brigade.launch.job import Job

MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION"
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"


class Processes:
    """Workers: so many processes at a time. `flags` are those of `brigade run` and `resume`."""

    def __init__(
        self,
        parallel: int,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.parallel, self.flags, self.environment = parallel, flags, environment
        self.running: dict[Job, subprocess.Popen[str]] = {}

    def __enter__(self) -> Processes:
        self._work = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_: object) -> None:
        self._work.cleanup()

    def share(self, folder: Path) -> None:
        """Processes of one machine see the same folders."""

    def has_room(self) -> bool:
        """Whether fewer processes run than may."""
        return len(self.running) < self.parallel

    def start(self, job: Job) -> None:
        """Start the job's process."""
        self.running[job] = start_process(self.command(job), self._errors(job), self.environment)

    def command(self, job: Job) -> list[str]:
        """The command that starts or resumes a job."""
        return [sys.executable, "-m", "brigade", *job.words(), *self.flags]

    def ended(self) -> list[tuple[Job, str]]:
        """The jobs whose process has ended, and its error."""
        jobs = [job for job, process in self.running.items() if process.poll() is not None]
        return [
            (job, last_error(self._errors(job)) if self.running.pop(job).returncode else "")
            for job in jobs
        ]

    def stop(self) -> None:
        """Stop all jobs, which first save a checkpoint; a Ctrl-C they also received counts once."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()

    def _errors(self, job: Job) -> Path:
        return Path(self._work.name) / f"{job.path.name}.txt"


def start_process(
    command: Sequence[str], errors: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a process whose standard error goes to a file and whose output is dropped."""
    with errors.open("w", encoding="utf-8") as out:
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=out, text=True, env=environment
        )


def last_error(path: Path) -> str:
    """The last line of a process's standard error."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    written = [line for line in lines if line.strip()]
    return written[-1].removeprefix("brigade: ") if written else "failed without an error message"


def share_memory(jobs: int) -> None:
    """Divide the device's memory equally between the jobs and this process, which trains, too.

    Call it before JAX uses the device.
    """
    if jobs > 1:
        os.environ.setdefault(MEMORY, f"{0.9 / (jobs + 1):.3f}")


def leave_memory(jobs: float) -> dict[str, str]:
    """Let this process take no more of the device's memory than it uses, which is little.

    Returns the environment of the jobs, so many of which share a device. Call it before JAX uses
    the device.
    """
    environment = dict(os.environ)
    if jobs > 1:
        environment.setdefault(MEMORY, f"{0.9 / jobs:.3f}")
    os.environ.setdefault(PREALLOCATE, "false")
    return environment

"""Jobs are runs to start or resume. `Workers` say where; `run_jobs` waits for all of them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from brigade.errors import UserError

if TYPE_CHECKING:  # a worker of a cluster imports this module, and needs no JAX for it
    from brigade.runs.config import Experiment

POLL_SECONDS, LINE_SECONDS = 0.2, 15.0
TAIL = 1 << 16  # bytes at the end of a log, enough for its last line


@dataclass(frozen=True)
class Job:
    """A run to start or resume."""

    name: str
    path: Path
    settings: tuple[str, ...]  # the words after `brigade run`
    steps: int  # of the whole run, per seed

    @classmethod
    def of(cls, name: str, path: Path, experiment: Experiment) -> Job:
        """The job of an experiment."""
        from brigade.runs.flags import as_flags

        tree, config = experiment.as_dict(), experiment.config
        words = (tree.pop("benchmark"), *as_flags(tree))
        return cls(name, path, words, int(config.total_tasks * config.steps_per_task))

    def words(self) -> list[str]:
        """The words after `brigade` that start or resume it."""
        if (self.path / "config.json").exists():
            # It has the settings asked for, so the code it names is trusted.
            return ["resume", str(self.path), "--trust", "--quiet"]
        return ["run", *self.settings, "--out", str(self.path), "--quiet"]

    def done(self) -> float:
        """The share that is done, from 0 to 1."""
        return last_step(self.path / "log.jsonl") / self.steps


class Workers(Protocol):
    """Where jobs run."""

    def share(self, folder: Path) -> None:
        """Check that every worker can write to the folder of the jobs."""

    def has_room(self) -> bool:
        """Whether another job can be handed in now."""

    def start(self, job: Job) -> None:
        """Hand in a job."""

    def ended(self) -> list[tuple[Job, str]]:
        """The jobs that ended since the last call, and what went wrong: nothing if empty."""

    def stop(self) -> None:
        """Stop all jobs; each saves a checkpoint first."""


def run_jobs(jobs: Sequence[Job], workers: Workers, quiet: bool) -> dict[str, str]:
    """Run all jobs; a failure does not stop the others. Returns what went wrong, by job."""
    failed: dict[str, str] = {}
    waiting, running = list(jobs), list[Job]()
    line = time.monotonic()
    try:
        while waiting or running:
            while waiting and workers.has_room():
                running.append(waiting.pop(0))
                workers.start(running[-1])
            for job, error in workers.ended():
                running.remove(job)
                if error:
                    failed[job.name] = error
                if not quiet:
                    ended = len(jobs) - len(waiting) - len(running)
                    print(f"[{ended}/{len(jobs)}] {job.name} {error or 'done'}", flush=True)
            if not quiet and time.monotonic() - line > LINE_SECONDS:
                line = time.monotonic()
                print(progress_line(running), flush=True)
            time.sleep(POLL_SECONDS)
    except BaseException:
        workers.stop()
        raise
    return failed


def open_folder(folder: Path, workers: Workers) -> None:
    """Create the folder of the jobs if there is none; all workers must be able to write to it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        workers.share(folder)
    except UserError:
        with contextlib.suppress(OSError):  # it was there before, with something in it
            folder.rmdir()
        raise


def progress_line(running: Sequence[Job]) -> str:
    """How far the jobs are that have begun; the others wait for a worker or compile."""
    begun = [f"{job.name} {share:.0%}" for job in running if (share := job.done())]
    return "  ".join(begun) or f"compiling {running[0].name}"


def last_step(log: Path) -> int:
    """The steps in the last complete line of a run's log; 0 if there is none."""
    if not log.exists():
        return 0
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = file.read().split(b"\n")[:-1]
    try:
        return int(json.loads(lines[-1])["steps"]) if lines else 0
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0  # longer than the end that was read, or damaged: the run itself will say so

"""The stages of a target: runs, and computations from files. What is there is not done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import jax

from brigade import __version__
from brigade.launch.job import Job, Workers, open_folder, run_jobs
from brigade.runs.assemble import assemble
from brigade.runs.config import Experiment
from brigade.runs.ensure import check_settings, finished_run, start_or_resume
from brigade.runs.folder import RunFolderError, digest, write_atomically
from brigade.runs.run import RunResult

RECORD = "stage.json"


@dataclass(frozen=True)
class How:
    """How stages are done. Without workers, runs are done here, one after another."""

    folder: Path  # of the target
    workers: AbstractContextManager[Workers] | None = None
    quiet: bool = False

    def tell(self, text: str) -> None:
        """Print progress."""
        if not self.quiet:
            print(text, flush=True)


class Stage(Protocol):
    """A step on the way to a target; it makes files from those of earlier stages."""

    @property
    def name(self) -> str:
        """What is made."""

    def check(self) -> None:
        """Refuse what can be refused before anything is done."""

    def do(self, how: How) -> None:
        """Do what is not there yet."""


@dataclass(frozen=True)
class Run:
    """A run to start or resume."""

    name: str
    path: Path
    make: Callable[[], Experiment]
    needs: Sequence[Path] = ()  # files of earlier stages that `make` reads
    finish: Callable[[RunResult, How], object] | None = None  # make what belongs to it

    @cached_property
    def experiment(self) -> Experiment:
        """Its settings."""
        return self.make()


@dataclass(frozen=True)
class Runs:
    """Independent runs: one after another, or several at a time."""

    name: str
    runs: Sequence[Run]

    def check(self) -> None:
        """Check the settings of all runs that need no files of earlier stages."""
        known = [run for run in self.runs if not run.needs]
        for run in known:
            assemble(run.experiment)
        check_same(known)

    def do(self, how: How) -> None:
        """Start or resume what is not finished."""
        check_same(self.runs)
        if how.workers is not None:
            self.hand_out(how.workers, how)
        for number, run in enumerate(self.runs, start=1):
            how.tell(f"[{number}/{len(self.runs)}] {run.name}")
            result = start_or_resume(run.path, run.experiment, how.quiet)
            if run.finish is not None:
                run.finish(result, how)
            # The programs of many runs would exceed the memory maps of a process.
            jax.clear_caches()

    def hand_out(self, workers: AbstractContextManager[Workers], how: How) -> None:
        """Let workers do the runs. Failures are reported when all others have ended."""
        jobs = [
            Job.of(run.name, run.path, run.experiment)
            for run in self.runs
            if finished_run(run.path, run.experiment) is None
        ]
        if not jobs:
            return
        with workers as ready:
            open_folder(how.folder, ready)
            failed = run_jobs(jobs, ready, how.quiet)
        if failed:
            raise RunFolderError("; ".join(f"{name}: {why}" for name, why in failed.items()))


def check_same(runs: Sequence[Run]) -> None:
    """Runs that exist must have the same settings."""
    check_settings([run.path for run in runs], [run.experiment for run in runs])


@dataclass(frozen=True)
class Computation:
    """Work that writes files into a folder.

    It is done if the folder has a record of the same inputs: settings, and the contents of files.
    """

    name: str
    folder: Path
    settings: Mapping[str, Any]
    files: Sequence[Path]
    work: Callable[[Path], None]

    def fingerprint(self) -> str:
        """A hash of everything the results depend on."""
        inputs = {
            "brigade": __version__,
            "settings": dict(self.settings),
            "files": [digest(path) for path in self.files],
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()

    def is_done(self) -> bool:
        """Whether the results in the folder are of these inputs."""
        try:
            found = json.loads((self.folder / RECORD).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return False
        return bool(found.get("inputs") == self.fingerprint())

    def check(self) -> None:
        """Its inputs are not there yet."""

    def do(self, how: How) -> None:
        """Do the work unless it is done."""
        how.tell(self.name)
        self.ensure()

    def ensure(self) -> bool:
        """Do the work unless it is done; returns whether there was any."""
        if self.is_done():
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        self.work(self.folder)
        # Last: a stage that was interrupted has no record.
        record = {"stage": self.name, "inputs": self.fingerprint()}
        write_atomically(self.folder / RECORD, json.dumps(record, indent=2).encode())
        return True

"""Jobs as tasks of a Ray cluster.

Ray decides on which node a run goes, and starts its task again elsewhere if that node dies. A task
starts or resumes the run's folder, so only the work since the last checkpoint is lost. The folder
must be the same on all nodes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brigade import __version__
from brigade.errors import UserError
from brigade.launch.job import Job
from brigade.launch.processes import MEMORY, last_error, start_process
from brigade.runs.folder import RunFolder, RunFolderError, write_atomically

AUTO, LOCAL = "auto", "local"
CONNECT_SECONDS, PROBE_SECONDS, ANSWER_SECONDS, STOP_SECONDS = 5.0, 60.0, 120.0, 300.0
# A file server releases the lock of a dead node when its lease ends: with NFS after 90 seconds.
LOCK_SECONDS = 180.0
POLL_SECONDS = 0.2
TOKEN = ".cluster-token"
# What a run on another machine should have as it is here; keys stay where they are.
PASSED_ON = ("JAX_", "XLA_", "WANDB_", "BRIGADE_", "PYTHONPATH", "XDG_CACHE_HOME")
KEPT_BACK = ("WANDB_API_KEY",)


@dataclass(frozen=True)
class Needs:
    """What a run takes from the cluster, and how often it is started again when its node dies."""

    cpus: float = 1.0
    gpus: float = 0.0
    retries: int = 3

    def fit(self, resources: Mapping[str, float]) -> bool:
        """Whether a node has that much."""
        enough_cpus = resources.get("CPU", 0.0) >= self.cpus
        return enough_cpus and resources.get("GPU", 0.0) >= self.gpus

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs" + (f" and {self.gpus:g} GPUs" if self.gpus else "")


@dataclass(frozen=True)
class Surroundings:
    """What a task needs to know of the process that handed it in."""

    token: Path  # a file in the folder of the jobs
    content: str  # of that file
    folder: str  # in which relative paths are meant
    environment: Mapping[str, str]
    flags: tuple[str, ...]


class Cluster:
    """Workers: the nodes of a Ray cluster. `flags` are those of `brigade run` and `resume`."""

    def __init__(
        self,
        address: str,
        needs: Needs,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.ray, self.address, self.needs = load_ray(), address, needs
        self.flags, self.environment = tuple(flags), chosen(environment, needs.gpus)
        self.running: dict[Any, Job] = {}  # by Ray's reference to the result
        self.surroundings: Surroundings | None = None

    def __enter__(self) -> Cluster:
        connect(self.ray, self.address)
        return self

    def __exit__(self, *_: object) -> None:
        if self.surroundings is not None:
            self.surroundings.token.unlink(missing_ok=True)
        self.ray.shutdown()

    def share(self, folder: Path) -> None:
        """Check that every node sees the folder and has this version of Brigade."""
        token, content = folder.absolute() / TOKEN, secrets.token_hex(16)
        write_token(token, content)
        self.surroundings = Surroundings(
            token, content, str(Path.cwd()), self.environment, self.flags
        )
        try:
            self._check_nodes()
        except BaseException:
            token.unlink(missing_ok=True)
            raise

    def _check_nodes(self) -> None:
        nodes = [node for node in self.ray.nodes() if node["Alive"]]
        able = [node for node in nodes if self.needs.fit(node["Resources"])]
        if not able:
            raise UserError(
                f"no node of the cluster has {self.needs}; add nodes, or lower --cpus-per-run or "
                "--gpus-per-run"
            )
        for node, problem in zip(able, self._ask(able), strict=True):
            if problem:
                raise UserError(f"node {node['NodeManagerAddress']}: {problem}")

    def _ask(self, nodes: Sequence[Mapping[str, Any]]) -> list[str]:
        """What is wrong with each node; empty if nothing is."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        refs = [
            self.ray.remote(find_problem)
            .options(
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            )
            .remote(self.surroundings, __version__)
            for node in nodes
        ]
        done, _ = self.ray.wait(refs, num_returns=len(refs), timeout=ANSWER_SECONDS)
        return [
            self._result(ref) if ref in done else f"no answer in {ANSWER_SECONDS:.0f} seconds"
            for ref in refs
        ]

    def has_room(self) -> bool:
        """Ray queues what does not fit yet."""
        return True

    def start(self, job: Job) -> None:
        """Hand in the job's task."""
        needs = self.needs
        task = self.ray.remote(work).options(
            name=job.name, num_cpus=needs.cpus, num_gpus=needs.gpus, max_retries=needs.retries
        )
        self.running[task.remote(job, self.surroundings)] = job

    def ended(self) -> list[tuple[Job, str]]:
        """The jobs whose task has ended, and its error."""
        refs = list(self.running)
        done, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0)
        return [(self.running.pop(ref), self._result(ref)) for ref in done]

    def stop(self) -> None:
        """Stop all jobs, which first save a checkpoint."""
        for ref in self.running:
            self.ray.cancel(ref)
        refs = list(self.running)
        self.ray.wait(refs, num_returns=len(refs), timeout=STOP_SECONDS)

    def _result(self, ref: Any) -> str:
        try:
            return str(self.ray.get(ref))
        except self.ray.exceptions.RayError as error:
            return describe(error)


def write_token(token: Path, content: str) -> None:
    """Write the file by which nodes recognise the folder."""
    write_atomically(token, content.encode())


def work(job: Job, surroundings: Surroundings) -> str:
    """Start or resume a run on this node; returns what went wrong, nothing if empty."""
    problem = find_problem(surroundings, __version__)
    if problem:
        return f"node {socket.gethostname()}: {problem}"
    # Ray stops a task by an interrupt, which is ignored where a script started Ray with `&`.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(surroundings.folder)
    wait_for_lock(job.path)
    # A process of its own: it has its own JAX, ends with this one, and stops as `brigade run` does.
    command = [sys.executable, "-m", "brigade.launch.child", str(os.getpid()), *job.words()]
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "errors.txt"
        process = start_process(
            [*command, *surroundings.flags], errors, {**os.environ, **surroundings.environment}
        )
        try:
            while process.poll() is None:  # not wait(), which Ray could not interrupt
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
        return last_error(errors) if process.returncode else ""


def find_problem(surroundings: Surroundings, version: str) -> str:
    """Why this node cannot take a run; empty if it can."""
    folder = surroundings.token.parent
    try:
        same = surroundings.token.read_text(encoding="utf-8") == surroundings.content
    except OSError:
        same = False
    if not same:
        return f"{folder} is another folder or none there; --out must be on a disk all nodes share"
    if not Path(surroundings.folder).is_dir():
        return f"there is no folder {surroundings.folder}; start from a folder all nodes share"
    if version != __version__:
        return f"Brigade is {__version__} there and {version} here; install the same version"
    return ""


def wait_for_lock(path: Path) -> None:
    """Wait until nobody writes to a run; a worker that lost its node may take a while to end.

    If it does not end, the run itself says so.
    """
    end = time.monotonic() + LOCK_SECONDS
    while path.is_dir() and not is_free(path) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock of a run folder."""
    folder = RunFolder(path)
    try:
        folder.lock()
    except RunFolderError:
        return False
    return True  # the lock ends with `folder`


def chosen(environment: Mapping[str, str], gpus: float) -> dict[str, str]:
    """The variables that runs on other nodes get; runs that share a GPU share its memory."""
    found = {
        name: value
        for name, value in environment.items()
        if name.startswith(PASSED_ON) and name not in KEPT_BACK
    }
    if 0 < gpus < 1:
        found.setdefault(MEMORY, f"{0.9 * gpus:.3f}")
    return found


def load_ray() -> Any:
    """Import Ray, silenced."""
    # Read when Ray is imported. Otherwise it prints pages when a node dies; runs go on elsewhere.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UserError("--cluster needs pip install 'brigade-rl[cluster]'") from error
    return ray


def connect(ray: Any, address: str) -> None:
    """Connect to a cluster, or start one on this machine."""
    start = "start one with 'ray start --head', or use --cluster local"
    try:
        found = os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address
        if found != LOCAL:
            check_answer(found)
        with as_before():
            ray.init(
                address=found,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **({"include_dashboard": False} if found == LOCAL else {}),
            )
    except (OSError, ValueError, RuntimeError) as error:
        where = "" if address == AUTO else f" at {address}"
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise UserError(f"no Ray cluster answers{where} ({reason}); {start}") from error


@contextlib.contextmanager
def as_before() -> Iterator[None]:
    """Ray would end this process at SIGTERM, without saving; and JAX warns of how it starts."""
    handler = signal.getsignal(signal.SIGTERM)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def check_answer(address: str) -> None:
    """Fail soon and quietly where no cluster of this version is; Ray itself may try for minutes.

    A process of its own does it, because Ray writes to standard error what it tries.
    """
    if address != AUTO:  # then it is that of the cluster this machine belongs to
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise ValueError("an address is HOST:PORT")
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    code = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)"
    try:
        found = subprocess.run(
            [sys.executable, "-c", code, address], capture_output=True, timeout=PROBE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise ConnectionError(f"no answer in {PROBE_SECONDS:.0f} seconds") from None
    if found.returncode:
        errors = re.findall(r"^\w+Error: (.*)$", found.stderr.decode(errors="replace"), re.M)
        raise ConnectionError(errors[-1] if errors else "something else is there")


def describe(error: Exception) -> str:
    """An error of Ray in one line."""
    name = type(error).__name__
    if name == "TaskCancelledError":
        return "stopped"
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    # The traceback of a task ends with what went wrong, other errors begin with it.
    reason = lines[-1] if name.startswith("RayTaskError") and lines else "".join(lines[:1])
    return f"{name}: {reason}".rstrip(": ")

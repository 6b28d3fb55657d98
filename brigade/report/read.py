"""Run folders, read without trusting them: nothing is unpickled, nothing outside is followed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats
from brigade.runs.folder import FORMAT, RunFolderError, read_npz

PICTURE = re.compile(r"seed(\d{1,9})-task(\d{1,9})\.png")
PNG = b"\x89PNG\r\n\x1a\n"
LARGEST_PICTURE = 4_000_000  # bytes; it goes into the page
NEEDED = ("score", "returns", "steps", "task_ends", "task_names", "seeds")

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
LogRow: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class RunData:
    """What a run has left behind so far."""

    path: Path
    config: Mapping[str, Any]
    arrays: Arrays  # as in returns.npz
    log: tuple[LogRow, ...]  # by steps, one row per update
    pictures: Mapping[tuple[int, int], bytes]  # by seed and task (from 1), PNG
    version: str = ""  # of the Brigade that wrote it

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.resolve().name

    @property
    def task_names(self) -> list[str]:
        """In training order."""
        return [str(name) for name in self.arrays["task_names"]]

    @property
    def seeds(self) -> list[int]:
        """Their numbers."""
        return [int(seed) for seed in self.arrays["seeds"]]

    @property
    def steps(self) -> Floats:
        """Environment steps per seed at every evaluation."""
        return self.arrays["steps"].astype(np.float64)

    @property
    def task_ends(self) -> Floats:
        """Where the training of every task ends, or will end."""
        return self.arrays["task_ends"].astype(np.float64)

    @property
    def task_starts(self) -> Floats:
        """Where it begins; of a repeated sequence, the last time."""
        if self.repetitions > 1:  # then all are equally long
            return self.task_ends - self.task_ends[-1] / (len(self.task_ends) * self.repetitions)
        return np.concatenate([[0.0], self.task_ends[:-1]])

    def visits(self, task: int) -> list[tuple[float, float]]:
        """From where to where a task was trained, every time."""
        period = self.task_ends[-1] / self.repetitions
        start, end = self.task_starts[task], self.task_ends[task]
        return [(start - back * period, end - back * period) for back in range(self.repetitions)]

    @property
    def repetitions(self) -> int:
        """How often the sequence was gone through."""
        return int(self.arrays.get("repetitions", 1))

    @cached_property
    def score(self) -> Floats:
        """Means over partners and episodes, [eval, task, seed]."""
        return np.asarray(self.arrays["score"].mean(axis=(2, 4), dtype=np.float64))

    @cached_property
    def returns(self) -> Floats:
        """Likewise."""
        return np.asarray(self.arrays["returns"].mean(axis=(2, 4), dtype=np.float64))

    def setting(self, name: str) -> str:
        """A value of the config as text; empty when it is not there."""
        return str(self.config.get(name, ""))

    def logged(self, name: str) -> tuple[Floats, Floats]:
        """One training metric: steps [row] and values [row, seed], where it was logged."""
        rows = [row for row in self.log if _is_known(row["metrics"].get(name))]
        try:
            values = np.array([row["metrics"][name] for row in rows], dtype=np.float64)
            values = values.reshape(len(rows), len(self.seeds))
        except (TypeError, ValueError):
            raise RunFolderError(
                f"{self.path / 'log.jsonl'}: {name} must be one number per seed in every row"
            ) from None
        return np.array([row["steps"] for row in rows], dtype=np.float64), values


def _is_known(values: Any) -> bool:
    """Whether any seed has a number; updates in which no episode ended have no score."""
    return values is not None and values != [None] * len(np.atleast_1d(values))


def read_run(path: str | Path) -> RunData:
    """Read a run folder, of a finished run or not."""
    folder = Path(path)
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder")
    version, config = _read_config(folder / "config.json")
    arrays = _read_arrays(folder)
    log = _read_log(folder / "log.jsonl")
    return RunData(folder, config, arrays, log, _read_pictures(folder / "pictures"), version)


def _read_config(path: Path) -> tuple[str, dict[str, Any]]:
    if not path.is_file():
        raise RunFolderError(f"{path.parent} is not a run folder: it has no {path.name}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} cannot be read: {_first_line(error)}") from None
    number = content.get("format") if isinstance(content, dict) else None
    if type(number) is not int or not isinstance(content.get("config"), dict):
        raise RunFolderError(f'{path} is not a run\'s: it needs "format" and "config"')
    if number > FORMAT:
        raise RunFolderError(
            f"{path.parent} was written by a newer Brigade "
            f"(format {number}, this one reads {FORMAT})"
        )
    return str(content.get("brigade", "")), content["config"]


def _read_arrays(folder: Path) -> dict[str, npt.NDArray[Any]]:
    path = folder / "returns.npz"
    if not path.is_file():
        raise RunFolderError(f"{folder} has no evaluations yet ({path.name} is missing)")
    arrays = read_npz(path)
    if (folder / "baselines.npz").is_file():
        arrays |= read_npz(folder / "baselines.npz")
    problem = _problem(arrays)
    if problem:
        raise RunFolderError(f"{path}: {problem}")
    return arrays


def _problem(arrays: Arrays) -> str:
    """Say what does not fit together, so that no metric fails on it later; empty when all does."""
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        return f"{', '.join(missing)} missing"
    for name in set(NEEDED) - {"task_names"} | {"baseline_steps", "baseline_score"} & set(arrays):
        if arrays[name].dtype.kind not in "fiu":
            return f"{name} must hold numbers"
    counts = [arrays[name].shape for name in ("steps", "task_ends", "seeds", "task_names")]
    if any(len(shape) != 1 for shape in counts) or counts[3] != counts[1]:
        return "steps, task_ends, task_names and seeds must be lists, with one name per task end"
    shape = arrays["score"].shape
    if len(shape) != 5 or shape[:2] + shape[3:4] != counts[0] + counts[1] + counts[2]:
        return f"score must be [eval, task, partner, seed, episode], got shape {shape}"
    if arrays["returns"].shape != shape:
        return f"returns must have the shape of score {shape}, got {arrays['returns'].shape}"
    if "events" in arrays and not _events_fit(arrays, shape):
        return "events must be [eval, task, seed, seat, kind], with a name per kind and a horizon"
    if 0 in shape:
        return "holds no evaluation yet" if shape[0] == 0 else f"score is empty: shape {shape}"
    return (
        ""
        if _rises(arrays["steps"], 0) and _rises(arrays["task_ends"], 1)
        else ("steps and task_ends must rise from the start of the run")
    )


def _events_fit(arrays: Arrays, shape: tuple[int, ...]) -> bool:
    events, names, horizon = (arrays.get(name) for name in ("events", "event_names", "horizon"))
    if events is None or names is None or horizon is None or events.dtype.kind != "f":
        return False
    front = (*shape[:2], shape[3])
    fits = events.ndim == 5 and events.shape[:3] == front and names.shape == events.shape[4:]
    return bool(fits and horizon.shape == () and horizon.dtype.kind in "iu" and horizon > 0)


def _rises(values: npt.NDArray[Any], least: int) -> bool:
    return bool(np.isfinite(values).all() and values[0] >= least and (np.diff(values) > 0).all())


def _read_log(path: Path) -> tuple[LogRow, ...]:
    if not path.is_file():
        return ()
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {_first_line(error)}") from None
    rows: dict[float, LogRow] = {}
    for number, line in enumerate(lines, start=1):
        row = _read_row(line)
        if row is not None:
            if row["metrics"]:  # an evaluation may leave a row without any
                rows[row["steps"]] = row
        elif number < len(lines):  # a killed run may leave half a row, but only at the end
            raise RunFolderError(f"{path}: line {number} is not a row of a log")
    return tuple(rows[steps] for steps in sorted(rows))


def _read_row(line: bytes) -> LogRow | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("metrics"), dict):
        return None
    return row if type(row.get("steps")) in (int, float) else None


def _read_pictures(folder: Path) -> dict[tuple[int, int], bytes]:
    """The PNGs themselves; links are left alone, because what they point to is nobody's picture."""
    pictures = {}
    for path in sorted(folder.glob("*.png")):
        name = PICTURE.fullmatch(path.name)
        if name and path.is_file() and not path.is_symlink():
            content = path.read_bytes() if path.stat().st_size <= LARGEST_PICTURE else b""
            if content.startswith(PNG):
                pictures[int(name[1]), int(name[2])] = content
    return dict(sorted(pictures.items()))


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]

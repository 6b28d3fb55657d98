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

from brigade.metrics.record import EVENT_AXES, SCORE_AXES, axes_name, with_all_axes
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
    measures: tuple[str, ...] = ()  # what its benchmark is about; empty in older runs

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

    @property
    def partner_names(self) -> list[str]:
        """Whom the learner met in evaluations."""
        return [str(name) for name in self.arrays["partner_names"]]

    @property
    def seat_names(self) -> list[str]:
        """Where it sat: numbers of seats, or all."""
        return [str(name) for name in self.arrays["seat_names"]]

    def mean(self, name: str, *axes: str) -> Floats:
        """What was recorded under a name, with these axes in this order; means over the others."""
        values, there = self.arrays[name], self.arrays[axes_name(name)].tolist()
        others = tuple(place for place, axis in enumerate(there) if axis not in axes)
        kept = [axis for axis in there if axis in axes]
        means = values.mean(axis=others, dtype=np.float64)
        return np.asarray(means.transpose([kept.index(axis) for axis in axes]))

    @cached_property
    def score(self) -> Floats:
        """Means over partners, seats and episodes, [eval, task, seed]."""
        return self.mean("score", "eval", "task", "seed")

    @cached_property
    def returns(self) -> Floats:
        """Likewise."""
        return self.mean("returns", "eval", "task", "seed")

    @property
    def is_population(self) -> bool:
        """Whether many policies were trained, by a generator."""
        return self.setting("generator") not in ("", "none")

    @property
    def how(self) -> str:
        """What tells runs of a benchmark apart: the method, or the generator of a population."""
        return self.setting("generator" if self.is_population else "method")

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
    content = _read_config(folder / "config.json")
    arrays = _read_arrays(folder)
    log, pictures = _read_log(folder / "log.jsonl"), _read_pictures(folder / "pictures")
    version, named = str(content.get("brigade", "")), content.get("measures", [])
    measures = tuple(map(str, named)) if isinstance(named, list) else ()
    return RunData(folder, content["config"], arrays, log, pictures, version, measures)


def _read_config(path: Path) -> dict[str, Any]:
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
    return content


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
    arrays = with_all_axes(arrays)
    problem = _axes_problem(arrays)
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
    if arrays["returns"].shape != shape:
        return f"returns must have the shape of score {shape}, got {arrays['returns'].shape}"
    if 0 in shape:
        return "holds no evaluation yet" if shape[:1] == (0,) else f"score is empty: shape {shape}"
    if len(shape) < 5:
        return f"score must be [eval, task, partner, seat, seed, episode], got shape {shape}"
    rises = _rises(arrays["steps"], 0) and _rises(arrays["task_ends"], 1)
    return "" if rises else "steps and task_ends must rise from the start of the run"


def _axes_problem(arrays: Arrays) -> str:
    """The same of the axes: every array has those it names, as long as what they count."""
    counts = {
        "eval": arrays["steps"].shape,
        "task": arrays["task_ends"].shape,
        "seed": arrays["seeds"].shape,
        "partner": arrays["partner_names"].shape,
        "seat": arrays["seat_names"].shape,
        "kind": arrays["event_names"].shape if "event_names" in arrays else None,
    }
    wanted = {"score": ("eval", *SCORE_AXES), "events": ("eval", *EVENT_AXES)}
    for name, needed in wanted.items():
        if name not in arrays:
            continue
        axes, shape = arrays.get(axes_name(name), np.array([])).tolist(), arrays[name].shape
        if not set(needed) <= set(axes) or len(axes) != len(shape):
            return f"{name} must be [{', '.join(needed)}], got shape {shape}"
        for axis, length in zip(axes, shape, strict=True):
            if counts.get(axis, (length,)) != (length,):
                return f"{name} has {length} on its axis {axis}, which does not fit the names"
    horizon = arrays.get("horizon")
    if "events" in arrays and (
        arrays["events"].dtype.kind != "f"
        or horizon is None
        or horizon.shape != ()
        or horizon.dtype.kind not in "iu"
        or horizon < 1
    ):
        return "events need numbers, a name per kind and a horizon"
    return ""


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

"""Reads run folders without trusting them: no pickles are loaded, no links are followed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from brigade.metrics.checks import find_problem
from brigade.metrics.record import axes_name
from brigade.metrics.result import Floats
from brigade.reading import (
    DamagedError,
    check_folder,
    first_line,
    parse_json,
    read_bytes,
    read_json,
    texts,
)
from brigade.registry import CODE, file_and_name
from brigade.runs.folder import FORMAT, MAX_CONFIG_BYTES, RunFolderError, read_npz

PICTURE = re.compile(r"seed(\d{1,9})-task(\d{1,9})\.png")
PNG = b"\x89PNG\r\n\x1a\n"
MAX_PICTURE_BYTES = 4_000_000  # pictures are embedded in the page
MAX_NAME = 80  # characters of a display name

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
LogRow: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class RunData:
    """What a run has recorded so far."""

    path: Path
    config: Mapping[str, Any]
    arrays: Arrays  # as in returns.npz
    log: tuple[LogRow, ...]  # one row per update, sorted by steps
    pictures: Mapping[tuple[int, int], bytes]  # PNGs by seed and task (from 1)
    version: str = ""  # of the Brigade that wrote it
    measures: tuple[str, ...] = ()  # of its benchmark
    names: Mapping[str, str] = field(default_factory=dict)  # by what they name, such as the method
    meanings: Mapping[str, str] = field(default_factory=dict)  # of its game's numbers
    sets: Mapping[str, list[Any]] = field(default_factory=dict)  # names of partners to compare
    title: str = ""  # what the reader calls it, if asked for

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.resolve().name

    @property
    def task_names(self) -> list[str]:
        """In training order."""
        return [str(name) for name in self.arrays["task_names"]]

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return [int(seed) for seed in self.arrays["seeds"]]

    @property
    def steps(self) -> Floats:
        """Environment steps per seed at every evaluation."""
        return self.arrays["steps"].astype(np.float64)

    @property
    def task_ends(self) -> Floats:
        """The step at which the training of every task ends."""
        return self.arrays["task_ends"].astype(np.float64)

    @property
    def task_starts(self) -> Floats:
        """The step at which it starts; in a repeated sequence, for the last time."""
        if self.repetitions > 1:  # then all tasks have the same length
            return self.task_ends - self.task_ends[-1] / (len(self.task_ends) * self.repetitions)
        return np.concatenate([[0.0], self.task_ends[:-1]])

    def visits(self, task: int) -> list[tuple[float, float]]:
        """The first and last step of a task's training, for every repetition, the last first."""
        period = self.task_ends[-1] / self.repetitions
        start, end = self.task_starts[task], self.task_ends[task]
        return [(start - back * period, end - back * period) for back in range(self.repetitions)]

    @property
    def repetitions(self) -> int:
        """How many times the sequence was trained."""
        return int(self.arrays["repetitions"])

    @property
    def partner_names(self) -> list[str]:
        """The partners in evaluations."""
        return [str(name) for name in self.arrays["partner_names"]]

    def in_set(self, name: str, names: str) -> Floats:
        """Bool: which of the `names`, an array of the record, are in a set; none if not known."""
        members = self.sets.get(name, ())
        return np.array([each in members for each in self.arrays[names].tolist()], bool)

    @property
    def seat_names(self) -> list[str]:
        """The learner's seats in evaluations: numbers, or all."""
        return [str(name) for name in self.arrays["seat_names"]]

    def mean(self, name: str, *axes: str) -> Floats:
        """A recorded array with these axes in this order; the mean over all others."""
        values, there = self.arrays[name], self.arrays[axes_name(name)].tolist()
        others = tuple(place for place, axis in enumerate(there) if axis not in axes)
        kept = [axis for axis in there if axis in axes]
        means = values.mean(axis=others, dtype=np.float64)
        return np.asarray(means.transpose([kept.index(axis) for axis in axes]))

    @cached_property
    def score(self) -> Floats:
        """Mean scores over partners, seats and episodes, [eval, task, seed]."""
        return self.mean("score", "eval", "task", "seed")

    @cached_property
    def returns(self) -> Floats:
        """Mean returns over partners, seats and episodes, [eval, task, seed]."""
        return self.mean("returns", "eval", "task", "seed")

    @property
    def has_raw_scores(self) -> bool:
        """Whether scores are not normalised: then every task has a scale of its own."""
        return "raw_score" in self.meanings

    @property
    def is_population(self) -> bool:
        """Whether a generator trained a population."""
        return self.setting("generator") not in ("", "none")

    @property
    def algorithm(self) -> str:
        """The method, or the generator of a population."""
        return self.setting("generator" if self.is_population else "method")

    @property
    def method_name(self) -> str:
        """What the method calls itself, or its setting without the file it is in."""
        own = "" if self.is_population else self.names.get("method", "")
        return own or file_and_name(self.algorithm, CODE)[1] or self.algorithm

    def setting(self, name: str) -> str:
        """A setting as text; empty if there is none with this name."""
        return str(self.config.get(name, ""))

    def logged(self, name: str) -> tuple[Floats, Floats]:
        """A training metric: steps [row] and values [row, seed], where it was logged."""
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
    """Whether any seed has a value; updates in which no episode ended have no score."""
    return values is not None and values != [None] * len(np.atleast_1d(values))


def read_run(path: str | Path) -> RunData:
    """Read the folder of a run, which may be unfinished."""
    folder = Path(path)
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder")
    check_folder(folder)
    content = _read_config(folder / "config.json")
    measures = tuple(texts(content, "measures", str(folder / "config.json")))
    arrays = _read_arrays(folder)
    log, pictures = _read_log(folder / "log.jsonl"), _read_pictures(folder / "pictures")
    version = str(content.get("brigade", ""))
    names = {key: name[:MAX_NAME] for key, name in _declared(content, "names", str).items()}
    meanings, sets = _declared(content, "meanings", str), _declared(content, "sets", list)
    config = content["config"]
    return RunData(folder, config, arrays, log, pictures, version, measures, names, meanings, sets)


def _declared(content: Mapping[str, Any], what: str, kind: type) -> dict[str, Any]:
    """What the benchmark, the method or the generator declared, by name."""
    found = content.get(what)
    items = found.items() if isinstance(found, dict) else ()
    return {key: value for key, value in items if isinstance(value, kind)}


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise RunFolderError(f"{path.parent} is not a run folder: it has no {path.name}")
    try:
        content = read_json(path, MAX_CONFIG_BYTES)
    except (OSError, DamagedError) as error:
        raise RunFolderError(f"{path} cannot be read: {first_line(error)}") from None
    number = content.get("format") if isinstance(content, dict) else None
    if type(number) is not int or not isinstance(content.get("config"), dict):
        raise RunFolderError(f'{path} is not the config of a run: it needs "format" and "config"')
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
    if problem := find_problem(arrays):
        raise RunFolderError(f"{path}: {problem}")
    return arrays


def _read_log(path: Path) -> tuple[LogRow, ...]:
    if not path.is_file():
        return ()
    try:
        lines = read_bytes(path).splitlines()
    except (OSError, DamagedError) as error:
        raise RunFolderError(f"{path} cannot be read: {first_line(error)}") from None
    rows: dict[float, LogRow] = {}
    for number, line in enumerate(lines, start=1):
        row = _read_row(line)
        if row is not None:
            if row["metrics"]:  # rows written at an evaluation may have none
                rows[row["steps"]] = row
        elif number < len(lines):  # a killed run may leave an incomplete last row
            raise RunFolderError(f"{path}: line {number} is not a valid row")
    return tuple(rows[steps] for steps in sorted(rows))


def _read_row(line: bytes) -> LogRow | None:
    try:
        row = parse_json(line, "row")
    except DamagedError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("metrics"), dict):
        return None
    return row if type(row.get("steps")) in (int, float) else None


def _read_pictures(folder: Path) -> dict[tuple[int, int], bytes]:
    """The PNG files among the pictures."""
    pictures = {}
    for path in sorted(folder.glob("*.png")):
        name = PICTURE.fullmatch(path.name)
        if name and path.is_file():
            small = path.stat().st_size <= MAX_PICTURE_BYTES
            content = read_bytes(path, MAX_PICTURE_BYTES) if small else b""
            if content.startswith(PNG):
                pictures[int(name[1]), int(name[2])] = content
    return dict(sorted(pictures.items()))

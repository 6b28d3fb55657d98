"""Manifests: which ego learns beside which teammate in which layout, and for which split."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from brigade.errors import UserError
from brigade.reading import (
    MAX_TEXT_BYTES,
    DamagedError,
    counted,
    entry,
    parse_json,
    read_bytes,
    shown,
)

SPLITS = ("train", "test")
TRACKS = ("teammate", "layout")
SUFFIX = ".safetensors"
MOST_TASKS = 100_000


@dataclass(frozen=True)
class ManifestTask:
    """A line of a manifest: an ego that learns beside a teammate, or is tested with it."""

    task_id: str
    layout: str
    teammate: str  # a name (`brigade list partners`), or FILE:NAME
    split: str = "train"
    track: str = "teammate"
    seed: int = 0
    family: str = ""  # what the teammate is counted to in tables
    benchmark: str = "overcooked_v2/layout"

    @property
    def teammate_family(self) -> str:
        """The family, or what the teammate's name begins with; policies from files are `rl`."""
        return self.family or ("rl" if self.file else self.teammate.partition(":")[0])

    @property
    def file(self) -> str:
        """The policy file of the teammate; empty if it has none."""
        place, name = self.teammate.rpartition(":")[::2]
        path = place if place.endswith(SUFFIX) else self.teammate
        return path if path.endswith(SUFFIX) and (place != path or name) else ""


def read_manifest(path: Path) -> list[ManifestTask]:
    """The tasks of a manifest, which must fit together."""
    try:
        lines = read_bytes(path, MAX_TEXT_BYTES, follow=True).splitlines()
    except FileNotFoundError:
        raise UserError(f"there is no manifest {path}") from None
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise UserError(f"{path} is empty; a manifest has one JSON object per line")
    if len(numbered) > MOST_TASKS:
        raise UserError(f"{path} has {len(numbered):,} tasks; it may have {MOST_TASKS:,}")
    tasks = [read_task(parse_json(line, f"{path}, line {n}"), path, n) for n, line in numbered]
    check_manifest(tasks, path)
    return tasks


def read_task(tree: Any, path: Path, number: int) -> ManifestTask:
    """A line of a manifest; files are relative to it."""
    where = f"{path}, line {number}"
    known = {each.name for each in fields(ManifestTask)}
    unknown = sorted(set(entry({"task": tree}, "task", dict, where)) - known)
    if unknown:
        raise DamagedError(
            f"{where}: {shown(unknown[0])} is unknown; use {', '.join(sorted(known))}"
        )
    values: dict[str, Any] = {
        name: entry(tree, name, str, where) for name in known - {"seed"} if name in tree
    }
    for name in ("task_id", "layout", "teammate"):
        entry(tree, name, str, where)
    if "seed" in tree:
        values["seed"] = counted(tree, "seed", where)
    task = ManifestTask(**values)
    for name, options in (("split", SPLITS), ("track", TRACKS)):
        if getattr(task, name) not in options:
            raise DamagedError(
                f"{where}: {name} is {shown(getattr(task, name))}; use {' or '.join(options)}"
            )
    if task.file and not Path(task.file).is_absolute():
        task = ManifestTask(**{**values, "teammate": str(path.parent / task.teammate)})
    return task


def check_manifest(tasks: Sequence[ManifestTask], path: Path) -> None:
    """Refuse tasks of the same name, missing files, and test tasks that were trained on."""
    first: dict[str, int] = {}
    for number, task in enumerate(tasks, start=1):
        if task.task_id in first:
            raise UserError(
                f"{path}: tasks {first[task.task_id]} and {number} are both called "
                f"{shown(task.task_id)}; every task needs a name of its own"
            )
        first[task.task_id] = number
        if task.file and not Path(task.file).is_file():
            raise UserError(f"{path}: {task.task_id} needs {task.file}, which does not exist")
    hashes = {file: sha256_of(file) for file in {task.file for task in tasks if task.file}}
    check_disjoint(tasks, "teammate", [identity(task, hashes) for task in tasks], path)
    if any(task.track == "layout" for task in tasks):
        check_disjoint(tasks, "layout", [task.layout for task in tasks], path)
    members: dict[str, ManifestTask] = {}
    for task in tasks:
        name = task.teammate[len(task.file) + 1 :]
        twin = members.setdefault(name, task) if task.file else task
        if task.file and not name:
            raise UserError(f"{path}: {task.task_id} names a file; add the policy, FILE:NAME")
        if twin.file != task.file:
            raise UserError(
                f"{path}: {twin.task_id} and {task.task_id} have teammates called {name} of two "
                "files; export them with different names"
            )


def identity(task: ManifestTask, hashes: dict[str, str]) -> str:
    """The same for teammates that play alike: a file is known by its content, and the same
    heuristic is not another teammate as released."""
    if task.file:
        return task.teammate.replace(task.file, hashes[task.file])
    return task.teammate.removesuffix(":as_released")


def sha256_of(file: str) -> str:
    """The hash of a file."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def check_disjoint(
    tasks: Sequence[ManifestTask], what: str, keys: Iterable[str], path: Path
) -> None:
    """Nothing that is tested may occur in training."""
    of_split: dict[str, dict[str, ManifestTask]] = {split: {} for split in SPLITS}
    for task, key in zip(tasks, keys, strict=True):
        of_split[task.split].setdefault(key, task)
    for key, task in of_split["test"].items():
        if twin := of_split["train"].get(key):
            raise UserError(
                f"{path}: {task.task_id} tests with the {what} {getattr(task, what)}, with which "
                f"{twin.task_id} trains; the splits must not overlap"
            )


@dataclass(frozen=True)
class Batch:
    """Tasks that are trained in one program: seeds of a run, each with its own teammate."""

    benchmark: str
    layout: str
    seed: int
    tasks: tuple[ManifestTask, ...]

    @property
    def name(self) -> str:
        """What it is called in progress and as a folder."""
        words = f"{self.benchmark}-{self.layout}-{self.seed}"
        return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in words)


def batches(tasks: Iterable[ManifestTask], most: int) -> list[Batch]:
    """The tasks to train on, at most so many in a program."""
    groups: dict[tuple[str, str, int], list[ManifestTask]] = defaultdict(list)
    for task in tasks:
        if task.split == "train":
            groups[task.benchmark, task.layout, task.seed].append(task)
    found = []
    for (benchmark, layout, seed), members in groups.items():
        for first in range(0, len(members), most):
            part = tuple(members[first : first + most])
            found.append(Batch(benchmark, layout, seed + 1000 * first, part))
    return found

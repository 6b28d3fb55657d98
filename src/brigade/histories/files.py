"""Histories on disk: HDF5 files with a group per history, and an index of JSON lines.

    DIR/index.jsonl       one line per history: where it is, its task, layout, teammate, split
    DIR/shards/NAME.h5    the histories of one task, with a checksum per chunk
    DIR/shards/NAME.json  what the file holds, and its SHA-256

A shard is written beside its place and renamed, so it is there as a whole or not at all. Files of
the public release load, too: one HDF5 file beside an index whose lines do not say `file`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from brigade.core.histories import (
    ACTIONS,
    DONES,
    EXPERT_ACTIONS,
    NO_LABEL,
    OBS,
    REWARDS,
    STEP,
    TEAMMATE_ACTIONS,
    Histories,
    steps_in_episodes,
)
from brigade.errors import UserError
from brigade.machine import memory, size
from brigade.reading import (
    MEMORY_SHARE,
    DamagedError,
    check_kind,
    counted,
    entry,
    first_line,
    parse_json,
    read_bytes,
    read_json,
    shown,
)

INDEX, SHARDS = "index.jsonl", "shards"
# The fields of a history and their types on disk; the release has `obs` as float32.
TYPES = {
    OBS: np.uint8,
    ACTIONS: np.int32,
    REWARDS: np.float32,
    DONES: np.bool_,
    TEAMMATE_ACTIONS: np.int32,
    EXPERT_ACTIONS: np.int32,
}
OPTIONAL = (TEAMMATE_ACTIONS, EXPERT_ACTIONS)
CHUNK = 500  # timesteps that are compressed together
MOST_CHUNK_BYTES = 256_000_000  # of a chunk in somebody's file
MAX_LINE = 100_000
MOST_COMPRESSION = 1100  # gzip reaches 1,032


@dataclass(frozen=True)
class IndexEntry:
    """A line of the index: one history."""

    history_id: int
    task_id: str
    env_idx: int
    T: int
    obs_shape: tuple[int, ...]
    action_dim: int
    track: str = ""
    split: str = "train"
    layout: str = ""
    teammate_family: str = ""
    teammate_kind: str = ""
    h5_group: str = ""
    has_teammate_actions: bool = False
    has_expert_actions: bool = False
    # What the release's index does not say:
    file: str = ""  # relative to the folder
    obs_dtype: str = ""  # of the observations


@dataclass(frozen=True)
class Shard:
    """What is in the file of a task."""

    task_id: str
    sha256: str
    entries: tuple[IndexEntry, ...]


# --- writing ---


def write_shard(
    folder: Path, task_id: str, histories: Iterable[tuple[IndexEntry, Mapping[str, np.ndarray]]]
) -> Shard:
    """Write the histories of a task; what is there under this name is replaced."""
    import h5py

    name = shard_name(task_id)
    path = folder / SHARDS / f"{name}.h5"
    entries = []
    # In memory first: where the disk is full, the HDF5 library crashes the process.
    with h5py.File(name, "w", driver="core", backing_store=False) as file:
        for number, (described, arrays) in enumerate(histories):
            group = file.create_group(str(number))
            for field, array in arrays.items():
                chunk = (min(CHUNK, len(array)), *array.shape[1:])
                group.create_dataset(
                    field,
                    data=np.asarray(array, kept_type(field, array.dtype)),
                    chunks=chunk,
                    compression="gzip",
                    compression_opts=4,
                    shuffle=True,
                    fletcher32=True,
                )
            kind = str(kept_type(OBS, arrays[OBS].dtype))
            place = {"h5_group": f"/{number}", "file": f"{SHARDS}/{name}.h5", "obs_dtype": kind}
            entries.append(IndexEntry(**{**asdict(described), **place}))
        file.flush()
        content = file.id.get_file_image()
    shard = Shard(task_id, hashlib.sha256(content).hexdigest(), tuple(entries))
    with no_disk_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
        write_file(path.with_suffix(".json"), json.dumps(asdict(shard)).encode())
    return shard


def kept_type(field: str, given: Any) -> Any:
    """The type of a field on disk; observations that are no small whole numbers are float32."""
    small = field != OBS or np.can_cast(given, TYPES[OBS])
    return np.dtype(TYPES[field] if small else np.float32)


@contextlib.contextmanager
def no_disk_error(path: Path) -> Iterator[None]:
    """Errors of the disk in one line."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or first_line(error)}; what was complete is kept"
        ) from error


def shard_name(task_id: str) -> str:
    """A file name for a task: its id, or a hash if that is no plain name."""
    plain = task_id.replace("_", "").replace("-", "").isalnum() and len(task_id) <= 80
    return task_id if plain else hashlib.sha256(task_id.encode()).hexdigest()[:32]


def finished_shard(folder: Path, task_id: str) -> Shard | None:
    """The shard of a task, if it is there and undamaged; what is damaged must be made again."""
    path = folder / SHARDS / f"{shard_name(task_id)}.h5"
    try:
        shard = read_shard(path.with_suffix(".json"))
        check_kind(path, os.stat(path, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None
    if shard.task_id != task_id or sha256_of(path) != shard.sha256:
        raise DamagedError(f"{path} is not as it was written")
    return shard


def read_shard(path: Path) -> Shard:
    """The description of a shard."""
    tree = read_json(path)
    where = str(path)
    entries = [read_entry(each, where) for each in entry(tree, "entries", list, where)]
    return Shard(
        entry(tree, "task_id", str, where), entry(tree, "sha256", str, where), tuple(entries)
    )


def write_index(folder: Path, shards: Iterable[Shard]) -> list[IndexEntry]:
    """The index of all shards, in their order; histories are numbered anew."""
    entries = [entry for shard in shards for entry in shard.entries]
    entries = [
        IndexEntry(**{**asdict(each), "history_id": number}) for number, each in enumerate(entries)
    ]
    lines = "".join(json.dumps(asdict(each)) + "\n" for each in entries)
    with no_disk_error(folder / INDEX):
        write_file(folder / INDEX, lines.encode())
    return entries


def write_file(path: Path, content: bytes) -> None:
    """Write a file as a whole, to the disk itself."""
    draft = path.with_name(path.name + ".draft")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """The hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- reading ---


def read_index(folder: Path) -> list[IndexEntry]:
    """The lines of an index, each with its file."""
    path = folder / INDEX
    try:
        lines = read_bytes(path).splitlines()
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no {INDEX}; name a folder of `brigade histories make`"
        ) from None
    if not lines:
        raise DamagedError(f"{path} is empty")
    return [
        read_entry(parsed(line, path, n), f"{path}, line {n}") for n, line in enumerate(lines, 1)
    ]


def parsed(line: bytes, path: Path, number: int) -> Any:
    """A line of an index as JSON."""
    if len(line) > MAX_LINE:
        raise DamagedError(
            f"{path}, line {number} has {len(line):,} bytes; it may have {MAX_LINE:,}"
        )
    return parse_json(line, f"{path}, line {number}")


def read_entry(tree: Any, where: str) -> IndexEntry:
    """A line of the index."""
    shape = entry(tree, "obs_shape", list, where)
    if not all(type(size) is int and 0 < size < 100_000 for size in shape):
        raise DamagedError(f"{where}: 'obs_shape' is {shown(shape)}; it must be positive integers")
    values: dict[str, Any] = {
        "obs_shape": tuple(shape),
        "history_id": counted(tree, "history_id", where),
        "env_idx": counted(tree, "env_idx", where),
        "T": counted(tree, "T", where),
        "action_dim": counted(tree, "action_dim", where),
        "task_id": entry(tree, "task_id", str, where),
    }
    for each in fields(IndexEntry):
        if each.name not in values and each.name in tree:
            kind: type = bool if each.name.startswith("has_") else str
            values[each.name] = entry(tree, each.name, kind, where)
    return IndexEntry(**values)


class FileHistories(Histories):
    """The histories of a folder; timesteps are read when they are asked for."""

    def __init__(
        self, folder: str | Path, keep: Callable[[IndexEntry], bool] = lambda entry: True
    ) -> None:
        self.folder = Path(folder)
        self.entries = [each for each in read_index(self.folder) if keep(each)]
        if not self.entries:
            raise UserError(f"{self.folder} has no histories of the kind that is asked for")
        self.lengths = np.array([each.T for each in self.entries], np.int64)
        names = list(dict.fromkeys(each.task_id for each in self.entries))
        self.tasks = np.array([names.index(each.task_id) for each in self.entries], np.int32)
        shapes = sorted({each.obs_shape for each in self.entries})
        if len(shapes) > 1:
            raise UserError(
                f"{self.folder} has observations of shapes {shapes[0]} and {shapes[1]}; one model "
                "reads one shape, choose layouts that share it"
            )
        self.obs_shape = shapes[0]
        has = {
            TEAMMATE_ACTIONS: all(each.has_teammate_actions for each in self.entries),
            EXPERT_ACTIONS: all(each.has_expert_actions for each in self.entries),
        }
        self.fields = tuple(name for name in TYPES if has.get(name, True))
        self._steps: dict[int, np.ndarray] = {}
        self._datasets: dict[tuple[int, str], Any] = {}

    @cached_property
    def _files(self) -> dict[Path, Any]:
        """The HDF5 files, opened and checked."""
        paths = {self._path(each) for each in self.entries}
        return {path: opened(path) for path in sorted(paths)}

    def _path(self, each: IndexEntry) -> Path:
        if each.file:
            path = self.folder / each.file
            if Path(each.file).is_absolute() or ".." in Path(each.file).parts:
                raise DamagedError(f"{self.folder / INDEX} names {shown(each.file)}, outside of it")
            return path
        found = sorted(self.folder.glob("*.h5")) + sorted(self.folder.glob("*.hdf5"))
        if len(found) != 1:
            raise UserError(
                f"the index of {self.folder} names no files, and there are {len(found)} HDF5 files "
                "beside it; there must be one"
            )
        return found[0]

    def _dataset(self, history: int, field: str) -> Any:
        if (history, field) not in self._datasets:
            each = self.entries[history]
            self._datasets[history, field] = dataset(self._files[self._path(each)], each, field)
        return self._datasets[history, field]

    def files(self) -> list[Path]:
        """The files that hold the histories."""
        return list(self._files)

    def window(
        self, history: int, start: int, length: int, names: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """Timesteps of one history, all fields or only some."""
        stop = start + length
        found = {name: self._read(history, name, start, stop) for name in names or self.fields}
        return found if names else {**found, STEP: self.steps(history)[start:stop]}

    def steps(self, history: int) -> np.ndarray:
        """[T] int32: how many timesteps of the same episode came before."""
        if history not in self._steps:
            dones = self._read(history, DONES, 0, int(self.lengths[history]))
            self._steps[history] = steps_in_episodes(dones)
        return self._steps[history]

    def _read(self, history: int, field: str, start: int, stop: int) -> np.ndarray:
        from_file = self._dataset(history, field)
        asked = (stop - start) * from_file.dtype.itemsize * int(np.prod(from_file.shape[1:]))
        if asked > memory() // MEMORY_SHARE:
            raise DamagedError(
                f"{from_file.file.filename}: {from_file.name} would fill {size(asked)} of memory"
            )
        try:
            values = from_file[start:stop]
        except OSError as error:
            raise DamagedError(
                f"{from_file.file.filename} is damaged at {from_file.name}; "
                "`brigade histories make` writes it again"
            ) from error
        entry = self.entries[history]
        if field == OBS and entry.obs_dtype == "float32":
            return np.asarray(values, np.float32)
        as_kept: np.ndarray = values.astype(TYPES[field])
        if problem := strange(field, values, as_kept, entry.action_dim):
            raise DamagedError(f"{from_file.file.filename}: {from_file.name} has {problem}")
        return as_kept


def strange(field: str, values: np.ndarray, as_kept: np.ndarray, num_actions: int) -> str:
    """What no history has; empty if nothing is."""
    if field == OBS and not np.array_equal(as_kept, values):
        return "values that are no whole numbers from 0 to 255"
    if field == REWARDS and not np.isfinite(values).all():
        return "rewards that are not finite"
    least = NO_LABEL if field == EXPERT_ACTIONS else 0
    if field.endswith("actions") and not ((values >= least) & (values < num_actions)).all():
        return f"actions that are not from {least} to {num_actions - 1}"
    return ""


def opened(path: Path) -> Any:
    """An HDF5 file of a stranger."""
    import h5py

    try:
        check_kind(path, os.stat(path, follow_symlinks=False).st_mode)
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing; `brigade histories make` writes it") from None
    except OSError as error:
        raise DamagedError(f"{path} is damaged: {first_line(error)}") from error


def dataset(file: Any, described: IndexEntry, field: str) -> Any:
    """A field of a history, if it is what the index says: nothing in other files, no bombs."""
    import h5py

    where = f"{file.filename}: {described.h5_group}/{field}"
    node = file
    for part in [*described.h5_group.strip("/").split("/"), field]:
        plain = part not in ("", ".", "..") and "\0" not in part and isinstance(node, h5py.Group)
        link = node.get(part, getlink=True) if plain else None
        if type(link) is not h5py.HardLink:
            raise DamagedError(f"{where} is missing, or a link")
        node = node[part]
    if not isinstance(node, h5py.Dataset) or node.is_virtual or node.external:
        raise DamagedError(f"{where} is no plain array")
    wanted = (described.T, *(described.obs_shape if field == OBS else ()))
    if node.shape != wanted or node.dtype.kind not in "biuf" or node.dtype.hasobject:
        raise DamagedError(f"{where} has shape {node.shape}; the index says {wanted}")
    chunk = int(np.prod(node.chunks or wanted)) * node.dtype.itemsize
    if chunk > MOST_CHUNK_BYTES:
        raise DamagedError(
            f"{where} has chunks of {chunk:,} bytes; they may have {MOST_CHUNK_BYTES:,}"
        )
    promised, stored = int(node.nbytes), int(node.id.get_storage_size())
    if promised > MOST_COMPRESSION * (stored + 1000):
        raise DamagedError(f"{where} promises {size(promised)} and has {size(stored)}")
    return node


# --- which streams are kept ---


def quality(returns: np.ndarray) -> float:
    """How well a stream ends, plus how much better than it begins; `returns` [episodes]."""
    window = max(5, len(returns) // 10)
    end, start = returns[-window:].mean(), returns[:window].mean()
    return float(end + (end - start))


def best_streams(returns: Sequence[np.ndarray], most: int) -> list[int]:
    """The numbers of the streams of the highest quality, the best first."""
    scores = [quality(each) for each in returns]
    return sorted(range(len(scores)), key=lambda n: -scores[n])[:most]


def episode_returns(rewards: np.ndarray, dones: np.ndarray) -> np.ndarray:
    """The returns of a history's whole episodes."""
    number = np.concatenate([[0], np.cumsum(dones[:-1])]).astype(int)
    totals = np.bincount(number, rewards)
    return totals[: int(dones.sum())]


@contextlib.contextmanager
def closing(histories: FileHistories) -> Iterator[FileHistories]:
    """Histories whose files are closed at the end."""
    try:
        yield histories
    finally:
        for file in histories.__dict__.pop("_files", {}).values():
            file.close()

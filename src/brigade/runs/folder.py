"""A run on disk: config, log, evaluations and checkpoints, safe against a crash at any time.

Files are replaced atomically, never changed in place. A checkpoint is valid only if it has a
manifest and every file matches its hash there. Nothing is a pickle.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from brigade.errors import UserError
from brigade.reading import (
    DamagedError,
    check_folder,
    expect,
    open_plain,
    read_bytes,
    read_json,
    shown,
)
from brigade.reading import read_npz as read_arrays
from brigade.runs.state_files import save_state

FORMAT = 1  # of run folders; increased by changes that older versions would misread
CHECKPOINTS_KEPT = 2
# What a run can have written before its first checkpoint.
UNSTARTED = {
    *(".lock", "config.json", "sessions.jsonl", "log.jsonl", "returns.npz", "partners", "code"),
    *("pictures", "snapshots", "checkpoints", "tensorboard"),
}
MAX_CONFIG_BYTES = 4_000_000
NUMBER = re.compile(r"[0-9]{8,18}")  # the name of a checkpoint
DRAFT = re.compile(r"\.draft-[0-9a-f]{16}")

Found = TypeVar("Found")


class RunFolderError(UserError):
    """A run folder is missing, exists already, is in use or is damaged."""


@dataclass
class RunFolder:
    """The folder of a run, locked by the one process that writes to it."""

    path: Path
    _lock: IO[str] | None = field(default=None, repr=False)

    @classmethod
    def create(cls, path: Path, config: str, files: Mapping[str, bytes] | None = None) -> RunFolder:
        """Create a new folder with its config and other `files`; an existing one is an error.

        One that crashed before its first checkpoint is taken up, if its config is the same.
        """
        check_new(path, config)
        try:
            is_new = make_folder(path)
        except OSError as error:
            raise RunFolderError(
                f"cannot create {path}: {error.strerror}; choose another --out"
            ) from error
        folder = cls(path)
        try:
            folder.lock()
            check_new(path, config)  # again: another process may have had it until now
            folder.truncate_log(0)
            for name, content in (files or {}).items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path / name, content)
            write_atomically(path / "config.json", config.encode())  # last: all is there
        except BaseException:
            if is_new and folder.is_locked:
                shutil.rmtree(path, ignore_errors=True)
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing folder."""
        if not path.is_dir():
            raise RunFolderError(f"there is no run folder {path}")
        check_folder(path)
        if not (path / "config.json").is_file():
            raise RunFolderError(f"{path} is not a run folder: it has no config.json")
        return cls(path)

    @property
    def is_locked(self) -> bool:
        """Whether this process may write."""
        return self._lock is not None

    def lock(self) -> None:
        """Keep other processes from writing; the lock is released when this process ends."""
        # Opened without emptying it: the file may be another's under a second name.
        lock = os.fdopen(open_plain(self.path / ".lock", os.O_RDWR | os.O_CREAT), "r+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lock = lock
        except OSError:
            lock.close()
            raise RunFolderError(
                f"{self.path} is being written by another process; wait for it or stop it"
            ) from None

    def read_config(self) -> str:
        """The text of config.json."""
        path = self.path / "config.json"
        try:
            return read_bytes(path, MAX_CONFIG_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise RunFolderError(f"{path} is damaged: {error}") from error

    # --- log and evaluations ---

    @property
    def log_path(self) -> Path:
        """One JSON object per update."""
        return self.path / "log.jsonl"

    def append_log(self, rows: list[dict[str, Any]]) -> None:
        """Append rows."""
        self.append_rows(self.log_path.name, rows)

    def append_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Append rows to a file of the folder, one JSON object per line."""
        descriptor = open_plain(self.path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def truncate_log(self, size: int) -> None:
        """Drop what was logged after the checkpoint that a run resumes from.

        A log that lost its end in a crash is shorter than `size`; its whole lines are kept.
        """
        try:
            with os.fdopen(open_plain(self.log_path), "rb") as log:
                kept = log.read(size)
        except FileNotFoundError:
            kept = b""
        # Replaced, not cut in place: the file may be another's under a second name.
        write_atomically(self.log_path, kept[: kept.rfind(b"\n") + 1])

    def log_size(self) -> int:
        """Bytes logged so far."""
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def write_returns(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Replace returns.npz."""
        write_atomically(self.path / "returns.npz", npz_bytes(arrays))

    def read_returns(self) -> dict[str, np.ndarray]:
        """The arrays of returns.npz."""
        return read_npz(self.path / "returns.npz")

    # --- checkpoints ---

    @property
    def checkpoints(self) -> Path:
        """One folder per checkpoint, named by its number."""
        return self.path / "checkpoints"

    def save_checkpoint(self, number: int, state: Any, files: Mapping[str, bytes]) -> None:
        """Write `state` with Orbax and `files` next to it, then delete old checkpoints."""
        target = self.checkpoints / f"{number:08d}"
        draft = self.checkpoints / f".draft-{secrets.token_hex(8)}"
        self.checkpoints.mkdir(exist_ok=True)
        draft.mkdir()  # fails if it exists
        try:
            save_state(draft / "state", state)
            for name, content in files.items():
                (draft / name).write_bytes(content)
            manifest = {name: digest(draft / name) for name in sorted(files_below(draft))}
            write_atomically(draft / "manifest.json", json.dumps(manifest, indent=1).encode())
            shutil.rmtree(target, ignore_errors=True)
            os.replace(draft, target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        sync(self.checkpoints)
        for old in self.checkpoint_numbers()[:-CHECKPOINTS_KEPT]:
            shutil.rmtree(self.checkpoints / f"{old:08d}", ignore_errors=True)

    def checkpoint_numbers(self) -> list[int]:
        """Complete checkpoints, oldest first."""
        if not self.checkpoints.is_dir():
            return []
        return sorted(int(p.name) for p in self.checkpoints.iterdir() if NUMBER.fullmatch(p.name))

    def remove_drafts(self) -> None:
        """Delete the unfinished checkpoints of a process that was killed; links are left alone."""
        if not self.checkpoints.is_dir():
            return
        for path in self.checkpoints.iterdir():
            if DRAFT.fullmatch(path.name) and stat.S_ISDIR(path.lstat().st_mode):
                shutil.rmtree(path, ignore_errors=True)

    def valid_checkpoints(self, warn: Callable[[str], None]) -> Iterator[Path]:
        """Checkpoints whose files match their hashes, newest first; others cause a warning."""
        for number in reversed(self.checkpoint_numbers()):
            path = self.checkpoints / f"{number:08d}"
            problem = find_damage(path)
            if problem is None:
                yield path
            else:
                warn(damage_warning(path, problem))

    def newest(
        self, read: Callable[[Path], Found | None], warn: Callable[[str], None]
    ) -> Found | None:
        """What `read` makes of the newest checkpoint that it can read; None if there is none.

        Where it returns None, the one before is tried.
        """
        for path in self.valid_checkpoints(warn):
            try:
                found = read(path)
            except DamagedError as error:
                warn(damage_warning(path, str(error)))
            else:
                if found is not None:
                    return found
        return None


def damage_warning(checkpoint: Path, problem: str) -> str:
    """What is wrong with a checkpoint, and what happens now."""
    return f"checkpoint {checkpoint.name} is damaged ({problem}); trying the one before it"


def make_folder(path: Path) -> bool:
    """Make a folder; returns False if it is there already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


def check_new(path: Path, config: str | None = None) -> None:
    """Refuse a path that exists, unless it is a run with this config, or any if None, that has no
    checkpoint yet."""
    if not path.exists():
        return
    exists = f"{path} exists already"
    if not is_unstarted(path):
        is_run = (path / "config.json").exists()
        hint = f"continue it with 'brigade resume {path}', or " if is_run else ""
        raise RunFolderError(f"{exists}; {hint}choose another --out")
    written = path / "config.json"
    if config is not None and written.exists() and read_bytes(written) != config.encode():
        raise RunFolderError(f"{exists} with other settings or code; choose another --out")


def is_unstarted(path: Path) -> bool:
    """Whether a folder is empty, or a run that stopped before its first checkpoint."""
    if not path.is_dir() or RunFolder(path).checkpoint_numbers():
        return False
    check_folder(path)
    names = [each.name for each in path.iterdir()]
    return all(name in UNSTARTED or name.endswith(".draft") for name in names) and (
        ".lock" in names or not names
    )


def find_damage(checkpoint: Path) -> str | None:
    """Describe the first file that is missing or has changed; None if there is none."""
    try:
        manifest = expect(read_json(checkpoint / "manifest.json"), dict, "its manifest")
    except (OSError, DamagedError):
        return "its manifest is missing or unreadable"
    there = set(files_below(checkpoint))  # a name in the manifest may point anywhere
    for name, wanted in manifest.items():
        if name not in there:
            return f"{shown(name)} is missing"
        if digest(checkpoint / name) != wanted:
            return f"{name} has changed"
    return None


def files_below(folder: Path) -> list[str]:
    """All files in a folder and its subfolders, relative to it."""
    return [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()]


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with os.fdopen(open_plain(path, follow=True), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file so that readers see the old one or the new one, never a part.

    Several processes may write the same file: each has its own draft.
    """
    # Not from tempfile, whose files only their owner can read.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(folder: Path) -> None:
    """Flush renames in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of an .npz file; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    content: dict[str, Any] = dict(arrays)
    np.savez_compressed(buffer, **content)
    return buffer.getvalue()


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file; pickles are rejected."""
    try:
        return read_arrays(path)
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing; the run has no evaluation yet") from None
    except DamagedError as error:
        raise RunFolderError(str(error)) from error

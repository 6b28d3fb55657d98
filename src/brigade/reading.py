"""Reads files that a stranger may have made.

Only plain files are opened, nothing is larger than expected, and every value has the type it should
have. Whatever is wrong is a one-line error; a missing file is a FileNotFoundError.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from brigade.errors import UserError
from brigade.machine import memory, size

MAX_TEXT_BYTES = 16_000_000  # of a JSON or TOML file
MAX_DEPTH = 32  # of objects and lists within each other
MAX_INTEGER = 2**63  # larger ones fit into no array
MAX_SHOWN = 60  # characters of a value in an error message
MEMORY_SHARE = 4  # the arrays of a file may fill this part of the memory: 1 / 4
OTHERS = ("wandb",)  # folders that another program writes, with links; they are never read
ARRAY_KINDS = "biufUS"  # truth values, numbers and text: no objects, no records
WORDS = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}

Value = TypeVar("Value")


class DamagedError(UserError):
    """A file is not what it should be."""


# --- files ---


def open_plain(path: str | Path, flags: int = os.O_RDONLY, follow: bool = False) -> int:
    """A descriptor of a plain file; links, folders, pipes and devices are refused unopened.

    A name that the user gave may be a link (`follow`); one found in a folder may not.
    """
    try:
        there = os.stat(path, follow_symlinks=follow)
        check_kind(path, there.st_mode)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    except ValueError as error:  # no name of a file has a zero byte
        raise DamagedError(f"{shown(str(path))} is not a file: {error}") from error
    nofollow = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, flags | nofollow | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        check_kind(path, os.fstat(descriptor).st_mode)  # it may have been replaced
    except DamagedError:
        os.close(descriptor)
        raise
    return descriptor


def check_kind(path: str | Path, mode: int, folder: bool = False) -> None:
    """Refuse what is not a plain file or, if allowed, a folder."""
    if stat.S_ISREG(mode) or (folder and stat.S_ISDIR(mode)):
        return
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    found = next((words for is_kind, words in kinds if is_kind(mode)), "a device")
    raise DamagedError(f"{path} is {found}; it must be a plain file")


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but plain files and folders."""
    waiting = [str(folder)]
    while waiting:
        path = waiting.pop()
        # Another process may be writing to the folder and delete what was there a moment ago.
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(path, follow_symlinks=path == str(folder)).st_mode
            check_kind(path, mode, folder=True)
            if stat.S_ISDIR(mode) and os.path.relpath(path, folder) not in OTHERS:
                waiting += [os.path.join(path, name) for name in os.listdir(path)]


def read_bytes(path: str | Path, limit: int | None = None, follow: bool = False) -> bytes:
    """The content of a plain file of at most `limit` bytes (default: what memory holds)."""
    limit = memory() // MEMORY_SHARE if limit is None else limit
    try:
        with open(open_plain(path, follow=follow), "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if length > limit:
                raise DamagedError(f"{path} has {size(length)}; it may have {size(limit)}")
            return file.read(limit)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedError(f"cannot read {path}: {error.strerror}") from error


# --- text ---


def read_json(path: str | Path, limit: int = MAX_TEXT_BYTES, follow: bool = False) -> Any:
    """The content of a JSON file."""
    return parse_json(read_bytes(path, limit, follow), str(path))


def parse_json(content: bytes | str, where: str) -> Any:
    """JSON without repeated names, integers that fit nowhere, and endless nesting."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        tree = json.loads(text, object_pairs_hook=_unique, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{where} is damaged: {first_line(error)}") from error
    check_depth(tree, where)
    return tree


def parse_toml(content: bytes, where: str) -> dict[str, Any]:
    """TOML without endless nesting."""
    try:
        tree = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{where} is not valid: {first_line(error)}") from error
    check_depth(tree, where)
    return tree


def check_depth(tree: Any, where: str) -> None:
    """Refuse objects and lists that are nested more deeply than any of ours."""
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [
            each
            for node in level
            if isinstance(node, dict | list)
            for each in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return
    raise DamagedError(f"{where} is damaged: it is nested more than {MAX_DEPTH} levels deep")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{shown(twice)} is given twice")
    return found


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > MAX_INTEGER:
        raise ValueError(f"the integer {text[:MAX_SHOWN]} is too large")
    return int(text)


# --- values ---


def expect(value: Any, kind: type[Value], where: str) -> Value:
    """The value, which must be of this type; an integer is also a number."""
    if kind is float and type(value) is int:
        return value  # type: ignore[return-value]
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise DamagedError(f"{where} is {shown(value)}; it must be {WORDS.get(kind, kind.__name__)}")


def entry(tree: Any, name: str, kind: type[Value], where: str) -> Value:
    """An entry of an object, which must be there and of this type."""
    found = expect(tree, dict, where)
    if name not in found:
        raise DamagedError(f"{where} is damaged: {name!r} is missing")
    return expect(found[name], kind, f"{where}: {name!r}")


def counted(tree: Any, name: str, where: str) -> int:
    """An entry that is a number of things: an integer of 0 or more."""
    number = entry(tree, name, int, where)
    if number < 0:
        raise DamagedError(f"{where}: {name!r} is {number}; it must be 0 or more")
    return number


def texts(tree: Any, name: str, where: str) -> list[str]:
    """An entry that is a list of texts."""
    words = entry(tree, name, list, where)
    return [expect(word, str, f"{where}: {name!r}") for word in words]


def shown(value: Any) -> str:
    """A value in an error message: one short line."""
    if isinstance(value, dict | list):
        return f"{WORDS[dict if isinstance(value, dict) else list]} of {len(value)}"
    text = ascii(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def first_line(error: BaseException) -> str:
    """What an error says, in one short line."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][: 2 * MAX_SHOWN]


# --- arrays ---


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file; their sizes are checked before memory is reserved for them."""
    content = read_bytes(path)
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if total > memory() // MEMORY_SHARE:
                raise ValueError(f"its arrays would fill {size(total)}")
            names = [member.filename for member in members]
            if len(set(names)) < len(names):
                raise ValueError("it has two arrays of the same name")
            return {
                member.filename.removesuffix(".npy"): _array(archive, member) for member in members
            }
    except Exception as error:  # errors of zip files and headers have no common type
        raise DamagedError(f"{path} is damaged: {first_line(error)}") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array, if its header promises no more than the file says it has."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.kind not in ARRAY_KINDS or dtype.itemsize < 1 or min(shape, default=0) < 0:
            raise ValueError(f"{member.filename} must have numbers or text")
        promised = math.prod(max(length, 1) for length in shape) * dtype.itemsize
        if promised > max(member.file_size, np.lib.format.BUFFER_SIZE):
            raise ValueError(f"{member.filename} promises more than there is")
    with archive.open(member) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))

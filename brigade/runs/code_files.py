"""Copies of the user's Python files that a run is made of, so that its folder is self-contained.

`config.json` keeps names as given, `examples/anchor.py:Anchor`, and lists under `code` where the
copy of each file is: `code/0123456789abcdef/anchor.py`. The folder is named by a hash of everything
in it: the file, and the modules next to it that it imported.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from brigade.errors import UserError
from brigade.reading import read_bytes
from brigade.runs.trust import CODE, code_in

FOLDER = "code"
COPY = re.compile(rf"{FOLDER}/[0-9a-f]{{16}}/[^/\\]+\.py")
MAX_CODE_BYTES = 4_000_000
INSTALLED = ("site-packages", "dist-packages")


def copies(tree: Any) -> tuple[dict[str, str], dict[str, bytes]]:
    """Where the copy of each file is, and all files to write; both relative to the run folder."""
    where: dict[str, str] = {}
    content: dict[str, bytes] = {}
    for file in dict.fromkeys(name.rpartition(":")[0] for name in code_in(tree)):
        sources = {name: path.read_bytes() for name, path in sources_of(Path(file)).items()}
        folder = f"{FOLDER}/{hash_of(sources)}"
        where[file] = f"{folder}/{Path(file).name}"
        content |= {f"{folder}/{name}": source for name, source in sources.items()}
    return where, content


def sources_of(file: Path) -> dict[str, Path]:
    """A file and the imported modules below its folder, by their paths relative to it."""
    folder = file.resolve().parent
    found = {file.name: file}
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.suffix == ".py" and path.is_relative_to(folder) and is_users(module, path):
            found[path.relative_to(folder).as_posix()] = path
    return found


def is_users(module: Any, path: Path) -> bool:
    """Whether a module is the user's own: not installed and not part of Brigade."""
    package = str(module.__name__).partition(".")[0]
    installed = any(part in INSTALLED for part in path.parts)
    return (
        not installed
        and package not in ("brigade", "__main__")
        and not package.startswith("brigade_file_")
    )


def hash_of(sources: Mapping[str, bytes]) -> str:
    """A hash of files by name and content."""
    total = hashlib.sha256()
    for name, source in sorted(sources.items()):
        total.update(f"{name}\0{hashlib.sha256(source).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def with_kept_code(
    tree: Any, where: Mapping[str, str], folder: Path, say: Callable[[str], None]
) -> Any:
    """Settings that name the copies in a run folder instead of the files it was started with."""
    kept = {file: kept_copy(file, copy, folder, say) for file, copy in where.items()}

    def change(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: change(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [change(each) for each in value]
        if not isinstance(value, str) or CODE not in value:
            return value
        file, colon, name = value.rpartition(":")
        return f"{kept[file]}{colon}{name}" if file in kept else value

    return change(tree)


def kept_copy(file: str, copy: str, folder: Path, say: Callable[[str], None]) -> Path:
    """The path of a copy; it must be unchanged. Says so if the original has changed since."""
    if not COPY.fullmatch(copy):
        raise UserError(f"{folder}/config.json: the copy of {file} must be {FOLDER}/HASH/NAME.py")
    path = folder / copy
    found = {
        each.relative_to(path.parent).as_posix(): read_bytes(each, MAX_CODE_BYTES)
        for each in sorted(path.parent.rglob("*.py"))
    }
    if path.name not in found or hash_of(found) != path.parent.name:
        raise UserError(f"{path} is not the file of this run: it is missing or was changed")
    if has_changed(Path(file), found):
        say(f"{file} has changed since this run started; its copy {path} is used")
    return path


def has_changed(file: Path, found: Mapping[str, bytes]) -> bool:
    """Whether the file a run was started with is there and differs from the copy."""
    if not file.is_file():
        return False
    now = {name: file.parent / name for name in found}
    return any(not path.is_file() or path.read_bytes() != found[name] for name, path in now.items())

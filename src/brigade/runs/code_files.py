"""Copies of the user's Python files that a run is made of, so that its folder is self-contained.

`config.json` keeps names as given, `examples/anchor.py:Anchor`, and lists under `code` where the
copy of each file is: `code/0123456789abcdef/anchor.py`. The folder is named by a hash of everything
in it: the file, and the modules next to it that it imported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from brigade import registry
from brigade.errors import UserError
from brigade.reading import read_bytes
from brigade.registry import CODE, file_and_name
from brigade.runs.trust import code_in, map_texts

FOLDER = "code"
COPY = re.compile(rf"{FOLDER}/[0-9a-f]{{16}}/[^/\\]+\.py")
MAX_CODE_BYTES = 4_000_000


def copies(tree: Any) -> tuple[dict[str, str], dict[str, bytes]]:
    """Where the copy of each file is, and all files to write; both relative to the run folder."""
    where: dict[str, str] = {}
    content: dict[str, bytes] = {}
    for file in dict.fromkeys(
        registry.file_and_name(name, registry.CODE)[0] for name in code_in(tree)
    ):
        sources = {name: path.read_bytes() for name, path in sources_of(Path(file)).items()}
        folder = f"{FOLDER}/{hash_of(sources)}"
        where[file] = f"{folder}/{Path(file).name}"
        content |= {f"{folder}/{name}": source for name, source in sources.items()}
    return where, content


def sources_of(file: Path) -> dict[str, Path]:
    """A file and the modules it imported from its folder, by their paths relative to it."""
    folder = file.resolve().parent
    beside = registry.imported_by(file).values()
    return {file.name: file} | {path.relative_to(folder).as_posix(): path for path in beside}


def named_by_content(tree: Any) -> Any:
    """Settings in which code is named by its hash, not by where it is."""
    return _renamed(tree, copies(tree)[0])


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
    return _renamed(tree, kept)


def _renamed(tree: Any, names: Mapping[str, str | Path]) -> Any:
    """Settings with other names of files of code."""

    def changed(word: str) -> str:
        file, name = file_and_name(word, CODE)
        return f"{names[file]}:{name}" if name and file in names else word

    return map_texts(tree, changed)


def kept_copy(file: str, copy: str, folder: Path, say: Callable[[str], None]) -> Path:
    """The path of a copy; it must be unchanged. Says so if the original has changed since."""
    if not COPY.fullmatch(copy):
        raise UserError(f"{folder}/config.json: the copy of {file} must be {FOLDER}/HASH/NAME.py")
    path = folder / copy
    # All files, not only .py: Python would prefer a compiled module to its source.
    found = {
        each.relative_to(path.parent).as_posix(): read_bytes(each, MAX_CODE_BYTES)
        for each in sorted(path.parent.rglob("*"))
        if not each.is_dir()
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

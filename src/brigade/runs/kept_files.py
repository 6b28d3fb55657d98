"""Copies of the files that a run is made of, so that its folder is self-contained.

`config.json` keeps names of Python files as given, `examples/anchor.py:Anchor`, and lists under
`code` where the copy of each file is: `code/0123456789abcdef/anchor.py`. The folder is named by a
hash of everything in it: the file, and the modules next to it that it imported.

Policy files are named by a hash of their content: `partners/0123456789abcdef.safetensors`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from brigade.errors import UserError
from brigade.partners.files import SUFFIX
from brigade.reading import read_bytes
from brigade.registry import CODE, file_and_name, imported_by
from brigade.runs.folder import digest
from brigade.runs.trust import code_in, map_texts

CODE_FOLDER, PARTNER_FOLDER = "code", "partners"
CODE_COPY = re.compile(rf"{CODE_FOLDER}/[0-9a-f]{{16}}/[^/\\]+\.py")
PARTNER_COPY = re.compile(rf"{PARTNER_FOLDER}/[0-9a-f]{{16}}{re.escape(SUFFIX)}")
MAX_CODE_BYTES = 4_000_000


def settings_hash(tree: Any, length: int) -> str:
    """A hash of settings in which files are named by their content, not by where they are."""
    text = json.dumps(named_by_content(name_by_hash(tree)[0]), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def copies(tree: Any) -> tuple[dict[str, str], dict[str, bytes]]:
    """Where the copy of each file is, and all files to write; both relative to the run folder."""
    where: dict[str, str] = {}
    content: dict[str, bytes] = {}
    for file in dict.fromkeys(file_and_name(name, CODE)[0] for name in code_in(tree)):
        sources = {name: path.read_bytes() for name, path in sources_of(Path(file)).items()}
        folder = f"{CODE_FOLDER}/{hash_of(sources)}"
        where[file] = f"{folder}/{Path(file).name}"
        content |= {f"{folder}/{name}": source for name, source in sources.items()}
    return where, content


def sources_of(file: Path) -> dict[str, Path]:
    """A file and the modules it imported from its folder, by their paths relative to it."""
    folder = file.resolve().parent
    beside = imported_by(file).values()
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
    if not CODE_COPY.fullmatch(copy):
        raise UserError(
            f"{folder}/config.json: the copy of {file} must be {CODE_FOLDER}/HASH/NAME.py"
        )
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


def name_by_hash(tree: Any) -> tuple[Any, dict[str, Path]]:
    """Settings with policy files named by their hash, and the original path of each."""
    found: dict[str, Path] = {}

    def name(file: str) -> str:
        path = Path(file)
        if not path.is_file():
            return file
        copy = f"{PARTNER_FOLDER}/{digest(path)[:16]}{SUFFIX}"
        found[copy] = path
        return copy

    return map_files(tree, name), found


def with_paths(tree: Any, folder: Path) -> Any:
    """The settings of a run folder with the full paths of its policy files."""
    if ".py:" in str(folder):  # a path below it would look like the name of code
        raise UserError(f"{folder} has .py: in its name; rename the folder")

    def path(file: str) -> str:
        return str(folder / file) if PARTNER_COPY.fullmatch(file) else file

    return map_files(tree, path)


def map_files(tree: Any, change: Callable[[str], str]) -> Any:
    """Apply `change` to every policy file in the settings; in FILE:NAME, to FILE only."""

    def changed(word: str) -> str:
        file, name = file_and_name(word, SUFFIX)
        if not file:
            return word
        return change(file) if name is None else f"{change(file)}:{name}"

    return map_texts(tree, changed)

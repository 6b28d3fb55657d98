"""Copies of the policy files a run uses, so that its folder is self-contained.

The config names each file by a hash of its content: `partners/0123456789abcdef.safetensors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brigade.errors import UserError
from brigade.partners.files import SUFFIX
from brigade.registry import file_and_name
from brigade.runs.folder import digest
from brigade.runs.trust import map_texts

FOLDER = "partners"
COPY = re.compile(rf"{FOLDER}/[0-9a-f]{{16}}{re.escape(SUFFIX)}")


def name_by_hash(tree: Any) -> tuple[Any, dict[str, Path]]:
    """Settings with policy files named by their hash, and the original path of each."""
    found: dict[str, Path] = {}

    def name(file: str) -> str:
        path = Path(file)
        if not path.is_file():
            return file
        copy = f"{FOLDER}/{digest(path)[:16]}{SUFFIX}"
        found[copy] = path
        return copy

    return map_files(tree, name), found


def with_paths(tree: Any, folder: Path) -> Any:
    """The settings of a run folder with the full paths of its policy files."""
    if ".py:" in str(folder):  # a path below it would look like the name of code
        raise UserError(f"{folder} has .py: in its name; rename the folder")

    def path(file: str) -> str:
        return str(folder / file) if COPY.fullmatch(file) else file

    return map_files(tree, path)


def map_files(tree: Any, change: Callable[[str], str]) -> Any:
    """Apply `change` to every policy file in the settings; in FILE:NAME, to FILE only."""

    def changed(word: str) -> str:
        file, name = file_and_name(word, SUFFIX)
        if not file:
            return word
        return change(file) if name is None else f"{change(file)}:{name}"

    return map_texts(tree, changed)

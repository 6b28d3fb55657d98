"""Policy files a run uses, kept in its folder: a run is whole by itself.

In the folder's config a file is named by its content, `partners/0123456789abcdef.safetensors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from brigade.partners.files import SUFFIX
from brigade.runs.folder import digest, write_atomically

FOLDER = "partners"
KEPT = re.compile(rf"{FOLDER}/[0-9a-f]{{16}}{re.escape(SUFFIX)}")


def by_content(tree: Any) -> tuple[Any, dict[str, Path]]:
    """Settings with policy files named by their content, and where each of them is now."""
    found: dict[str, Path] = {}

    def name(file: str) -> str:
        path = Path(file)
        if not path.is_file():
            return file
        kept = f"{FOLDER}/{digest(path)[:16]}{SUFFIX}"
        found[kept] = path
        return kept

    return with_files(tree, name), found


def keep_files(files: Mapping[str, Path], folder: Path) -> None:
    """Copy policy files into a run's folder."""
    for name, source in files.items():
        (folder / FOLDER).mkdir(exist_ok=True)
        write_atomically(folder / name, source.read_bytes())


def found_again(tree: Any, folder: Path) -> Any:
    """Settings of a run's config with the paths of the files it keeps."""

    def path(file: str) -> str:
        return str(folder / file) if KEPT.fullmatch(file) else file

    return with_files(tree, path)


def with_files(tree: Any, change: Callable[[str], str]) -> Any:
    """Settings with every name of a policy file changed; FILE:NAME keeps its NAME."""
    if isinstance(tree, Mapping):
        return {key: with_files(value, change) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [with_files(value, change) for value in tree]
    if not isinstance(tree, str) or SUFFIX not in tree:
        return tree
    file, suffix, rest = tree.rpartition(SUFFIX)
    return change(file + suffix) + rest if rest == "" or rest.startswith(":") else tree

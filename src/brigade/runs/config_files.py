"""Config files: the config.json of a run, and those that are written by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from brigade.errors import UserError
from brigade.reading import entry, expect, parse_json, parse_toml, read_bytes, shown
from brigade.runs.folder import FORMAT, MAX_CONFIG_BYTES, RunFolder
from brigade.runs.kept_files import with_kept_code, with_paths
from brigade.runs.trust import checked_settings, require_trust


class Kept(NamedTuple):
    """What the config.json of a run says."""

    settings: dict[str, Any]  # policy files are those of the folder
    code: dict[str, str]  # where the folder has copies of the user's Python files
    folder: Path

    def own(self, say: Callable[[str], None]) -> dict[str, Any]:
        """The settings with the folder's copies of code; `say` is told of files changed since."""
        return with_kept_code(self.settings, self.code, self.folder, say)


def kept_by(folder: RunFolder) -> Kept:
    """What a run folder says."""
    where = folder.path / "config.json"
    return kept_in(parse_json(folder.read_config(), str(where)), where)


def kept_in(tree: Any, where: Path) -> Kept:
    """What the content of a run's config.json says."""
    number = entry(tree, "format", int, str(where))
    if number != FORMAT:
        raise UserError(
            f"{where} has format {number}, this Brigade reads {FORMAT}; "
            f"install version {shown(tree.get('brigade', 'unknown'))}, which wrote it"
        )
    settings = checked_settings(entry(tree, "config", dict, str(where)), str(where))
    code = entry(tree, "code", dict, str(where)) if "code" in tree else {}
    for file, copy in code.items():
        expect(copy, str, f"{where}: the copy of {shown(file)}")
    return Kept(with_paths(settings, where.parent), code, where.parent)


def read_file(path: str, trust: bool = False) -> dict[str, Any]:
    """Read a config file: TOML, or the config.json of a run. Code it names needs `trust`."""
    try:
        content = read_bytes(path, MAX_CONFIG_BYTES, follow=True)
    except FileNotFoundError as error:
        raise UserError(f"cannot read the config file {path}: {error.strerror}") from error
    is_json = path.endswith(".json")
    tree = expect((parse_json if is_json else parse_toml)(content, path), dict, path)
    if is_json and "format" in tree:  # otherwise written by hand
        kept = kept_in(tree, Path(path))
        require_trust(kept.settings, trust, path)
        return kept.own(lambda line: print(f"brigade: {line}", file=sys.stderr))
    require_trust(tree, trust, path)
    return checked_settings(tree, path)

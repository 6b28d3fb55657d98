"""The names of environments, learners, methods, partners, benchmarks and so on.

Names are entry points, so listing them imports nothing, and any installed package can add its own.
"""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from brigade.errors import UserError

KINDS = (
    "benchmarks",
    "envs",
    "generators",
    "learners",
    "measures",
    "methods",
    "partners",
    "policies",
)


class UnknownNameError(UserError, LookupError):
    """There is no such name; the message suggests the nearest one."""


def names(kind: str) -> list[str]:
    """The registered names of a kind, sorted; nothing is imported."""
    return sorted(_entries(kind))


def get(kind: str, name: str) -> Any:
    """Import and return the object with a registered name, or `path/to/file.py:Name`."""
    entries = _entries(kind)
    if ".py:" in name:
        return _from_file(name)
    if name not in entries:
        raise UnknownNameError(unknown_name(kind.rstrip("s"), name, entries))
    return entries[name].load()


def unknown_name(what: str, name: str, known: Iterable[str], listed: bool = True) -> str:
    """An error message that suggests the nearest name and, if `listed`, lists all of them."""
    known = sorted(known)
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hints = [f"did you mean {nearest[0]!r}?"] if nearest else []
    if listed:
        hints.append(f"known: {', '.join(known) or 'none'}")
    return f"unknown {what} {name!r}: {' '.join(hints) or 'see --help'}"


def _from_file(name: str) -> Any:
    """Execute a file of the user and return its attribute `Name`."""
    path_text, _, attribute = name.rpartition(":")
    path = Path(path_text)
    if not path.is_file():
        raise UnknownNameError(f"{name}: there is no file {path}; give path/to/file.py:Name")
    # The module is named after the path, so that two files of the same name do not collide.
    spec = importlib.util.spec_from_file_location(f"brigade_file_{hash(path.resolve())}", path)
    if spec is None or spec.loader is None:
        raise UnknownNameError(f"{name}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    if not hasattr(module, attribute):
        known = [each for each in vars(module) if not each.startswith("_")]
        raise UnknownNameError(unknown_name(f"name in {path}", attribute, known))
    return getattr(module, attribute)


def _entries(kind: str) -> dict[str, EntryPoint]:
    if kind not in KINDS:
        raise UnknownNameError(unknown_name("kind", kind, KINDS))
    return {entry.name: entry for entry in entry_points(group=f"brigade.{kind}")}

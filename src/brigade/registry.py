"""The names of environments, learners, methods, partners, benchmarks and so on.

Names are entry points, so listing them imports nothing, and any installed package can add its own.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from brigade.errors import UserError

OURS = "brigade-rl"  # the distribution of this package
KINDS = (
    "benchmarks",
    "encoders",
    "envs",
    "generators",
    "learners",
    "measures",
    "methods",
    "partners",
    "policies",
    "targets",
)


CODE = ".py"


class UnknownNameError(UserError, LookupError):
    """There is no such name; the message suggests the nearest one."""


def names(kind: str) -> list[str]:
    """The registered names of a kind, sorted; nothing is imported."""
    return sorted(entries(kind))


def get(kind: str, name: str) -> Any:
    """Import and return the object with a registered name, or `path/to/file.py:Name`."""
    known = entries(kind)
    file, attribute = file_and_name(name, CODE)
    if file and not attribute:
        what = {"benchmarks": "function", "targets": "description"}.get(kind, "class")
        raise UnknownNameError(f"{kind.rstrip('s')} {file}: add the {what}: {file}:Name")
    if file:
        return from_file(name)
    if name not in known:
        raise UnknownNameError(unknown_name(kind.rstrip("s"), name, known))
    return known[name].load()


def file_and_name(word: str, suffix: str) -> tuple[str, str | None]:
    """The parts of FILE:NAME, for a file with this suffix; FILE is empty for other words.

    NAME is None if the word is FILE alone.
    """
    if word.endswith(suffix):
        return word, None
    file, mark, name = word.rpartition(f"{suffix}:")
    return (file + suffix, name) if mark else ("", None)


def folder_and_name(word: str) -> tuple[str, str | None]:
    """The same for RUN:NAME, where RUN is a folder that is there."""
    run, _, name = word.rpartition(":")
    if run and Path(run).is_dir():
        return run, name
    return (word if word and Path(word).is_dir() else ""), None


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """An error message that suggests the nearest name and lists all of them."""
    known = sorted(known)
    near = nearest(name, known)
    hint = f"did you mean {near!r}? " if near else ""
    return f"unknown {what} {name!r}: {hint}known: {', '.join(known) or 'none'}"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.4) -> str | None:
    """The known name that is most like `name`, whatever the case; None if all are too different."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else None


def from_file(name: str) -> Any:
    """Execute a file of the user and return its attribute `Name`."""
    file, attribute = file_and_name(name, CODE)
    path = Path(file)
    if not path.is_file():
        raise UnknownNameError(f"{name}: there is no file {path}; give path/to/file.py:Name")
    # The module is named after the path, so that two files of the same name do not collide.
    spec = importlib.util.spec_from_file_location(f"brigade_file_{hash(path.resolve())}", path)
    if spec is None or spec.loader is None:
        raise UnknownNameError(f"{name}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        with _importing_from(path.resolve()):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise UserError(_error_in_file(path, str(spec.origin), error)) from error
    if not attribute or not hasattr(module, attribute):
        known = [each for each in vars(module) if not each.startswith("_")]
        raise UnknownNameError(unknown_name(f"name in {path}", attribute or "", known))
    return getattr(module, attribute)


# The modules that each of the user's files imported from its own folder, and their files.
_beside: dict[Path, dict[str, Path]] = {}


def imported_by(file: Path) -> dict[str, Path]:
    """The modules that a file of the user, already loaded, imported from its own folder."""
    return _beside.get(file.resolve(), {})


@contextlib.contextmanager
def _importing_from(file: Path) -> Iterator[None]:
    """Let a file import the modules next to it, as a script can.

    They are imported anew for every file: another may have had one of the same name.
    """
    for name in {name for modules in _beside.values() for name in modules}:
        sys.modules.pop(name, None)
    before, writes = set(sys.modules), sys.dont_write_bytecode
    sys.path.insert(0, str(file.parent))
    sys.dont_write_bytecode = True  # a run folder holds nothing but what its hashes cover
    try:
        yield
    finally:
        sys.path.remove(str(file.parent))
        sys.dont_write_bytecode = writes
        new = {name: _users_file(name, file.parent) for name in set(sys.modules) - before}
        _beside[file] = {name: path for name, path in new.items() if path is not None}


def _users_file(name: str, folder: Path) -> Path | None:
    """The file of a module of the user's own in a folder; None for all others."""
    path = Path(getattr(sys.modules[name], "__file__", None) or "")
    installed = {"site-packages", "dist-packages"} & set(path.parts) or any(
        path.is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix)
    )
    if path.suffix != ".py" or not path.is_relative_to(folder) or installed:
        return None
    return None if name.partition(".")[0] == "brigade" else path


def _error_in_file(path: Path, origin: str, error: BaseException) -> str:
    """What went wrong in a file of the user, and in which line."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == origin
    ]
    reason = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, SyntaxError) and error.filename == origin:
        lines, reason = [error.lineno], error.msg
    where = f"{path}, line {lines[-1]}" if lines and lines[-1] else str(path)
    return f"{where}: {' '.join(reason.split())} (add --debug for the traceback)"


def entries(kind: str) -> Mapping[str, EntryPoint]:
    """The entry points of a kind by name; nothing is imported."""
    if kind not in KINDS:
        raise UnknownNameError(unknown_name("kind", kind, KINDS))
    return entries_at(kind, tuple(sys.path))


@cache
def entries_at(kind: str, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Those of the packages on a path. Reading what all packages declare takes 8 ms."""
    return {entry.name: entry for entry in entry_points(group=f"brigade.{kind}")}

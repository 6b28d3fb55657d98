"""Names for environments, learners, methods, partners and benchmarks.

Names come from entry points, ours and those of any installed package, so listing them imports
nothing and an outside package joins by declaring its own.
"""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

KINDS = ("benchmarks", "envs", "learners", "methods", "partners")


class UnknownNameError(LookupError):
    """No such name; the message offers the nearest one."""


def names(kind: str) -> list[str]:
    """Return the registered names of a kind, sorted, without importing what they name."""
    return sorted(_entries(kind))


def get(kind: str, name: str) -> Any:
    """Import and return what `name` stands for."""
    entries = _entries(kind)
    if name not in entries:
        raise UnknownNameError(unknown_name(kind.rstrip("s"), name, entries))
    return entries[name].load()


def unknown_name(what: str, name: str, known: Any) -> str:
    """One line that says what is wrong and what would be right."""
    known = sorted(known)
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"unknown {what} {name!r}: {hint}known: {', '.join(known) or 'none'}"


def _entries(kind: str) -> dict[str, EntryPoint]:
    if kind not in KINDS:
        raise UnknownNameError(unknown_name("kind", kind, KINDS))
    return {entry.name: entry for entry in entry_points(group=f"brigade.{kind}")}

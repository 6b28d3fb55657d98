"""The published kitchens, one text file each: `LAYOUTS["cramped_room"]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources import files

from brigade.envs.overcooked.grid import Grid, parse_grid
from brigade.registry import unknown_name


class UnknownLayout(KeyError):
    """There is no such layout; unlike KeyError, its message is shown without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class _Layouts(Mapping[str, Grid]):
    """Kitchens by name, sorted; a file is read when its kitchen is first used."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._read: dict[str, Grid] = {}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        entries = (entry.name for entry in files(self._package).iterdir())
        return tuple(sorted(name[: -len(".txt")] for name in entries if name.endswith(".txt")))

    def __getitem__(self, name: str) -> Grid:
        if name not in self._names:
            raise UnknownLayout(unknown_name("layout", name, self._names))
        if name not in self._read:
            text = files(self._package).joinpath(f"{name}.txt").read_text(encoding="utf-8")
            self._read[name] = parse_grid(text)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"LAYOUTS({', '.join(self._names)})"


LAYOUTS: Mapping[str, Grid] = _Layouts(__name__)

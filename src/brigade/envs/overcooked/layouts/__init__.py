"""The published kitchens, one text file each: `LAYOUTS["cramped_room"]`."""

from __future__ import annotations

from importlib.resources import files
from typing import NoReturn

from brigade.envs.overcooked.grid import Grid, parse_grid
from brigade.registry import unknown_name


class UnknownLayout(KeyError):
    """There is no such layout; unlike KeyError, its message is shown without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class _Layouts(dict[str, Grid]):
    """Kitchens by name, sorted."""

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownLayout(unknown_name("layout", name, self))


LAYOUTS = _Layouts(
    (file.name.removesuffix(".txt"), parse_grid(file.read_text(encoding="utf-8")))
    for file in sorted(files(__name__).iterdir(), key=lambda file: file.name)
    if file.name.endswith(".txt")
)

"""The numbers that papers print: one TOML file per paper, one table of it per table of the paper.

A table has `columns`, and `rows` with a value per column: a number, a number and the half-width of
its interval, or [] where the paper prints nothing. `most`, if given, is what values are out of.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Figure:
    """A published number, with the half-width of its interval if the paper gives one."""

    value: float
    half_width: float | None = None

    def __str__(self) -> str:
        if self.half_width is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ± {self.half_width:.2f}"


Figures: TypeAlias = Mapping[str, Figure]  # by column, such as a measure


def published(key: str) -> dict[str, Figures]:
    """The figures by row of a table such as `meal/table-8`."""
    paper, _, name = key.partition("/")
    return published_in(Path(__file__).with_name(f"{paper}.toml"), name)


def published_in(file: Path, name: str) -> dict[str, Figures]:
    """The figures by row of a table in the file of a paper."""
    table = read_paper(file)[name]
    columns, most = table["columns"], table.get("most", 1)
    try:
        return {
            row: {
                column: read_figure(value, most)
                for column, value in zip(columns, values, strict=True)
                if value != []
            }
            for row, values in table["rows"].items()
        }
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file.name}, [{name}]: {error}") from error


@cache
def read_paper(file: Path) -> dict[str, Any]:
    """All tables of a file."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


def read_figure(value: Any, most: float) -> Figure:
    """A number, or a number and the half-width of its interval."""
    numbers = value if isinstance(value, list) else [value]
    return Figure(*(number / most for number in numbers))

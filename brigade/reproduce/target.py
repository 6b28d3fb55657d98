"""A published table: which runs it needs, what is measured on each, what the paper says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A published number, with the half-width of its interval where it is given."""

    value: float
    half_width: float | None = None

    def __str__(self) -> str:
        if self.half_width is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ± {self.half_width:.2f}"


@dataclass(frozen=True)
class Row:
    """One run of a table."""

    name: str
    settings: Mapping[str, Any]  # in the form of a config file
    published: Mapping[str, Figure] = field(default_factory=dict)  # by measure
    heavy: bool = False  # too much for two cores: left out at the small scale


@dataclass(frozen=True)
class Target:
    """A table or figure. `small` are settings that two CPU cores finish in minutes."""

    id: str
    title: str
    rows: tuple[Row, ...]
    measures: tuple[str, ...]  # names of `brigade list measures`
    small: Mapping[str, Any]
    note: str = ""
    needs_baselines: bool = False

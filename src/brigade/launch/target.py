"""A published table: its runs, its measures and the published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A published number, with the half-width of its interval if the paper gives one."""

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
    settings: Mapping[str, Any]  # as in a config file
    published: Mapping[str, Figure] = field(default_factory=dict)  # by measure
    heavy: bool = False  # too slow for two CPU cores: skipped at the small scale
    small: Mapping[str, Any] = field(default_factory=dict)  # its own changes at the small scale


@dataclass(frozen=True)
class Target:
    """A table or figure. `small` has settings that take minutes on two CPU cores."""

    id: str
    title: str
    rows: tuple[Row, ...]
    measures: tuple[str, ...]  # names from `brigade list measures`
    small: Mapping[str, Any]
    note: str = ""
    needs_baselines: bool = False

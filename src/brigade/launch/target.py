"""A published table: its runs, its measures and the published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brigade.benchmarks.published import Figures


@dataclass(frozen=True)
class Row:
    """One run of a table."""

    name: str
    settings: Mapping[str, Any]  # as in a config file
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
    published: Mapping[str, Figures] = field(default_factory=dict)  # by row

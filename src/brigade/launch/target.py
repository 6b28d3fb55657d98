"""What `brigade reproduce` can do: the tables, figures and studies of papers."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from brigade.errors import UserError
from brigade.launch.stage import Stage

AnyScale = TypeVar("AnyScale", bound=Any)  # a dataclass
SCALES = {
    "small": "minutes on two CPU cores",
    "medium": "an hour or two",
    "paper": "the published settings",
}
SMALL_NOTE = (
    "Small scale: few tasks, seeds and steps. It shows how the table is produced and says nothing "
    "about the paper."
)


@dataclass(frozen=True)
class Request:
    """What of a target is asked for, and where."""

    folder: Path
    scale: str = "small"
    words: Sequence[str] = ()  # settings of `brigade run`, for all runs
    flags: Mapping[str, Any] = field(default_factory=dict)  # the target's own


@dataclass(frozen=True)
class Plan:
    """The stages of a target in a folder, and what prints and saves its results.

    `conclude` returns the path to look at.
    """

    stages: Sequence[Stage]
    conclude: Callable[[], Path]


@dataclass(frozen=True)
class Target(ABC):
    """The description of a target."""

    name: str
    shows: str = ""  # in a few words
    minutes: float | None = None  # at the small scale on two CPU cores, if it was timed
    recorded: str = ""  # the page in docs/results that has a recorded result
    levelled: bool = False  # whether it depends on --level

    about: ClassVar[str]  # what the command does
    result: ClassVar[str] = "table"  # what `conclude` returns
    scales: ClassVar[Sequence[str]] = ("small", "paper")

    @abstractmethod
    def plan(self, request: Request) -> Plan:
        """What is done for it; settings are checked, nothing is written."""

    @abstractmethod
    def steps(self, scale: str) -> float:
        """The environment steps of all its runs, over all seeds."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027
        """Add the flags that only this target has."""

    @property
    def folder_name(self) -> str:
        """The name of its folder in reproductions/, before the scale."""
        return slug(self.name)


def with_flags(scale: AnyScale, flags: Mapping[str, Any]) -> AnyScale:
    """A scale with the values that flags of the same names have."""
    seeds = flags.get("seeds")
    if seeds is not None and seeds < 1:
        raise UserError(f"--seeds is {seeds}; it must be at least 1")
    given = {each.name: flags.get(each.name) for each in fields(scale)}
    changes = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if v}
    return replace(scale, **changes)


def small_note(scale: str) -> list[str]:
    """What is said of results at the small scale."""
    return [SMALL_NOTE] if scale == "small" else []


def slug(name: str) -> str:
    """A folder name: lower case, with dashes."""
    plain = "".join(letter if letter.isalnum() else " " for letter in name.lower())
    return "-".join(plain.split())

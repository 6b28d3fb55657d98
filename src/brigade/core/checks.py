"""Checks of settings. Errors are one line: what is wrong and what would be right."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

LARGEST = 3.4e38  # the largest float32


def at_least(name: str, value: float, least: float) -> None:
    """Require a finite number of at least `least`. NaN fails too: its comparisons are False."""
    if not least <= value < LARGEST:
        raise ValueError(f"{name} is {value}; it must be a number of at least {least}")


def positive(name: str, value: float) -> None:
    """Require a finite number above 0."""
    if not 0 < value < LARGEST:
        raise ValueError(f"{name} is {value}; it must be a positive number")


def within(name: str, value: float, least: float, most: float) -> None:
    """Require a number from `least` to `most`, both included."""
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; it must be from {least} to {most}")


def one_of(name: str, value: object, options: Collection[str]) -> None:
    """Require one of a few words."""
    if value not in options:
        raise ValueError(f"{name} is {value!r}; use one of {', '.join(options)}")


def each(check: Callable[..., None], settings: Any, names: str, *bounds: float) -> None:
    """Check settings by their names, separated by spaces; None is not checked."""
    for name in names.split():
        if (value := getattr(settings, name)) is not None:
            check(name, value, *bounds)

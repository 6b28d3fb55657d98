"""Checks of settings: one line that says what is wrong and what would be right."""

from __future__ import annotations

LARGEST = 3.4e38  # of the numbers that are computed with, float32


def at_least(name: str, value: float, least: float) -> None:
    """A finite number, not below `least`; nan is refused, since it compares with nothing."""
    if not least <= value < LARGEST:
        raise ValueError(f"{name} is {value}; it must be a number of at least {least}")


def positive(name: str, value: float) -> None:
    """A finite number above 0."""
    if not 0 < value < LARGEST:
        raise ValueError(f"{name} is {value}; it must be a positive number")


def within(name: str, value: float, least: float, most: float) -> None:
    """A number from `least` to `most`."""
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; it must be from {least} to {most}")

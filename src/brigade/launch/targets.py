"""All tables and figures that `brigade reproduce` knows."""

from __future__ import annotations

from collections.abc import Callable

from brigade.errors import UserError
from brigade.launch import lifelong_hanabi_targets as lifelong_hanabi
from brigade.launch import meal_targets as meal
from brigade.launch.target import Target
from brigade.registry import unknown_name

TARGETS: dict[str, Callable[[str], Target]] = {
    **meal.TARGETS,
    **lifelong_hanabi.TARGETS,
}


def find_target(name: str, level: str | None) -> Target:
    """The target with a name; `level` only for targets that have one."""
    if name not in TARGETS:
        raise UserError(unknown_name("target", name, TARGETS))
    if level is not None and name not in meal.LEVELLED:
        raise UserError(f"{name} has no levels; remove --level")
    return TARGETS[name](level or "1")

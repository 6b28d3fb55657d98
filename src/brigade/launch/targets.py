"""All tables, figures and studies that `brigade reproduce` knows."""

from __future__ import annotations

from brigade.errors import UserError
from brigade.launch import (
    hanabi_tables,
    icrl_targets,
    lifelong_hanabi_targets,
    meal_targets,
    zsc_targets,
)
from brigade.launch.target import Target
from brigade.registry import unknown_name


def targets(level: str = "1") -> dict[str, Target]:
    """All targets by name; those that have levels at this one."""
    found = [
        *meal_targets.targets(level),
        hanabi_tables.pool(),
        lifelong_hanabi_targets.table_1(),
        *hanabi_tables.of_pool(),
        *lifelong_hanabi_targets.figures(),
        zsc_targets.STUDY,
        icrl_targets.controls(),
    ]
    return {target.name: target for target in found}


def named(name: str, level: str = "1") -> Target | None:
    """The target with a name, if there is one."""
    return zsc_targets.study_of(name) or targets(level).get(name)


def find_target(name: str, level: str | None = None) -> Target:
    """The target with a name; `level` only for targets that have one."""
    found = named(name, level or "1")
    if found is None:
        raise UserError(unknown_name("target", name, targets()))
    if level is not None and not found.levelled:
        raise UserError(f"{name} has no levels; remove --level")
    return found

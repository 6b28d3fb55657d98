"""All tables, figures and studies that `brigade reproduce` knows."""

from __future__ import annotations

from dataclasses import replace

from brigade import registry
from brigade.errors import UserError
from brigade.launch import hanabi_tables, icrl_headroom, icrl_targets, zsc_targets
from brigade.launch.papers import targets_of
from brigade.launch.target import Target


def targets(level: str = "1") -> dict[str, Target]:
    """All targets by name; those that have levels at this one."""
    table_1, *figures = targets_of("lifelong_hanabi").values()
    ours = [
        *targets_of("meal", level).values(),
        hanabi_tables.pool(),
        table_1,
        *hanabi_tables.of_pool(),
        *figures,
        zsc_targets.STUDY,
        icrl_targets.controls(),
        icrl_headroom.HEADROOM,
    ]
    found = {target.name: target for target in ours}
    return found | {name: load_target(name) for name in registry.names("targets")}


def load_target(name: str) -> Target:
    """The target of another package by its entry point, or of a file: `path/to/file.py:TARGET`."""
    found = registry.get("targets", name)
    if not isinstance(found, Target):
        raise UserError(f"{name} is not a target; it must be a brigade.launch.target.Target")
    return replace(found, levelled=False)  # --level chooses among ours


def named(name: str, level: str = "1") -> Target | None:
    """The target with a name, if there is one."""
    if registry.file_and_name(name, registry.CODE)[0]:
        return load_target(name)
    return zsc_targets.study_of(name) or targets(level).get(name)


def find_target(name: str, level: str | None = None) -> Target:
    """The target with a name; `level` only for targets that have one."""
    found = named(name, level or "1")
    if found is None:
        raise UserError(registry.unknown_name("target", name, targets()))
    if level is not None and not found.levelled:
        raise UserError(f"{name} has no levels; remove --level")
    return found

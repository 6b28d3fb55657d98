"""The tables and figures of the MEAL paper (000), from `meal_targets.toml`."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from brigade.benchmarks.published import published
from brigade.launch.run_table import Row, RunTable
from brigade.runs.config import merged

SHARE = {"1": 1.0, "2": 0.5, "3": 0.3}  # of steps by level: larger kitchens are slower


def targets(level: str) -> list[RunTable]:
    """All tables and figures; those that have levels at this one."""
    text = (files(__package__) / "meal_targets.toml").read_text(encoding="utf-8")
    paper = tomllib.loads(text)
    texts, usual = paper.pop("texts"), paper.pop("usual")
    found = []
    for name, own in paper.items():
        tree = merged(merged(usual, paper[own["like"]] if "like" in own else {}), own)
        at = tree.get("level", level if tree.get("levelled") else "1")
        found.append(described(f"meal/{name}", filled(tree, {**texts, "level": at}), SHARE[at]))
    return found


def described(name: str, tree: Mapping[str, Any], share: float) -> RunTable:
    """The target that a table of the file describes."""
    return RunTable(
        name,
        tree["shows"],
        tree["minutes"],
        tree.get("recorded", ""),
        tree.get("levelled", False),
        title=tree["title"],
        rows=tuple(rows_of(tree)),
        measures=tuple(tree["measures"]),
        small=tree["small"],
        share=share,
        note=tree["note"],
        published=published(f"meal/{tree['published']}") if "published" in tree else {},
    )


def rows_of(tree: Mapping[str, Any]) -> Iterator[Row]:
    """Its runs."""
    axes = [tree[axis].items() for axis in ("rows", "changes") if axis in tree]
    for parts in itertools.product(*axes):
        settings = tree["settings"]
        for _, change in parts:
            settings = merged(settings, change)
        names = [name for name, _ in parts]
        yield Row(", ".join(names), settings, heavy=names[-1] in tree.get("heavy", ()))


def filled(value: Any, words: Mapping[str, str]) -> Any:
    """A tree with words in place of their names in braces."""
    if isinstance(value, str):
        return value.format(**words)
    if isinstance(value, Mapping):
        return {key: filled(each, words) for key, each in value.items()}
    return [filled(each, words) for each in value] if isinstance(value, list) else value

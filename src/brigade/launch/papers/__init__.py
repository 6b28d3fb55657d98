"""The targets of papers that are runs and their measures, as files: one per paper."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from brigade.benchmarks.published import published
from brigade.launch.runs_target import Row, RunsTarget
from brigade.runs.config import merged

SHARE = {"1": 1.0, "2": 0.5, "3": 0.3}  # of steps by level: larger kitchens are slower


def read_paper(paper: str) -> dict[str, Any]:
    """The file of a paper."""
    text = (files(__name__) / f"{paper}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def targets_of(paper: str, level: str = "1") -> dict[str, RunsTarget]:
    """Its tables and figures by name; those that have levels at this one."""
    trees = read_paper(paper)
    texts, usual, parts = (trees.pop(name, {}) for name in ("texts", "usual", "parts"))

    def whole(tree: Mapping[str, Any]) -> dict[str, Any]:
        return merged(whole(trees[tree["like"]]) if "like" in tree else usual, tree)

    found = {}
    for own, tree in trees.items():
        name, each = f"{paper}/{own}", whole(tree)
        at = each.get("level", level if each.get("levelled") else "1")
        found[name] = described(name, filled(each, {**texts, "level": at}), parts, SHARE[at])
    return found


def described(
    name: str, tree: Mapping[str, Any], parts: Mapping[str, Any], share: float
) -> RunsTarget:
    """The target that a table of a file describes."""
    figures = tree.get("published")
    return RunsTarget(
        name,
        tree["shows"],
        tree.get("minutes"),
        tree.get("recorded", ""),
        tree.get("levelled", False),
        title=tree["title"],
        rows=tuple(rows_of(tree, parts)),
        measures=tuple(tree["measures"]),
        small=tree["small"],
        share=share,
        note=tree["note"],
        published=published(f"{name.partition('/')[0]}/{figures}") if figures else {},
    )


def rows_of(tree: Mapping[str, Any], parts: Mapping[str, Any]) -> Iterator[Row]:
    """Its runs: every row, or every row with every change."""
    axes = [tree[axis].items() for axis in ("rows", "changes") if axis in tree]
    for chosen in itertools.product(*axes):
        names, changes = zip(*chosen, strict=True)
        settings = dict(tree["settings"])
        for change in changes:
            for each in (*(parts[name] for name in change.get("parts", ())), change):
                settings = merged(settings, each)
        settings.pop("parts", None)
        small = settings.pop("small", {})
        heavy = names[-1] in tree.get("heavy", ())
        yield Row(", ".join(names), settings, heavy, small)


def filled(value: Any, words: Mapping[str, str]) -> Any:
    """A tree with words in place of their names in braces."""
    if isinstance(value, str):
        return value.format(**words)
    if isinstance(value, Mapping):
        return {key: filled(each, words) for key, each in value.items()}
    return [filled(each, words) for each in value] if isinstance(value, list) else value

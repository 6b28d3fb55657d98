"""Settings from a file: plain values only, and code that they name is executed only if trusted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any

from brigade.errors import UserError
from brigade.partners.files import SUFFIX
from brigade.reading import expect, shown

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
CODE = ".py:"  # path/to/file.py:Name, as in brigade/registry.py
NAMES = ("benchmark", "method", "learner", "generator", "preset")  # what decides other settings


def checked_settings(tree: Any, where: str = "the settings") -> dict[str, Any]:
    """The settings, if they have plain names and are text, numbers, lists of these, or groups."""
    checked: dict[str, Any] = {}
    for name, value in expect(tree, dict, where).items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise UserError(f"{where} have {shown(name)}, which is not the name of a setting")
        if isinstance(value, Mapping):
            checked[name] = checked_settings(dict(value), f"the settings of {name}")
        elif isinstance(value, list | tuple):
            checked[name] = [plain_value(each, name) for each in value]
        else:
            checked[name] = plain_value(value, name)
    for name in NAMES:
        if name in checked and not isinstance(checked[name], str):
            raise UserError(f"{name} is {shown(checked[name])}; it must be a name")
    return checked


def plain_value(value: Any, name: str) -> Any:
    """Text, a number, true, false or none; a path becomes text."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is not None and not isinstance(value, str | Real):
        raise UserError(f"{name} is {shown(value)}; it must be text, a number or a list of these")
    if isinstance(value, str) and "\0" in value:
        raise UserError(f"{name} is {shown(value)}; it must not have a zero byte")
    return value


def map_texts(tree: Any, change: Callable[[str], str]) -> Any:
    """The settings with every text changed; tuples become lists, as in JSON."""
    if isinstance(tree, Mapping):
        return {key: map_texts(each, change) for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return [map_texts(each, change) for each in tree]
    return change(tree) if isinstance(tree, str) else tree


def code_in(tree: Any) -> Iterator[str]:
    """All names of code in a tree of settings, wherever they are."""
    if isinstance(tree, str):
        if CODE in tree:
            yield tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from code_in(key)
            yield from code_in(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from code_in(value)


def without_files(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that a policy file tells, without those that name code or other files."""

    def names_file(value: Any) -> bool:
        if isinstance(value, list | tuple):
            return any(map(names_file, value))
        return isinstance(value, str) and (CODE in value or SUFFIX in value or "/" in value)

    return {name: value for name, value in tree.items() if not names_file(value)}


def require_trust(tree: Any, trust: bool, where: str) -> None:
    """Refuse settings that name code, unless they are trusted."""
    if trust:
        return
    for code in code_in(tree):
        raise UserError(f"{where} executes code from {code}; add --trust if you trust that file")

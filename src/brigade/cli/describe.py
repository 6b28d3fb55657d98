"""What a registered name stands for, read from source files: nothing is imported.

The description of a class or function is the first paragraph of its docstring. That of any other
object is the string below its assignment, or else a string it is made with. Names that a module
imports from another are followed.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

MOST_STEPS = 8  # imports to follow from a package to where a name is defined


@dataclass(frozen=True)
class Description:
    """The first paragraph of an entry's documentation, and what it lacks to be used."""

    text: str
    missing: str = ""  # what is not installed and how to get it


@dataclass(frozen=True)
class Extra:
    """A group of optional packages of a distribution."""

    distribution: str
    name: str
    missing: tuple[str, ...]

    @property
    def command(self) -> str:
        """How to install it."""
        return f"pip install '{self.distribution}[{self.name}]'"


def describe(entry: EntryPoint) -> Description:
    """The description of an entry point."""
    tree = module_tree(entry.module)
    if tree is None:
        return Description("", f"broken: there is no module {entry.module}")
    text = documentation(entry.module, entry.attr.partition(".")[0])
    return Description(text, lacks(entry, tree))


def lacks(entry: EntryPoint, tree: ast.Module) -> str:
    """The extra to install for an entry, or the packages that its module imports in vain."""
    for name in entry.extras:
        extra = read_extra(entry.dist, name) if entry.dist else None
        if extra and extra.missing:
            return f"not installed: {extra.command}"
    missing = [name for name in imported_packages(tree) if not is_installed(name)]
    return f"not installed: it needs {', '.join(missing)}" if missing else ""


def documentation(module: str, name: str, steps: int = MOST_STEPS) -> str:
    """The first paragraph of what a module's source says about a name, as one line."""
    tree = module_tree(module)
    if tree is None or steps == 0:
        return ""
    for node, after in reversed(list(zip(tree.body, [*tree.body[1:], None], strict=True))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return first_paragraph(ast.get_docstring(node) or "")
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in assigned(node):
            return first_paragraph(string_of(after) or string_argument(node.value))
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return documentation(source_of(node, module), alias.name, steps - 1)
    return ""


def string_argument(node: ast.expr | None) -> str:
    """The second string that an object is made with, or the first: a measure's words or title."""
    arguments = node.args if isinstance(node, ast.Call) else []
    values = [each.value for each in arguments if isinstance(each, ast.Constant)]
    return next(reversed([value for value in values if isinstance(value, str)][:2]), "")


def string_of(node: ast.stmt | None) -> str | None:
    """The text of a statement that is only a string."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else None
    return None


def assigned(node: ast.Assign | ast.AnnAssign) -> set[str]:
    """The names that a statement assigns to."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def first_paragraph(text: str) -> str:
    """The lines up to the first empty one, as one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())


def source_of(node: ast.ImportFrom, module: str) -> str:
    """The absolute name of the module that a statement imports from."""
    if not node.level:
        return node.module or ""
    spec = find_module(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    parts = module.split(".") + ([""] if is_package else [])
    return ".".join([*parts[: len(parts) - node.level], *([node.module] if node.module else [])])


def imported_packages(tree: ast.Module) -> Iterator[str]:
    """The top-level packages that a module needs when it is imported."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def module_tree(module: str) -> ast.Module | None:
    """The syntax tree of a module, or None if there is no readable source."""
    spec = find_module(module)
    if spec is None or not (spec.origin or "").endswith(".py"):
        return None
    try:
        return ast.parse(Path(str(spec.origin)).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


def find_module(module: str) -> ModuleSpec | None:
    """Where a module is. Unlike `importlib.util.find_spec` this imports no parent package."""
    first, *rest = module.split(".")
    spec, name = top_level(first), first
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec


def top_level(name: str) -> ModuleSpec | None:
    """Where a top-level module or package is."""
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # a module without a spec, such as __main__
        return None


def is_installed(package: str) -> bool:
    """Whether a top-level package can be found."""
    return package in sys.stdlib_module_names or top_level(package) is not None


def optional_packages(name: str) -> list[Extra]:
    """The extras of an installed distribution, without those for its developers."""
    found = distribution(name)
    extras = found.metadata.get_all("Provides-Extra") or []
    return [read_extra(found, extra) for extra in extras if extra != "dev"]


def read_extra(found: Distribution, name: str) -> Extra:
    """An extra of a distribution, and what of it is missing."""
    missing = sorted(set(missing_packages(found, name)))
    return Extra(found.metadata["Name"], name, tuple(missing))


def missing_packages(found: Distribution, extra: str) -> Iterator[str]:
    """The distributions of an extra that are not installed, also by extras of its packages."""
    for text in found.requires or []:
        requirement = Requirement(text)
        if not requirement.marker or requirement.marker.evaluate({"extra": ""}):
            continue  # needed with or without the extra
        if not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            needed = distribution(requirement.name)
        except PackageNotFoundError:
            yield requirement.name
            continue
        for inner in requirement.extras:
            yield from missing_packages(needed, inner)

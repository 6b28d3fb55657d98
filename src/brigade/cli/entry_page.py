"""`brigade list KIND NAME`: what an entry is, its settings, its paper and how to use it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

from brigade.cli.describe import describe, module_tree, string_of
from brigade.core import Benchmark
from brigade.errors import UserError
from brigade.registry import OURS, entries, get, unknown_name

WIDTH = 80  # columns, where output is not a terminal
# How the settings of a kind are written on the command line; None: they are Python arguments.
PREFIXES = {
    "methods": "--method-settings.",
    "generators": "--generator-settings.",
    "learners": "--",
    "benchmarks": "--env.",
}
EXAMPLES = {
    "benchmarks": "brigade run {name}",
    "encoders": "brigade run overcooked/layout --network.encoder {name}",
    "generators": "brigade population overcooked/layout --generator {name}",
    "learners": "brigade run {benchmark} --learner {name}",
    "methods": "brigade run meal/level-1 --method {name}",
    "partners": "brigade run overcooked/layout --partners {name}",
}
# Where documents about a kind are; {family} is the name up to the first slash.
PAGES = {
    "benchmarks": "docs/{family}.md",
    "encoders": "docs/learners.md#networks",
    "envs": "docs/{name}.md",
    "generators": "docs/partners/{name}.md",
    "learners": "docs/learners.md",
    "measures": "docs/glossary.md",
    "methods": "docs/methods/{name}.md",
    "partners": "docs/partners.md",
    "policies": "docs/partners.md#policy-files",
}
OTHER_PAGES = {
    **dict.fromkeys(("dark_room", "levers", "icrl"), "docs/in_context.md"),
    "icrl4aht": "docs/in_context.md#icrl4aht",
    **dict.fromkeys(("h1", "h2", "h3", "h4"), "docs/teammates.md"),
    "meal": "docs/overcooked.md#sequences",
    "meal/partners": "docs/partners.md#a-stream-of-partners-mealpartners",
}


@dataclass(frozen=True)
class Setting:
    """A setting of an entry, as it is written, with its default and what it means."""

    name: str
    default: str
    meaning: str


def print_entry(kind: str, name: str) -> None:
    """Print the page of an entry. This imports it."""
    known = entries(kind)
    if name not in known:
        raise UserError(unknown_name(kind.rstrip("s"), name, known))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    print("\n".join(page(kind, known[name], width)))


def page(kind: str, entry: EntryPoint, width: int) -> Iterator[str]:
    """The lines of an entry's page."""
    description = describe(entry)
    yield f"{entry.name} ({kind.rstrip('s')})"
    yield from ("", *textwrap.wrap(description.text, width))
    if description.missing:
        yield from ("", *textwrap.wrap(description.missing, width))
        return
    found = get(kind, entry.name)
    if callable(found) and kind == "benchmarks":
        found = found()
    yield from ("", *more(found, description.text, width))
    settings = list(settings_of(kind, found))
    if settings:
        yield from setting_lines(settings, width)
    for title, text in (
        ("paper", reference(entry.module)),
        ("code", entry.value),
        ("page", document(kind, entry)),
        ("example", example(kind, entry.name)),
    ):
        if text:
            yield from textwrap.wrap(
                f"{title + ':':9}{text}", width, subsequent_indent=" " * 9, break_on_hyphens=False
            )


def more(found: Any, shown: str, width: int) -> Iterator[str]:
    """The rest of an entry's documentation, and the numbers of a benchmark."""
    if isinstance(found, Benchmark):
        presets = ", ".join(found.presets) or "none"
        text = (
            f"{found.summary}. By default {count(found.num_tasks, 'task')} of "
            f"{found.steps_per_task:,} steps, {count(found.num_seeds, 'seed')}, learner "
            f"{found.learner}; presets: {presets}; "
            f"measures: {', '.join(found.measures)}."
        )
    elif isinstance(found, type) or inspect.isroutine(found):
        text = inspect.getdoc(found) or ""
    else:
        text = str(getattr(found, "meaning", ""))
    for paragraph in text.split("\n\n"):
        plain = " ".join(paragraph.split())
        if plain and plain != shown:
            yield from (*textwrap.wrap(plain[0].upper() + plain[1:], width), "")


def count(number: int, thing: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def settings_of(kind: str, found: Any) -> Iterator[Setting]:
    """The settings of an entry: the fields of a dataclass, also of those inside it."""
    prefix = PREFIXES.get(kind, "")
    if isinstance(found, Benchmark):
        found = found.settings
    if dataclasses.is_dataclass(found) and kind != "measures":
        yield from fields_of(found, prefix)


def fields_of(found: Any, prefix: str) -> Iterator[Setting]:
    """The fields of a dataclass or of an instance of one, with defaults and their docstrings."""
    meanings = field_docs(found if isinstance(found, type) else type(found))
    for field in dataclasses.fields(found):
        default = default_of(field) if isinstance(found, type) else getattr(found, field.name)
        flag = prefix.startswith("--")
        name = prefix + (field.name.replace("_", "-") if flag else field.name)
        if dataclasses.is_dataclass(default) and not isinstance(default, type):
            yield from fields_of(default, f"{name}.")
        else:
            yield Setting(name, plain(default), meanings.get(field.name, ""))


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The default of a field; MISSING if it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def plain(value: Any) -> str:
    """A default as it would be written: 1e7, yes, none."""
    if value is dataclasses.MISSING:
        return "required"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    if isinstance(value, tuple | list):
        return " ".join(map(plain, value)) or "none"
    return str(value) or "none"


def field_docs(kind: type) -> Mapping[str, str]:
    """The strings below the fields of a class and its base classes, or the comments behind them."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        try:
            source = textwrap.dedent(inspect.getsource(each))
        except (OSError, TypeError):  # a class without a source file
            continue
        body, lines = ast.parse(source).body[0].body, source.splitlines()  # type: ignore[attr-defined]
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                comment = lines[node.lineno - 1].partition("  # ")[2]
                found[node.target.id] = " ".join((string_of(after) or comment).split())
    return found


def setting_lines(settings: list[Setting], width: int) -> Iterator[str]:
    """Two lines or more for each setting: name and default, then the meaning, indented."""
    yield "settings, with their defaults:"
    for setting in settings:
        yield f"  {setting.name}  {setting.default}"
        yield from textwrap.wrap(
            setting.meaning, width, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
    yield ""


def reference(module: str) -> str:
    """The paragraph of a module's docstring that starts with `Reference:`."""
    tree = module_tree(module)
    text = (ast.get_docstring(tree) if tree else None) or ""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("Reference:"):
            return " ".join(paragraph.removeprefix("Reference:").split()).replace("*", "")
    return ""


def document(kind: str, entry: EntryPoint) -> str:
    """The document about an entry in Brigade's repository; none for other packages."""
    if entry.dist is None or entry.dist.metadata["Name"] != OURS:
        return ""
    family = entry.name.partition("/")[0]
    other = OTHER_PAGES.get(entry.name) or OTHER_PAGES.get(family)
    return other or PAGES[kind].format(name=entry.name, family=family)


def example(kind: str, name: str) -> str:
    """A command that uses an entry."""
    benchmark = "hanabi/standard" if name in ("iql", "vdn", "pqn") else "meal/level-1"
    return EXAMPLES.get(kind, "").format(name=name, benchmark=benchmark)

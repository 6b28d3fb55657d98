"""Flags: settings written as such, checked by name and parsed, with errors of one line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_type_hints

import tyro

from brigade import registry
from brigade.errors import UserError
from brigade.reading import shown

SHORT_FLAGS = {"--from": "--start-from"}
FLAT = ("config", "learner")
CONF = (tyro.conf.OmitSubcommandPrefixes,)


def long_flag(word: str) -> str:
    """The flag that a short one stands for."""
    flag, equals, value = word.partition("=")
    return SHORT_FLAGS[flag] + equals + value if flag in SHORT_FLAGS else word


def as_flags(tree: Mapping[str, Any], prefix: str = "") -> list[str]:
    """{"ppo": {"epochs": 4}} -> ["--ppo.epochs", "4"]."""
    flags: list[str] = []
    for name, value in tree.items():
        flag = f"{prefix}{name}".replace("_", "-")
        if isinstance(value, Mapping):
            flags += as_flags(value, f"{flag}.")
        elif isinstance(value, bool):
            head, _, last = flag.rpartition(".")
            flags.append("--" + (f"{head}." if head else "") + ("" if value else "no-") + last)
        else:
            words = [str(each) for each in (value if isinstance(value, list | tuple) else [value])]
            if any(map(is_flag, words)):
                raise UserError(f"{flag} is {shown(' '.join(words))}; a value cannot start with --")
            flags += [f"--{flag}", *words]
    return flags


def is_flag(word: str) -> bool:
    """Whether a value would be parsed as a flag; negative numbers are not."""
    return word.startswith("-") and not re.match(r"-[\d.]|-inf|-nan", word)


def known_flags(kind: Any, prefix: str = "", flat: Sequence[str] = ()) -> Iterator[str]:
    """All flags of a dataclass of settings; those of the groups in `flat` have no prefix."""
    types = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        name = prefix + field.name.replace("_", "-")
        if dataclasses.is_dataclass(types[field.name]):
            yield from known_flags(types[field.name], "" if name in flat else f"{name}.")
        else:
            yield name
            if types[field.name] is bool:
                head, _, last = name.rpartition(".")
                yield (f"{head}." if head else "") + f"no-{last}"


def check_names(flags: Sequence[str], shape: Any) -> None:
    """Reject unknown flags, with the nearest known one."""
    known = set(known_flags(shape, flat=FLAT)) - {"benchmark"}
    for word in flags:
        if word.startswith("--"):
            name = word[2:].partition("=")[0].replace("_", "-")
            if name not in known:
                near = nearest_setting(name, known)
                hint = f"did you mean {near!r}?" if near else "see brigade run --help"
                raise UserError(f"unknown setting {name!r}: {hint}")


# What other libraries call a setting, and its last part here.
OTHER_NAMES = {
    "lr": "learning-rate",
    "lambda": "gae-lambda",
    "clip-eps": "clip",
    "ent-coef": "entropy-coef",
    "vf-coef": "value-coef",
}


def nearest_setting(name: str, known: Iterable[str]) -> str | None:
    """The setting with the same last part, or with a similar one, first in the same group."""
    group, _, last = name.rpartition(".")
    last = OTHER_NAMES.get(last, last)
    known = sorted(known)
    same = [each for each in known if each.rpartition(".")[0] == group]
    for settings, cutoff in ((known, 1.0), (same, 0.6), (known, 0.8)):
        by_last = {each.rpartition(".")[2]: each for each in settings}
        if near := registry.nearest(last, by_last, cutoff):
            return by_last[near]
    return None


def parse(shape: Any, words: Sequence[str]) -> Any:
    """Parse flags; the parser's boxed error message becomes one line."""
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            return tyro.cli(shape, args=list(words), prog="brigade run", config=CONF)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(one_line(message.getvalue())) from None
    except ValueError as error:
        raise UserError(str(error)) from None


# Error messages of the parser, and what to say instead.
PLAIN_ERRORS = (
    (
        r"^Error parsing (--\S+): invalid literal for int\(\) with base 10: ('.*')$",
        r"\1: \2 is not an integer",
    ),
    (
        r"^Error parsing (--\S+): could not convert string to float: ('.*')$",
        r"\1: \2 is not a number",
    ),
    (
        r"^Error parsing (--\S+): no type matching \{None\}\|INT could .* \[('.*')\]\.$",
        r"\1: \2 is not an integer",
    ),
    (
        r"^Error parsing (--\S+): no type matching \{None\}\|FLOAT could .* \[('.*')\]\.$",
        r"\1: \2 is not a number",
    ),
    (r"^Missing value for argument '(--\S+)'\. Expected 1 values\.$", r"\1 needs a value"),
    (r"^Error parsing [\w.]+: ", ""),  # errors of settings name themselves
)


def one_line(box: str) -> str:
    """The first paragraph of an error message in a box, or between lines of dashes."""
    words: list[str] = []
    for line in box.splitlines()[1:]:  # the first line is the title
        text = line.strip("│╭╮╰╯ ")
        if text.strip("─-"):
            words.append(text)
        elif words:
            break
    text = " ".join(words) or box.strip()
    for pattern, plain in PLAIN_ERRORS:
        text = re.sub(pattern, plain, text)
    return text

"""The command that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

WIDTH = 76  # characters per line


def flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings with dotted names such as ppo.learning_rate, and their values."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def command(config: Mapping[str, Any]) -> str:
    """`brigade run` with all settings, so that it does not depend on later defaults."""
    flags = [_flag(name, value) for name, value in flatten(config) if name != "benchmark"]
    lines = [f"brigade run {shlex.quote(str(config.get('benchmark', '')))}"]
    for flag in flags:
        if len(lines[-1]) + len(flag) < WIDTH:
            lines[-1] += f" {flag}"
        else:
            lines.append(f"  {flag}")
    return " \\\n".join(lines)


def _flag(name: str, value: Any) -> str:
    *groups, last = name.replace("_", "-").split(".")
    if isinstance(value, bool) and not value:
        last = f"no-{last}"
    flag = shlex.quote("--" + ".".join([*groups, last]))
    if isinstance(value, bool):
        return flag
    values = value if isinstance(value, list) else [value]
    return " ".join([flag, *(shlex.quote(str(item)) for item in values)])

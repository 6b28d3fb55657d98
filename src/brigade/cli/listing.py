"""`brigade list`: one line for everything that can be used by name. Imports no JAX."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from brigade.cli.describe import Description, describe, optional_packages
from brigade.registry import KINDS, entries

NO_LIMIT = 10_000  # columns, where output is not a terminal
# What the extras of pyproject.toml are for.
EXTRAS = {
    "cluster": "runs on a cluster, with Ray",
    "cuda12": "NVIDIA GPUs",
    "cuda13": "NVIDIA GPUs",
    "gymnasium": "the Gymnasium adapter",
    "jaxmarl": "the JaxMARL adapter",
    "pettingzoo": "the PettingZoo adapter",
    "tensorboard": "brigade run --tensorboard",
    "wandb": "brigade run --wandb",
}


def print_list(kinds: Sequence[str] = KINDS) -> None:
    """Print the names of some kinds, each with one line that says what it is.

    Without targets of other packages there are none to list: `brigade reproduce` has ours.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else NO_LIMIT
    for kind in kinds:
        found = {name: describe(entry) for name, entry in sorted(entries(kind).items())}
        if found:
            print(f"{kind}:")
        elif len(kinds) == 1:
            print(f"no other package has {kind}; `brigade reproduce` lists those of Brigade")
        for name, description in found.items():
            print(entry_line(name, description, name_width(found), width))


def name_width(names: Sequence[str] | dict[str, Description]) -> int:
    """The width of the column of names."""
    return max(map(len, names), default=0)


def entry_line(name: str, description: Description, column: int, width: int) -> str:
    """A name, what it lacks to be used, and what it is, within `width` characters."""
    parts = (description.missing, description.text.rstrip("."))
    text = "; ".join(part for part in parts if part)
    line = f"  {name:{column}}  "
    shown = textwrap.shorten(text, max(width - len(line), 20), placeholder="...")
    return f"{line}{shown}".rstrip()


def print_extras(distribution: str) -> None:
    """Print the groups of optional packages, and how to install those that are missing."""
    print("optional packages:")
    extras = sorted(optional_packages(distribution), key=lambda extra: extra.name)
    column = name_width([extra.name for extra in extras])
    for extra in extras:
        state = f"not installed: {extra.command}" if extra.missing else "installed"
        about = EXTRAS.get(extra.name, "")
        print(f"  {extra.name:{column}}  {f'{about}; ' if about else ''}{state}")

"""`brigade partners`: make a population of partners, and say how they do with whom."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from brigade.core.checks import within
from brigade.envs.overcooked import Overcooked, task_from_grid
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.errors import UserError
from brigade.partners.brdiv import BRDiv, generate
from brigade.registry import unknown_name
from brigade.runs.config import LARGEST_SEED
from brigade.runs.folder import write_atomically

LINE_SECONDS = 15.0


def make_partners(
    layout: str, settings: Mapping[str, Any], seed: int, out: Path, quiet: bool
) -> None:
    """Learn them, save them, print the soups of every pairing."""
    if layout not in LAYOUTS:
        raise UserError(unknown_name("layout", layout, LAYOUTS))
    if out.suffix != ".npz":
        raise UserError(f"--out is {out}; partners are saved as .npz, so give a name that ends so")
    if out.exists():
        raise UserError(f"{out} exists already; choose another --out")
    try:
        within("seed", seed, 0, LARGEST_SEED - 1)
        brdiv = BRDiv(**settings)
    except ValueError as error:
        raise UserError(str(error)) from error
    grid = LAYOUTS[layout]
    env = Overcooked(height=len(grid), width=len(grid[0]))
    try:  # now, not when all is learned
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, b"")
        out.unlink()
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}; choose another --out") from error
    said = time.monotonic()

    def watch(done: float, soups: Any) -> None:
        nonlocal said
        if not quiet and time.monotonic() - said > LINE_SECONDS:
            own, other = own_and_other(np.asarray(soups))  # waits for them
            said = time.monotonic()
            line = f"{done:.0%}  soups of own pairs {own:.1f}, of other pairs {other:.1f}"
            print(line, file=sys.stderr, flush=True)

    population = generate(brdiv, env, task_from_grid(grid), layout, seed, watch)
    write_atomically(out, population.as_bytes())
    if not quiet:
        print_soups(Console(), np.asarray(population.story["soups"]))


def own_and_other(soups: np.ndarray) -> tuple[float, float]:
    """Mean soups of the pairs that belong together, and of the others."""
    own = np.eye(len(soups), dtype=bool)
    return float(soups[own].mean()), float(soups[~own].mean())


def print_soups(console: Console, soups: np.ndarray) -> None:
    """A row per partner, a column per response."""
    table = Table(
        title="soups per game with the best response to", title_justify="left", box=box.SIMPLE_HEAD
    )
    table.add_column("partner")
    for number in range(1, len(soups) + 1):
        table.add_column(f"brdiv-{number}", justify="right")
    for number, row in enumerate(soups, 1):
        table.add_row(f"brdiv-{number}", *[f"{soup:.1f}" for soup in row])
    console.print(table)

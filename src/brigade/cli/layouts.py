"""`brigade layouts`: generate kitchens, save their pictures, check the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from brigade.envs.overcooked.generate import generate_sequence, level_spec
from brigade.envs.overcooked.grid import Grid, count_seats, read_grid, write_grid
from brigade.envs.overcooked.solve import needs_handoff
from brigade.envs.overcooked_v2 import (
    LAYOUTS,
    Kitchen,
    OvercookedV2,
    Task,
    kitchen_of,
    task_from_kitchen,
    without_file,
)
from brigade.envs.overcooked_v2.things import MAX_INGREDIENTS
from brigade.errors import UserError
from brigade.runs.limits import require_memory

KITCHEN_BYTES = 64  # of its text, at least


def generated_kitchens(
    level: str, num: int, seed: int, num_agents: int, require_handoff: bool = False
) -> dict[str, Grid]:
    """`num` generated kitchens of a level, by name."""
    require_memory(num * KITCHEN_BYTES, "so many kitchens", "--num")
    try:
        spec = replace(level_spec(level), require_handoff=require_handoff)
        grids = generate_sequence(spec, num, seed, num_agents)
    except ValueError as error:
        raise UserError(str(error)) from error
    kind = f"level-{level}-handoff" if require_handoff else f"level-{level}"
    return {f"{kind}-seed-{seed}-{place}": grid for place, grid in enumerate(grids, 1)}


def read_kitchen(path: Path, num_agents: int | None, require_handoff: bool = False) -> Grid:
    """Read a kitchen from a file and check the ten rules and, if asked for, the hand-off."""
    try:
        grid = read_grid(path, num_agents)
        if require_handoff and not needs_handoff(grid, num_agents or count_seats(grid)):
            raise UserError(
                f"{path}: soup can be served without a hand-off; separate the cooks with counters"
            )
        return grid
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error
    except ValueError as error:
        raise UserError(str(error)) from error


def v2_kitchens(path: Path | None) -> dict[str, Grid]:
    """The published kitchens of OvercookedV2, or the user's own, which must be one."""
    if path is None:
        return {name: kitchen.rows for name, kitchen in LAYOUTS.items()}
    try:
        kitchen = kitchen_of(without_file(str(path)))
        v2_task(kitchen.rows)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(str(error)) from error
    return {path.stem: kitchen.rows}


def save_kitchens(
    kitchens: dict[str, Grid], folder: Path, picture: Callable[[Grid], np.ndarray]
) -> None:
    """Write a picture and a text file of each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, grid in kitchens.items():
        write_grid(folder / f"{name}.txt", grid)
        Image.fromarray(picture(grid)).save(folder / f"{name}.png")


def v2_picture(grid: Grid) -> np.ndarray:
    """A kitchen of OvercookedV2 at its start."""
    task = v2_task(grid)
    height, width = task.tile.shape
    return OvercookedV2(len(task.start), height, width, MAX_INGREDIENTS).picture(task)


def v2_task(grid: Grid) -> Task:
    """A kitchen as a task; its recipes are not part of its grid."""
    return task_from_kitchen(Kitchen(grid, recipes=((0, 0, 0),)))

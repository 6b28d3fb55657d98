"""`brigade layouts`: draw kitchens, save their pictures, check one of the user's own."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from brigade.envs.overcooked import render_grid
from brigade.envs.overcooked.generate import GenerationError, generate_sequence
from brigade.envs.overcooked.grid import Grid, read_grid, write_grid
from brigade.errors import UserError


def drawn_kitchens(level: str, num: int, seed: int, num_agents: int) -> dict[str, Grid]:
    """`num` kitchens of a level, by name."""
    try:
        grids = generate_sequence(level, num, seed, num_agents)
    except (ValueError, GenerationError) as error:
        raise UserError(str(error)) from error
    return {f"level-{level}-seed-{seed}-{place}": grid for place, grid in enumerate(grids, 1)}


def checked_kitchen(path: Path, num_agents: int | None) -> Grid:
    """A kitchen from a file, if it obeys all ten rules."""
    try:
        return read_grid(path, num_agents)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error
    except ValueError as error:
        raise UserError(str(error)) from error


def save_kitchens(kitchens: dict[str, Grid], folder: Path, num_agents: int) -> None:
    """A picture and a text file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, grid in kitchens.items():
        write_grid(folder / f"{name}.txt", grid)
        Image.fromarray(render_grid(grid, num_agents=num_agents)).save(folder / f"{name}.png")

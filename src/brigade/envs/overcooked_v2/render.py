"""Pictures of kitchens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import jax
import numpy as np
from PIL import Image

from brigade.envs.overcooked.sprites import shadow_sprite
from brigade.envs.overcooked_v2 import sprites
from brigade.envs.overcooked_v2.rules import State
from brigade.envs.overcooked_v2.tasks import Task
from brigade.envs.overcooked_v2.things import BUTTON, FLOOR, INDICATOR, NOTHING, POT, SERVING

PX = 32


def render(
    state: State,
    task: Task,
    tile_px: int = PX,
    view: int | None = None,
    seats: Sequence[int] | None = None,
    wrong: bool = False,
) -> np.ndarray:
    """RGB uint8 [height * tile_px, width * tile_px, 3] of a single kitchen.

    With a `view`, tiles that none of the `seats` (default: all) sees are shaded. `wrong`: a wrong
    soup was served in the last step.
    """
    tile = np.asarray(task.tile)
    if tile.ndim != 2 or np.ndim(state.cell) != 1:
        raise ValueError("render draws one kitchen; index the batch, or use render_states")
    width = tile.shape[1]
    image = background(tile.tobytes(), width, tile_px).copy()

    def put(sprite: Image.Image, cell: int) -> None:
        image.paste(sprite, (cell % width * tile_px, cell // width * tile_px), sprite)

    things, timers = np.asarray(state.thing), np.asarray(state.timer)
    for cell, kind in enumerate(tile.reshape(-1).tolist()):
        thing, timer = int(things[cell]), int(timers[cell])
        if kind == POT:
            put(sprites.pot_sprite(thing, timer, tile_px), cell)
        elif kind == INDICATOR:
            put(sprites.board_sprite(int(state.recipe), tile_px), cell)
        elif kind == BUTTON and timer:
            put(sprites.button_sprite(int(state.recipe), timer, tile_px), cell)
        elif kind == SERVING and (bool(state.delivered) or wrong):
            put(sprites.mark_sprite(bool(state.delivered), tile_px), cell)
        elif thing != NOTHING:
            put(sprites.thing_sprite(thing, tile_px), cell)
    cooks = zip(
        *(np.asarray(each).tolist() for each in (state.cell, state.facing, state.held)), strict=True
    )
    for seat, (cell, facing, held) in enumerate(cooks):
        put(sprites.cook_sprite(seat, facing, held, tile_px), cell)
    if view is not None:
        watching = np.asarray(state.cell)[list(range(len(state.cell)) if seats is None else seats)]
        for cell in np.flatnonzero(~in_sight(watching, tile.shape, view)).tolist():
            put(sprites.night_sprite(tile_px), cell)
    return np.array(image)


def in_sight(cell: np.ndarray, shape: tuple[int, int], view: int) -> np.ndarray:
    """[cells] bool: which tiles cooks on these cells see."""
    rows, columns = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    down, right = rows - cell[:, None] // shape[1], columns - cell[:, None] % shape[1]
    seen: np.ndarray = (np.maximum(np.abs(down), np.abs(right)) <= view).any(0)
    return seen


@lru_cache(maxsize=64)
def background(tiles: bytes, width: int, tile_px: int) -> Image.Image:
    """The parts of the kitchen that never change. Cached: copy it before drawing on it."""
    tile = np.frombuffer(tiles, np.int32).reshape(-1, width)
    image = Image.new("RGB", (width * tile_px, tile.shape[0] * tile_px))
    for (row, column), kind in np.ndenumerate(tile):
        place = (column * tile_px, row * tile_px)
        image.paste(sprites.tile_sprite(int(kind), (row + column) % 2, tile_px), place)
        if kind == FLOOR and row > 0 and tile[row - 1, column] != FLOOR:
            shadow = shadow_sprite(tile_px)
            image.paste(shadow, place, shadow)
    return image


def render_states(
    states: State, task: Task, tile_px: int = PX, view: int | None = None
) -> list[np.ndarray]:
    """One picture per timestep of `states`, whose leaves are [timesteps, ...]."""
    states, task = jax.device_get((states, task))  # once, not per timestep
    leaves, structure = jax.tree.flatten(states)
    timesteps = [jax.tree.unflatten(structure, leaf) for leaf in zip(*leaves, strict=True)]
    wrong = np.diff(states.served, prepend=states.served[:1]) < 0
    return [
        render(state, task, tile_px, view, wrong=bool(failed))
        for state, failed in zip(timesteps, wrong, strict=True)
    ]

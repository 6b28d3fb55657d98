"""Pictures of kitchens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from brigade.envs.overcooked import rules, sprites
from brigade.envs.overcooked.env import FACINGS, describe
from brigade.envs.overcooked.rules import State
from brigade.envs.overcooked.tasks import Task, task_from_grid
from brigade.envs.overcooked.things import UP, Tile


def render(state: State, task: Task, tile_px: int = 32) -> np.ndarray:
    """RGB uint8 [height * tile_px, width * tile_px, 3] of a single kitchen."""
    tile = np.asarray(task.tile)
    if tile.ndim != 2 or np.ndim(state.cell) != 1:
        raise ValueError("render draws one kitchen; index the batch, or use render_states")
    width = tile.shape[1]
    by_recipe = np.asarray(task.recipes.cook_time)
    wet = np.asarray(task.slippery).tobytes()
    image = background(tile.tobytes(), wet, width, tile_px).copy()

    def put(sprite: Image.Image, x: int, y: int) -> None:
        image.paste(sprite, (x * tile_px, y * tile_px), sprite)

    # Positions come from `describe`; the contents of soups are only in the state.
    scene = describe(state, task)
    pot, tick, counter = (np.asarray(plane) for plane in (state.pot, state.tick, state.counter))
    for place in scene["pots"]:
        x, y = map(int, place.split(","))
        cell = y * width + x
        one_recipe = state.earned is None
        cook_time = int(task.cook_time if one_recipe else by_recipe[int(pot[cell])])
        put(sprites.pot_sprite(int(pot[cell]), int(tick[cell]), cook_time, tile_px), x, y)
    for x, y, _ in scene["counters"]:
        put(sprites.thing_sprite(int(counter[y * width + x]), tile_px), x, y)
    for seat, (x, y, facing, _) in enumerate(scene["players"]):
        held = int(np.asarray(state.held)[seat])
        put(sprites.cook_sprite(seat, FACINGS.index(facing), held, tile_px), x, y)
    return np.array(image)


@lru_cache(maxsize=64)
def background(tiles: bytes, wet: bytes, width: int, tile_px: int) -> Image.Image:
    """The parts of the kitchen that never change. Cached: copy it before drawing on it."""
    tile = np.frombuffer(tiles, np.uint8).reshape(-1, width)
    slippery = np.frombuffer(wet, bool).reshape(-1, width)
    image = Image.new("RGB", (width * tile_px, tile.shape[0] * tile_px))
    for (row, column), kind in np.ndenumerate(tile):
        place = (column * tile_px, row * tile_px)
        is_wet = bool(slippery[row, column])
        shade = (row + column) % 2
        image.paste(sprites.tile_sprite(int(kind), shade, tile_px, is_wet), place)
        if kind == Tile.FLOOR and row > 0 and tile[row - 1, column] != Tile.FLOOR:
            shadow = sprites.shadow_sprite(tile_px)
            image.paste(shadow, place, shadow)
    return image


def render_grid(grid_rows: str | Sequence[str], num_agents: int = 2) -> np.ndarray:
    """A kitchen at its start, with all cooks facing up."""
    task = task_from_grid(grid_rows, num_agents=num_agents)
    return render(rules.start(task, jnp.full(num_agents, UP, jnp.int32)), task)


def render_states(states: State, task: Task, tile_px: int = 32) -> list[np.ndarray]:
    """One picture per timestep of `states`, whose leaves are [timesteps, ...]."""
    states, task = jax.device_get((states, task))  # once, not per timestep
    leaves, structure = jax.tree.flatten(states)
    timesteps = (jax.tree.unflatten(structure, leaf) for leaf in zip(*leaves, strict=True))
    return [render(state, task, tile_px) for state in timesteps]

"""Pictures and GIFs of kitchens."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from brigade.envs.overcooked import rules, sprites
from brigade.envs.overcooked.env import FACINGS, describe
from brigade.envs.overcooked.rules import State
from brigade.envs.overcooked.tasks import Task, task_from_grid
from brigade.envs.overcooked.things import FLOOR, UP

UNCHANGED = 255  # the last of 256 palette entries marks pixels that do not change
EXACT_COLOURS = 32  # palette entries for floor, wood and other flat areas
PALETTE_FRAMES = 48  # number of frames, evenly spaced, from which the palette is computed
LAST_FRAME_MS = 1000


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
        if kind == FLOOR and row > 0 and tile[row - 1, column] != FLOOR:
            shadow = sprites.shadow_sprite(tile_px)
            image.paste(shadow, place, shadow)
    return image


def render_grid(
    grid_rows: str | Sequence[str], tile_px: int = 32, num_agents: int = 2
) -> np.ndarray:
    """A kitchen at its start, with all cooks facing up."""
    task = task_from_grid(grid_rows, num_agents=num_agents)
    return render(rules.start(task, jnp.full(num_agents, UP, jnp.int32)), task, tile_px)


def render_states(states: State, task: Task, tile_px: int = 32) -> list[np.ndarray]:
    """One picture per timestep of `states`, whose leaves are [timesteps, ...]."""
    states, task = jax.device_get((states, task))  # once, not per timestep
    leaves, structure = jax.tree.flatten(states)
    timesteps = (jax.tree.unflatten(structure, leaf) for leaf in zip(*leaves, strict=True))
    return [render(state, task, tile_px) for state in timesteps]


def save_gif(path: str | os.PathLike[str], frames: Iterable[np.ndarray], fps: int = 8) -> None:
    """Write a looping GIF that pauses on its last frame; repeated frames are merged."""
    pictures = list(frames)
    if not pictures or fps < 1:
        raise ValueError("a GIF needs at least one frame and at least one frame per second")
    colours = shared_colours(pictures)
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours)
    # Without dithering, pixels that do not change keep their colour from frame to frame.
    first, *rest = [
        Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE)
        for picture in pictures
    ]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.draft")
    try:
        with draft.open("xb") as file:
            first.save(
                file,
                format="GIF",
                save_all=True,
                append_images=rest,
                duration=[round(100 / fps) * 10] * len(rest) + [LAST_FRAME_MS],  # units of 10 ms
                loop=0,
                disposal=1,
                palette=colours.ljust(3 * 256, b"\0"),  # once for all frames
                transparency=UNCHANGED,
                optimize=True,  # unchanged pixels become `transparency`
            )
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def shared_colours(pictures: Sequence[np.ndarray]) -> bytes:
    """The palette of a GIF: the most frequent colours exactly, the others clustered."""
    step = max(len(pictures) // PALETTE_FRAMES, 1)
    pixels = np.concatenate([picture.reshape(-1, 3) for picture in pictures[::step]])
    codes, counts = np.unique(pixels @ np.array([1 << 16, 1 << 8, 1]), return_counts=True)
    codes = codes[np.argsort(-counts, kind="stable")]
    colours = np.stack([codes >> 16, codes >> 8, codes], axis=-1).astype(np.uint8)
    exact, others = colours[:EXACT_COLOURS], colours[EXACT_COLOURS:]
    entries = exact.tobytes()
    if len(others):
        # Each colour counts once, so small items matter as much as large counters.
        grouped = Image.fromarray(others[None]).quantize(UNCHANGED - EXACT_COLOURS, kmeans=4)
        entries += bytes(grouped.getpalette() or [])
    triples = (entries[i : i + 3] for i in range(0, len(entries), 3))
    return b"".join(dict.fromkeys(triples))  # without duplicates, as Pillow requires

"""What cooks observe: one plane per thing to see, of the whole kitchen or of a window around them.

The planes, for n ingredients: the own cook and the sum of the others, each as position, 4 facings
(up, down, right, left), and what is held (plate, cooked, a count per ingredient); six fixed tiles
(counter, serving, pot, indicator, button, plates); n piles; things on counters and in pots (plate,
cooked, counts); the recipe where it is shown (as things); the timers of pots; and, if asked for,
serving tiles on which the right soup was just served.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from brigade.core import Array
from brigade.envs.overcooked_v2.rules import State
from brigade.envs.overcooked_v2.tasks import Task
from brigade.envs.overcooked_v2.things import (
    BUTTON,
    COUNTER,
    INDICATOR,
    NOTHING,
    OUTSIDE,
    PILE,
    PLATE_PILE,
    POT,
    SERVING,
)

FIXED = (COUNTER, SERVING, POT, INDICATOR, BUTTON, PLATE_PILE)


def num_channels(ingredients: int, shows_delivery: bool) -> int:
    """The number of planes."""
    return 25 + 5 * ingredients + shows_delivery


def observe(
    state: State, task: Task, ingredients: int, view: int | None, shows_delivery: bool
) -> Array:
    """[seats, height, width, planes] uint8; with a `view`, 2 * view + 1 tiles each way."""
    height, width = task.tile.shape
    cells, inside = seen_cells(state.cell, height, width, view)
    tile = jnp.where(inside, task.tile.reshape(-1)[cells], OUTSIDE)
    thing = jnp.where(inside, state.thing[cells], NOTHING)
    timer = jnp.where(inside, state.timer[cells], 0)

    def parts(things: Array) -> Array:
        """[..., things] -> [..., 2 + ingredients]."""
        bits = [things & 1, things >> 1 & 1]
        counts = [things >> 2 + 2 * number & 3 for number in range(ingredients)]
        return jnp.stack([*bits, *counts], axis=-1)

    facing = state.facing[:, None] == jnp.arange(4)
    cooks = jnp.concatenate(
        [jnp.ones((len(state.cell), 1), jnp.int32), facing, parts(state.held)], axis=-1
    )  # [seats, planes of a cook]
    stands = (cells[:, :, None] == state.cell) & inside[:, :, None]  # [seats, tiles, cooks]
    own = jnp.eye(len(state.cell), dtype=bool)[:, None]
    mine, others = (
        jnp.einsum("stc,cp->stp", mask.astype(jnp.int32), cooks.astype(jnp.int32))
        for mask in (stands & own, stands & ~own)
    )
    shown = (tile == INDICATOR) | ((tile == BUTTON) & (timer > 0))
    planes = [
        mine,
        others,
        tile[..., None] == jnp.asarray(FIXED),
        tile[..., None] == PILE + jnp.arange(ingredients),
        parts(thing),
        parts(jnp.where(shown, state.recipe, NOTHING)),
        jnp.where(tile == POT, timer, 0)[..., None],
    ]
    if shows_delivery:
        planes.append(((tile == SERVING) & state.delivered)[..., None])
    seen = jnp.concatenate([plane.astype(jnp.uint8) for plane in planes], axis=-1)
    size = (height, width) if view is None else (2 * view + 1, 2 * view + 1)
    return jax.lax.optimization_barrier(seen.reshape(len(state.cell), *size, -1))


def seen_cells(cell: Array, height: int, width: int, view: int | None) -> tuple[Array, Array]:
    """The cells that each cook sees [seats, tiles], and which of them are inside the kitchen."""
    if view is None:
        every = jnp.broadcast_to(jnp.arange(height * width), (len(cell), height * width))
        return every, jnp.ones_like(every, bool)
    offsets = jnp.arange(-view, view + 1)
    rows, columns = (cell // width)[:, None] + offsets, (cell % width)[:, None] + offsets
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[
        :, None
    ]
    cells = rows[:, :, None] * width + columns[:, None]
    return jnp.clip(cells, 0, height * width - 1).reshape(len(cell), -1), inside.reshape(
        len(cell), -1
    )

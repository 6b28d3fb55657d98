"""What a cook observes: the kitchen as `uint8` planes, its own position and facing first.

Channels for n seats: own position, others' positions, four for own facing (up, down, right,
left), four for each other seat in seat order, then the sixteen shared ones of `SHARED_CHANNELS`.
With a window (partial view), all channels are zero outside it.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array
from brigade.envs.overcooked.cooking import Cooking
from brigade.envs.overcooked.rules import ONE_RECIPE, State
from brigade.envs.overcooked.tasks import Task
from brigade.envs.overcooked.things import DOWN, RIGHT, UP, Item, Tile, onions, tomatoes

SHARED_CHANNELS = (
    "pot",
    "counter",  # with nothing on it
    "onion pile",
    "tomato pile",
    "plate pile",
    "serving",
    "onions in a pot that is not cooking",
    "tomatoes in a pot that is not cooking",
    "onions in a soup, cooking, ready or plated",
    "tomatoes in a soup, cooking, ready or plated",
    "cooking steps left",
    "soup ready, in a pot or plated",
    "plates",
    "onions",
    "tomatoes",
    "urgency",
)
URGENT_STEPS = 40

Window = tuple[int, int, int]  # tiles forward, to each side, behind
Sight = Literal["full"] | Window


def num_channels(num_agents: int) -> int:
    """18 + 4n channels: two positions, four facings per seat, sixteen shared."""
    return 2 + 4 * num_agents + len(SHARED_CHANNELS)


def observe(
    state: State, task: Task, horizon: int, view: Sight = "full", cooking: Cooking = ONE_RECIPE
) -> Array:
    """[seats, height, width, channels] uint8."""
    height, width = task.tile.shape
    stands = state.cell[:, None] == jnp.arange(height * width)  # [seats, cells]
    shared = shared_planes(state, task, stands, horizon, cooking)
    views = [jnp.stack(own_planes(state, stands, seat) + shared) for seat in range(len(stands))]
    if view != "full":
        seen = in_sight(state, task, view).astype(jnp.uint8)
        views = [planes * seen[seat] for seat, planes in enumerate(views)]
    # Computed plane by plane, then transposed, so that adjacent GPU threads compute one plane.
    planes = jax.lax.optimization_barrier(jnp.stack(views))
    return planes.swapaxes(1, 2).reshape(len(stands), height, width, -1)


def in_sight(state: State, task: Task, window: Window) -> Array:
    """[seats, cells] bool: the tiles inside a window that rotates with the cook."""
    forward, sides, behind = window
    height, width = task.tile.shape
    cells, own = jnp.arange(height * width), state.cell[:, None]
    down, right = cells // width - own // width, cells % width - own % width
    facing = state.facing[:, None]
    upright = (facing == UP) | (facing == DOWN)
    along, aside = jnp.where(upright, down, right), jnp.where(upright, right, down)
    ahead = jnp.where((facing == DOWN) | (facing == RIGHT), along, -along)
    return (-behind <= ahead) & (ahead <= forward) & (jnp.abs(aside) <= sides)


def own_planes(state: State, stands: Array, seat: int) -> list[Array]:
    """Positions and facings from the view of `seat`, its own first."""
    others = [other for other in range(len(stands)) if other != seat]
    elsewhere = stands[jnp.array(others)].any(0) if others else jnp.zeros_like(stands[0])
    positions = [stands[seat], elsewhere]
    facings = [
        stands[cook] & (state.facing[cook] == direction)
        for cook in (seat, *others)
        for direction in range(4)
    ]
    return [plane.astype(jnp.uint8) for plane in positions + facings]


def shared_planes(
    state: State, task: Task, stands: Array, horizon: int, cooking: Cooking
) -> list[Array]:
    """The sixteen planes of `SHARED_CHANNELS`, each [cells] uint8."""
    tile = task.tile.reshape(-1)
    in_hand = jnp.sum(stands * state.held[:, None], axis=0, dtype=jnp.uint8)
    thing = state.counter + in_hand  # cooks and counters are on different cells
    plated = thing >= Item.SOUP
    cooks = state.tick > 0
    waiting = jnp.where(cooks, 0, state.pot)
    soup = jnp.where(cooks, state.pot, jnp.where(plated, thing, 0))
    cook_time = cooking.cook_time(state.pot, task)
    ready = cooks & (state.tick == cook_time)
    urgent = horizon - state.time < URGENT_STEPS
    planes = [
        tile == Tile.POT,
        (tile == Tile.COUNTER) & (state.counter == Item.NOTHING),
        tile == Tile.ONION_PILE,
        tile == Tile.TOMATO_PILE,
        tile == Tile.PLATE_PILE,
        tile == Tile.SERVING,
        onions(waiting),
        tomatoes(waiting),
        onions(soup),
        tomatoes(soup),
        jnp.where(cooks, cook_time - state.tick, 0),
        ready | plated,
        thing == Item.PLATE,
        thing == Item.ONION,
        thing == Item.TOMATO,
        jnp.broadcast_to(urgent, tile.shape),
    ]
    return [plane.astype(jnp.uint8) for plane in planes]


def changing_entries(task: Task, view: Sight = "full") -> int:
    """How many entries of an observation can change in a kitchen; for several, the maximum.

    Cooks and what they hold are on floor tiles; items lie on counters next to floor; pots next to
    floor cook. With a window, fixed tiles come into view and leave it, too.
    """
    tile = np.asarray(task.tile)
    seats = task.start.shape[-1]
    floor = tile == Tile.FLOOR
    beside = np.zeros_like(floor)
    beside[..., 1:, :] |= floor[..., :-1, :]
    beside[..., :-1, :] |= floor[..., 1:, :]
    beside[..., 1:] |= floor[..., :-1]
    beside[..., :-1] |= floor[..., 1:]
    ingredients = 1 + (tile == Tile.TOMATO_PILE).any((-2, -1))

    def count(cells: np.ndarray) -> np.ndarray:
        return cells.sum((-2, -1))

    item_channels = 2 + 2 * ingredients  # in a soup and alone; ready, plate
    pot_channels = 2 + 2 * ingredients  # not cooking and in a soup; steps left, ready
    entries = count(floor) * (2 + 4 * seats + item_channels)
    entries += count(beside & (tile == Tile.COUNTER)) * (1 + item_channels)
    entries += count(beside & (tile == Tile.POT)) * pot_channels
    entries += tile.shape[-2] * tile.shape[-1]  # urgency, everywhere
    if view != "full":
        kinds_of_tile = (tile != Tile.FLOOR) & ~(beside & (tile == Tile.COUNTER))
        entries += count(kinds_of_tile)
    return int(entries.max())

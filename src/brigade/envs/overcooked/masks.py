"""ZSC-Eval's action masks: actions that certainly have no effect are not available."""

from __future__ import annotations

import jax.numpy as jnp

from brigade.core import Array
from brigade.envs.overcooked.cooking import Cooking, OneRecipe
from brigade.envs.overcooked.rules import State, offsets
from brigade.envs.overcooked.tasks import Task
from brigade.envs.overcooked.things import Item, Tile


def available_actions(state: State, task: Task, cooking: Cooking) -> Array:
    """[seats, 6] bool: up, down, right, left, stay, interact."""
    faced = state.cell + offsets(task)[state.facing]
    tile = task.tile.reshape(-1)[faced]
    blocked = tile != Tile.FLOOR
    moves = [~(blocked & (state.facing == direction)) for direction in range(4)]
    stay = jnp.ones_like(blocked)
    interact = ~is_useless(state, faced, tile, task, cooking)
    return jnp.stack([*moves, stay, interact], axis=-1)


def is_useless(state: State, faced: Array, tile: Array, task: Task, cooking: Cooking) -> Array:
    """[seats] bool: whether interacting with the tile a seat faces is masked."""
    empty_handed = state.held == Item.NOTHING
    lying, pot, tick = state.counter[faced], state.pot[faced], state.tick[faced]
    is_ready = (tick > 0) & (tick == cooking.cook_time(pot, task))
    nothing_to_do = (
        jnp.bool_(True) if isinstance(cooking, OneRecipe) else (pot == Item.NOTHING) | is_ready
    )
    return (
        (tile == Tile.FLOOR)
        | ((tile == Tile.COUNTER) & (empty_handed == (lying == Item.NOTHING)))
        | (Tile.is_pile(tile) & ~empty_handed)
        | ((tile == Tile.SERVING) & (state.held < Item.SOUP))
        | ((tile == Tile.POT) & (state.held >= Item.SOUP))
        | ((tile == Tile.POT) & empty_handed & nothing_to_do)
    )

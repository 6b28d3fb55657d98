"""What a cook knows of the game: what it sees now, and what it saw last of the rest."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Array, Key
from brigade.envs.overcooked_v2.rules import Whole
from brigade.envs.overcooked_v2.teammates.kitchen import UNKNOWN, Scene, is_dish
from brigade.envs.overcooked_v2.things import BUTTON, COOKED, INDICATOR, NOTHING, POT, SERVING

MOODS, MOOD_LASTS = 3, 10  # numbers, and steps


class Belief(struct.PyTreeNode):
    """What a cook remembers."""

    thing: Array  # [cells] as last seen; pots cook on
    timer: Array  # [cells]
    other: Array  # where the other cook was seen last; UNKNOWN if it is not there any more
    other_held: Array  # what it held then
    recipe: Array  # as last seen; 0: not known
    held: Array  # what it held itself
    mood: Array  # [MOODS] random numbers for habits that last longer than a step


def nothing_known(cells: int) -> Belief:
    """The belief before an episode: nothing lies around."""
    zeros, zero = jnp.zeros(cells, jnp.int32), jnp.int32(0)
    return Belief(zeros, zeros, jnp.int32(UNKNOWN), zero, zero, zero, jnp.zeros(MOODS))


def everything(game: Whole, seat: Array) -> Scene:
    """The scene of a cook that knows all, as those of the release do."""
    state = game.state
    tile = game.tile.reshape(-1)
    lit = (tile == BUTTON) & (state.timer > 0)
    return Scene(
        tile=game.tile,
        seat=seat,
        cell=state.cell[seat],
        facing=state.facing[seat],
        held=state.held[seat],
        other=state.cell[1 - seat],
        other_held=state.held[1 - seat],
        thing=state.thing,
        timer=state.timer,
        recipe=state.recipe,
        shown=((tile == INDICATOR) | lit).any(),
        time=state.time,
    )


def look(
    game: Whole, seat: Array, before: Belief, view: int | None, renews: bool, key: Key
) -> tuple[Scene, Belief]:
    """What a cook knows after looking around, `view` tiles each way.

    `renews`: after it has served a soup there is a new recipe, which it does not know.
    """
    now = everything(game, seat)
    seen = visible(now, view)
    before = one_step_later(before, now.tile.reshape(-1))
    shows = seen & ((now.tile == INDICATOR) | ((now.tile == BUTTON) & lights(now))).reshape(-1)
    sees_other, place_seen = seen[now.other], (before.other != UNKNOWN) & seen[before.other]
    other = jnp.where(sees_other, now.other, jnp.where(place_seen, UNKNOWN, before.other))
    forgets = has_served(now, before) & renews
    remembered = jnp.where(forgets, 0, before.recipe)
    renewed = jax.random.uniform(key, (MOODS,))
    belief = Belief(
        thing=jnp.where(seen, now.thing, before.thing),
        timer=jnp.where(seen, now.timer, before.timer),
        other=other,
        other_held=jnp.where(sees_other, now.other_held, before.other_held),
        recipe=jnp.where(shows.any(), now.recipe, remembered),
        held=now.held,
        mood=jnp.where(now.time % MOOD_LASTS == 0, renewed, before.mood),
    )
    scene = now.replace(
        other=belief.other,
        other_held=belief.other_held,
        thing=belief.thing,
        timer=belief.timer,
        recipe=belief.recipe,
        shown=shows.any(),
    )
    return scene, belief


def has_served(now: Scene, before: Belief) -> Array:
    """Whether it has just served a soup."""
    width = now.tile.shape[1]
    ahead = now.cell + jnp.asarray((-width, width, 1, -1))[now.facing]
    serves = now.tile.reshape(-1)[ahead] == SERVING
    return is_dish(before.held) & (now.held == NOTHING) & serves


def visible(scene: Scene, view: int | None) -> Array:
    """[cells] bool: the window of a cook."""
    height, width = scene.tile.shape
    if view is None:
        return jnp.ones(height * width, bool)
    rows = jnp.abs(np.arange(height) - scene.cell // width) <= view
    columns = jnp.abs(np.arange(width) - scene.cell % width) <= view
    return (rows[:, None] & columns).reshape(-1)


def lights(scene: Scene) -> Array:
    """[height, width] bool: where something is switched on."""
    return scene.timer.reshape(scene.tile.shape) > 0


def one_step_later(belief: Belief, tile: Array) -> Belief:
    """Pots cook and buttons go out also where a cook does not look."""
    timer = jnp.maximum(belief.timer - 1, 0)
    ready = (tile == POT) & (belief.timer > 0) & (timer == 0)
    return belief.replace(thing=jnp.where(ready, belief.thing | COOKED, belief.thing), timer=timer)

"""Recorded games of heuristic teammates, as arrays of the decisions in them."""

import gzip
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from brigade.envs.overcooked_v2.rules import State, Whole
from brigade.envs.overcooked_v2.tasks import SEAT
from brigade.envs.overcooked_v2.teammates.policy import as_arrays
from brigade.envs.overcooked_v2.things import (
    COOKED,
    FLOOR,
    OUTSIDE,
    PLATE,
    TILE_OF_SYMBOL,
    contents,
)

DATA = Path(__file__).parents[1] / "golden" / "data" / "icrl"
HEIGHT, WIDTH = 9, 11  # of the largest kitchen
ACTIONS, FACINGS = "RDLUSI", "UDRL"


def games_of(family, folder=DATA, also=()):
    """The recorded games of a family; `also` names other files of the folder."""
    games = []
    for name in (family, *also):
        with gzip.open(folder / f"teammate_{name}.jsonl.gz", "rt") as file:
            games += map(json.loads, file)
    return [game for game in games if game["family"] == family]


def thing_of(name, ready=False):
    """The code of a thing by its name."""
    if name == "plate":
        return PLATE
    dish = name.startswith("dish:")
    numbers = contents(map(int, name.removeprefix("dish:")))
    return numbers + (PLATE | COOKED if dish else COOKED if ready else 0)


def tiles_of(rows):
    """The tiles of a kitchen, padded."""
    tile = np.full((HEIGHT, WIDTH), OUTSIDE, np.int32)
    known = TILE_OF_SYMBOL | {SEAT: FLOOR}
    for row, symbols in enumerate(rows):
        tile[row, : len(symbols)] = [known[symbol] for symbol in symbols]
    return tile


def state_of(state, time):
    """A recorded state."""
    thing, timer = np.zeros((2, HEIGHT, WIDTH), np.int32)

    def place(cell):
        column, row = map(int, cell.split(","))
        return row, column

    for cell, (inside, left, status) in state["pots"].items():
        thing[place(cell)], timer[place(cell)] = thing_of(inside, status == "ready"), left
    for column, row, name in state["counters"]:
        thing[row, column] = thing_of(name)
    for cell, left in state["buttons"].items():
        timer[place(cell)] = left
    cooks = state["players"]
    return State(
        cell=np.array([row * WIDTH + column for column, row, _, _ in cooks], np.int32),
        facing=np.array([FACINGS.index(facing) for _, _, facing, _ in cooks], np.int32),
        held=np.array([thing_of(held) for *_, held in cooks], np.int32),
        thing=thing.reshape(-1),
        timer=timer.reshape(-1),
        recipe=np.int32(thing_of(state["recipe"])),
        delivered=np.bool_(False),
        served=np.int32(0),
        time=np.int32(time),
    )


def stacked(trees):
    """Leaves with another axis in front."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def states_of(games):
    """Before each decision: Whole, leaves [games, steps, ...]."""
    wholes = []
    for game in games:
        before = [game["start"], *game["steps"][:-1]]
        states = stacked([state_of(state, t) for t, state in enumerate(before)])
        tile = np.broadcast_to(tiles_of(game["rows"]), (len(before), HEIGHT, WIDTH))
        wholes.append(Whole(states, tile))
    return stacked(wholes)


def params_of(family, games):
    """Leaves [games]."""
    return jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *[as_arrays(family, game["params"]) for game in games]
    )


def seats_of(games):
    """[games] The seats of the teammates."""
    return np.array([game["seat"] for game in games], np.int32)


def actions_of(games):
    """[games, steps]"""
    return np.array(
        [[ACTIONS.index(step["a"][game["seat"]]) for step in game["steps"]] for game in games]
    )


def recorded(games, part, name, kind, otherwise=0):
    """[games, steps] A number of `mem` or `draws`."""
    found = [[step[part].get(name) for step in game["steps"]] for game in games]
    return np.array([[otherwise if x is None else x for x in row] for row in found], kind)

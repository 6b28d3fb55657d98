"""Every step of OvercookedV2 games recorded from JaxMARL's simulator.

12 games of 300 steps in different kitchens, with states, rewards, shaped rewards and observations
(the CRC-32 of their bytes, for views of two tiles and of everything) after every step.
"""

import gzip
import json
import zlib
from pathlib import Path

import jax
import numpy as np
import pytest

from brigade.envs.overcooked_v2 import Kitchen, OvercookedV2, sequence_from_kitchens
from brigade.envs.overcooked_v2.observe import num_channels, observe
from brigade.envs.overcooked_v2.things import COOKED, FACINGS, PLATE, contents

DATA = Path(__file__).parent / "data" / "overcooked_v2_traces.jsonl.gz"
ACTION = {letter: number for number, letter in enumerate("RDLUSI")}
VIEWS = {"2": 2, "full": None}
MOST = 4  # ingredients in any of the kitchens


DESCRIBED = ("players", "pots", "counters", "buttons", "recipe")


def read_traces():
    with gzip.open(DATA, "rt") as lines:
        return [json.loads(line) for line in lines]


TRACES = read_traces()


def recipe_of(text):
    return contents([int(letter) for letter in text])


def kitchen(trace):
    recipes = [tuple(map(int, recipe)) for recipe in trace["recipes"]]
    return Kitchen(tuple(trace["rows"]), tuple(recipes))


@pytest.fixture(scope="module")
def replay():
    """All games, padded to one size: tasks, environments, states and what came of every step."""
    tasks = sequence_from_kitchens(
        [kitchen(trace) for trace in TRACES], [str(trace["name"]) for trace in TRACES], steps=1
    )
    return tasks, [played(trace, tasks[number]) for number, trace in enumerate(TRACES)]


PLAYS = {}


def played(trace, task):
    """Games with the same settings share a compiled program."""
    height, width = task.tile.shape
    settings = {
        name: trace["settings"][name] for name in ("negative_rewards", "start_cooking_interaction")
    }
    env = OvercookedV2(2, height, width, MOST, shows_delivery=True, random_starts=False, **settings)

    @jax.jit
    def play(task, start, actions, recipes):
        def seen(state):
            return {name: observe(state, task, MOST, view, True) for name, view in VIEWS.items()}

        def step(state, move):
            action, recipe = move
            state, now = env.step(jax.random.key(0), state, action, task)
            state = state.replace(recipe=recipe)  # they sample the next one with other keys
            return state, (state, now.reward[0], now.info["shaped_reward"], seen(state))

        return seen(start), jax.lax.scan(step, start, (actions, recipes))[1]

    start = started(env, task, trace["start"])
    actions = np.array([[ACTION[letter] for letter in step["a"]] for step in trace["steps"]])
    recipes = np.array([recipe_of(step["recipe"]) for step in trace["steps"]], np.int32)
    first, after = jax.device_get(PLAYS.setdefault(env, play)(task, start, actions, recipes))
    return env, start, first, after


def started(env, task, start):
    """The state in which a recorded game begins, with things in hands and pots in one of them."""
    state, _ = env.reset(jax.random.key(0), task)
    width = task.tile.shape[1]
    thing, timer = np.array(state.thing), np.array(state.timer)
    for place, (name, time, status) in start["pots"].items():
        x, y = map(int, place.split(","))
        thing[y * width + x] = recipe_of(name) | COOKED * (status == "ready")
        timer[y * width + x] = time
    for x, y, name in start["counters"]:
        thing[y * width + x] = thing_of(name)
    return state.replace(
        cell=np.array([y * width + x for x, y, _, _ in start["players"]], np.int32),
        facing=np.array([FACINGS.index(each[2]) for each in start["players"]], np.int32),
        held=np.array([thing_of(each[3]) for each in start["players"]], np.int32),
        thing=thing,
        timer=timer,
        recipe=np.int32(recipe_of(start["recipe"])),
    )


def thing_of(name):
    soup, plate = name.startswith("dish:"), name == "plate"
    return recipe_of(filter(str.isdigit, name)) | COOKED * soup | PLATE * (soup or plate)


def checksums(obs, trace):
    """Of both cooks, without padding and planes of ingredients that the kitchen does not have."""
    number, shows = (
        trace["settings"][name] for name in ("num_ingredients", "indicate_successful_delivery")
    )
    sizes = [5, 2 + number, 5, 2 + number, 6, number, 2 + number, 2 + number, 1 + shows]
    places = np.cumsum([0, 5, 2 + MOST, 5, 2 + MOST, 6, MOST, 2 + MOST, 2 + MOST])
    kept = np.concatenate(
        [place + np.arange(size) for place, size in zip(places, sizes, strict=True)]
    )
    assert len(kept) == num_channels(number, shows)
    height, width = len(trace["rows"]), len(trace["rows"][0])
    whole = {"2": obs["2"], "full": obs["full"][:, :height, :width]}
    return {
        name: [zlib.crc32(np.ascontiguousarray(seat[..., kept])) for seat in seats]
        for name, seats in whole.items()
    }


def described(env, state, task):
    return recorded(env.describe(state, task))


def recorded(scene):
    return {name: scene[name] for name in DESCRIBED} | {"counters": sorted(scene["counters"])}


@pytest.mark.parametrize("number", range(len(TRACES)), ids=lambda n: str(TRACES[n]["name"]))
def test_every_step_is_as_recorded(replay, number):
    trace, task = TRACES[number], replay[0][number]
    env, start, first, (states, reward, shaped, seen) = replay[1][number]
    assert described(env, start, task) == recorded(trace["start"])
    assert checksums(first, trace) == trace["start"]["obs"]
    for time, expected in enumerate(trace["steps"]):
        state, obs = (jax.tree.map(lambda x, t=time: x[t], each) for each in (states, seen))
        assert described(env, state, task) == recorded(expected), f"step {time}"
        assert reward[time] == expected["reward"], f"step {time}"
        assert shaped[time].tolist() == expected["shaped"], f"step {time}"
        assert bool(state.delivered) == expected["correct"], f"step {time}"
        assert checksums(obs, trace) == expected["obs"], f"step {time}"

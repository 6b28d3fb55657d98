"""Every step of the traces recorded from the original game, through one compiled program."""

import gzip
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from brigade.envs.overcooked import Overcooked, describe, sequence_from_grids

DATA = Path(__file__).parent / "data" / "overcooked_traces.jsonl.gz"
ACTION = {letter: number for number, letter in enumerate("UDRLSI")}


def read_traces():
    with gzip.open(DATA, "rt") as lines:
        return [json.loads(line) for line in lines]


TRACES = read_traces()


@pytest.fixture(scope="module")
def replay():
    """States [trace, step] of all kitchens at once, padded to one size."""
    kitchens = sequence_from_grids(
        [trace["grid"] for trace in TRACES], [str(trace["seed"]) for trace in TRACES], steps=1
    )
    height, width = kitchens.tasks.tile.shape[1:]
    env = Overcooked(height=height, width=width, start_facing="up")
    actions = np.array(
        [[[ACTION[letter] for letter in s["actions"]] for s in trace["steps"]] for trace in TRACES]
    )

    @jax.jit
    @jax.vmap
    def play(task, actions):
        start, _ = env.reset(jax.random.key(0), task)

        def step(state, action):
            state, now = env.step(jax.random.key(0), state, action, task)
            return state, (state, now.reward, now.info["shaped_reward"])

        return start, jax.lax.scan(step, start, actions)[1]

    return kitchens, jax.device_get(play(kitchens.tasks, actions))


@pytest.mark.parametrize("number", range(len(TRACES)), ids=lambda n: TRACES[n]["name"])
def test_every_step_is_as_recorded(replay, number):
    trace, (kitchens, (start, (states, reward, shaped))) = TRACES[number], replay
    task = kitchens[number]
    assert describe(jax.tree.map(lambda x: x[number], start), task) == trace["start"]
    for time, expected in enumerate(trace["steps"]):
        state = jax.tree.map(lambda x, time=time: x[number, time], states)
        recorded = {key: expected[key] for key in ("players", "pots", "counters")}
        assert describe(state, task) == recorded, f"step {time}"
        assert reward[number, time].tolist() == [sum(expected["sparse"])] * 2, f"step {time}"
        assert shaped[number, time].tolist() == expected["shaped"], f"step {time}"

"""Every step of the games recorded from ZSC-Eval's simulator, with one recipe and with five.

Places, pots, counters, rewards, shaping, events, action masks and behaviour-preferring rewards.
"""

import gzip
import json
from pathlib import Path

import jax
import numpy as np
import pytest

from brigade.envs.overcooked import LAYOUTS, Overcooked, describe, sequence_from_grids
from brigade.envs.overcooked.grid import parse_grid

DATA = Path(__file__).parent / "data"
ACTION = {letter: number for number, letter in enumerate("UDRLSI")}


def read(name):
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


GAMES = {"single": read("overcooked_events"), "multi": read("overcooked_multi_traces")}
CASES = [(kind, number) for kind, games in GAMES.items() for number in range(len(games))]


def case_id(case):
    kind, number = case
    return f"{GAMES[kind][number]['name']}-{GAMES[kind][number]['seed']}"


def play_all(kind):
    """States and timesteps [game, step] of all games of a kind, padded to one size."""
    games = GAMES[kind]
    kitchens = sequence_from_grids(
        [game["grid"] for game in games], [str(game["seed"]) for game in games], steps=1
    )
    height, width = kitchens.tasks.tile.shape[1:]
    env = Overcooked(
        num_agents=2,
        height=height,
        width=width,
        horizon=400,
        start_facing="up",
        recipes=kind,
        action_masks=True,
    )
    actions = np.array([[[ACTION[a] for a in s["actions"]] for s in g["steps"]] for g in games])

    @jax.jit
    @jax.vmap
    def play(task, actions):
        start, first = env.reset(jax.random.key(0), task)

        def step(state, action):
            state, now = env.step(jax.random.key(0), state, action, task)
            return state, (state, now)

        return (start, first), jax.lax.scan(step, start, actions)[1]

    return env, kitchens, jax.device_get(play(kitchens.tasks, actions))


@pytest.fixture(scope="module")
def played():
    return {kind: play_all(kind) for kind in GAMES}


def picked(tree, *index):
    return jax.tree.map(lambda x: x[index], tree)


def masks(view):
    return ["".join(str(int(bit)) for bit in row) for row in view.avail]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_step_is_as_recorded(played, case):
    kind, number = case
    game, (_, kitchens, (start, then)) = GAMES[kind][number], played[kind]
    task = kitchens[number]
    state, now = picked(start, number)
    assert describe(state, task) | {"masks": masks(now.view)} == game["start"]
    for time, expected in enumerate(game["steps"]):
        state, now = picked(then, number, time)
        found = describe(state, task)
        assert found == {key: expected[key] for key in found}, f"step {time}"
        assert masks(now.view) == expected["masks"], f"step {time}"
        assert now.reward.tolist() == [sum(expected["sparse"])] * 2, f"step {time}"
        assert now.info["shaped_reward"].tolist() == expected["shaped"], f"step {time}"
        counts = [[row.get(name, 0) for name in game["event_names"]] for row in expected["events"]]
        assert now.info["events"].astype(int).tolist() == counts, f"step {time}"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_totals_are_as_recorded(played, case):
    kind, number = case
    game, (env, _, (_, (states, now))) = GAMES[kind][number], played[kind]
    totals = now.info["events"][number].astype(int).sum(0)
    assert totals.tolist() == game["event_totals"]
    assert len(env.events) == len(game["event_names"])
    served = sum(game["served"].values())
    assert states.soups[number, -1] == served == totals[:, env.events.index("delivery")].sum()
    assert now.reward[number, :, 0].sum() == game["return"]


def test_the_layouts_by_name_are_those_of_the_games():
    for game in [game for games in GAMES.values() for game in games]:
        assert LAYOUTS[game["name"]] == parse_grid(game["grid"])

"""Heuristic teammates, as released: equal to recorded games decision by decision.

The games are of a transcription of ICRL4AHT's release (22f6c17), made by hand and checked by a
second one; a part of them, with all branches of all families. Each step has the state, the memory
and the numbers drawn before the decision, and the action.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.icrl import (
    DATA,
    HEIGHT,
    WIDTH,
    actions_of,
    games_of,
    params_of,
    recorded,
    seats_of,
    states_of,
)

from brigade.core import View
from brigade.envs.overcooked_v2 import LAYOUTS, OvercookedV2, task_from_kitchen
from brigade.envs.overcooked_v2.teammates import (
    H1,
    H2,
    H3,
    H4,
    assembly,
    recipe,
    territory,
    utility,
)
from brigade.envs.overcooked_v2.teammates.beliefs import everything
from brigade.envs.overcooked_v2.teammates.kitchen import Kitchen
from brigade.partners.cast import cast_of
from brigade.train.crossplay import play_with

FAMILIES = {"h1": (H1, recipe), "h2": (H2, territory), "h3": (H3, assembly), "h4": (H4, utility)}
OF_H3 = "hesitate wrong abandon timing wrong_action stubborn stubborn_after_wrong".split()


def inputs(family, games):
    """The recorded memory and draws before every decision, leaves [games, steps]."""

    def mem(name, kind=np.int32):
        return recorded(games, "mem", name, kind)

    def drawn(name, kind=np.float32):
        return recorded(games, "draws", name, kind)

    if family == "h1":
        known = recipe.Known(mem("known_recipe"), mem("last_recipe_time"), mem("last_intent"))
        draws = [drawn(name) for name in ("idle", "wrong", "block", "press")]
        ours = [np.ones_like(draws[0])] * 2
        return known, recipe.Draws(*draws, *ours, np.zeros(draws[0].shape, np.int32))
    if family == "h2":
        return territory.Stuck(last_cells(games), mem("stuck")), territory.Draws(drawn("roll"))
    if family == "h3":
        draws = [drawn(name, np.int32 if name == "wrong_action" else np.float32) for name in OF_H3]
        return (), assembly.Draws(*draws, np.ones_like(draws[0]))
    return utility.Intention(mem("last_intent"), mem("wait")), utility.Draws(
        drawn("rng100", np.int32)
    )


def last_cells(games):
    """[games, steps] H2's cell at its last decision, or -1."""
    places = [[step["mem"]["last_pos"] for step in game["steps"]] for game in games]
    rows, columns = np.moveaxis(np.array(places, np.int32), -1, 0)
    return np.where(rows < 0, -1, rows * WIDTH + columns)


def differences(family, games):
    """Where our decisions, next memories and (H4) scores differ from recorded ones."""
    _, code = FAMILIES[family]
    memory, draws = inputs(family, games)

    def decide(params, seat, whole, memory, draws):
        return code.decide(params, memory, Kitchen(everything(whole, seat)), draws, True)

    steps = jax.vmap(decide, in_axes=(None, None, 0, 0, 0))
    found = jax.jit(jax.vmap(steps))(
        params_of(family, games), seats_of(games), states_of(games), memory, draws
    )
    wrong = {"action": np.asarray(found.action) != actions_of(games)}
    after = zip(jax.tree.leaves(found.memory), jax.tree.leaves(memory), strict=True)
    for number, (ours, theirs) in enumerate(after):
        wrong[f"memory {number}"] = np.asarray(ours)[:, :-1] != theirs[:, 1:]
    if family == "h4":
        wrong["scores"] = wrong_scores(games, np.asarray(found.scores))
    return wrong


def wrong_scores(games, ours):
    """[games, steps] Scores are recorded with six decimals, and not while it waits."""
    wrong = np.zeros(ours.shape[:2], bool)
    for number, game in enumerate(games):
        for t, step in enumerate(game["steps"]):
            if (scores := step["draws"].get("scores")) is not None:
                expected = np.array([-np.inf if x is None else x for x in scores])
                wrong[number, t] = not np.allclose(ours[number, t], expected, rtol=0, atol=2e-6)
    return wrong


@pytest.mark.parametrize("family", FAMILIES)
def test_decisions_are_those_of_the_release(family):
    games = games_of(family.upper())
    for what, wrong in differences(family, games).items():
        places = [
            (games[game]["name"], games[game]["instance"], t) for game, t in np.argwhere(wrong)
        ]
        assert not places, f"{what}: {len(places)} of {wrong.size} differ, first {places[:3]}"


@pytest.mark.parametrize("family", FAMILIES)
def test_policies_follow_the_release_with_its_noise(family):
    """Alone with the recorded states: their memory and random keys are those of the release."""
    games = games_of(family.upper())
    policy = FAMILIES[family][0](HEIGHT, WIDTH, as_released=True)

    def play(params, seat, wholes):
        def step(carry, whole):
            first = (whole.state.time == 0)[None]
            view = View(None, None, None, None, first, jnp.ones(1, bool), None)
            view = view.with_state(whole, seat[None])
            action, carry, _ = policy.act(params, carry, view, jax.random.key(7))
            return carry, action[0]

        return jax.lax.scan(step, policy.initial_carry((1,)), wholes)[1]

    found = jax.jit(jax.vmap(play))(params_of(family, games), seats_of(games), states_of(games))
    assert (np.asarray(found) == actions_of(games)).all()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["cramped_room_up", "test_time_wide"])
def test_returns_beside_a_random_cook_are_those_recorded(layout):
    """Means of 200 games against 20; within four standard errors of their difference."""
    rows = json.loads((DATA / "teammate_returns.json").read_text())
    rows = [row for row in rows if row["layout"] == layout]
    task = task_from_kitchen(LAYOUTS[layout])
    height, width = task.tile.shape
    env = OvercookedV2(height=height, width=width, ingredients=4, horizon=100)
    names = [f"{row['family'].lower()}:{row['test_instance']}:as_released" for row in rows]
    egos, partners = cast_of(["random"], env), cast_of(names, env)
    returns = play_with(env, task, egos, partners, 200, jax.random.key(1))[0, :, 0]
    for row, name in zip(rows, names, strict=True):
        ours = returns[partners.names.index(name)]
        spread = np.sqrt(ours.var() / ours.size + row["std"] ** 2 / row["games"])
        assert abs(ours.mean() - row["mean"]) <= 4 * spread + 1.0, name

"""OvercookedV2: rules, observations, kitchens from text, the score, pictures, benchmarks."""

import importlib.util
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from brigade.benchmarks.overcooked_v2 import LayoutSettings, StreamSettings, layout, stream
from brigade.cli import main
from brigade.core import TaskSequence
from brigade.envs.adapters.gymnasium import SeatEnv
from brigade.envs.adapters.jaxmarl import JaxMARLEnv
from brigade.envs.adapters.pettingzoo import ParallelEnv
from brigade.envs.overcooked_v2 import (
    ACTIONS,
    LAYOUTS,
    Kitchen,
    OvercookedV2,
    sequence_from_kitchens,
    task_from_kitchen,
)
from brigade.envs.overcooked_v2.render import render
from brigade.envs.overcooked_v2.solve import cycle_time
from brigade.envs.overcooked_v2.tasks import KitchenError, tiles_of
from brigade.envs.overcooked_v2.things import COOKED, PLATE, contents, ingredient
from brigade.partners import Random
from brigade.testing import check_environment

BENCH = Path(__file__).parents[2] / "bench"
KEY = jax.random.key(0)
RIGHT, DOWN, LEFT, UP, STAY, INTERACT = range(len(ACTIONS))
ONE_COOK = ("WWPWW", "0.A.B", "R...L", "WWXWW")


# --- JaxMARL ---


@pytest.fixture(scope="module")
def comparison():
    path = BENCH / "compare_overcooked_v2.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "view", "shows_delivery", "by_hand"),
    [("grounded_coord_ring", 2, False, False), ("cramped_room_v2", None, True, True)],
)
def test_every_step_equals_that_of_jaxmarl(comparison, layout, view, shows_delivery, by_hand):
    """`bench/compare_overcooked_v2.py` plays all layouts."""
    found = comparison.compare(layout, view, shows_delivery, by_hand, games=80)
    assert not any(found.unequal.values())
    assert found.delivered > 0
    assert found.wrong > 0


@pytest.mark.slow
def test_the_adapter_takes_jaxmarls_actions(comparison):
    """Right, down, left, up, stay, interact: the same game through both interfaces."""
    theirs = comparison.jaxmarls("cramped_room_v2", 2, False, False)
    task = task_from_kitchen(LAYOUTS["cramped_room_v2"])
    ours = JaxMARLEnv(OvercookedV2(2, 4, 5, ingredients=2), task)
    start = theirs.reset(KEY)[1]
    state = ours.reset(KEY)[1].replace(game=comparison.state_of(start, 5))

    def step(states, key):
        joint = comparison.random_actions(key, 2)
        actions = {agent: joint[seat] for seat, agent in enumerate(ours.agents)}
        seen, mine, reward, _, info = ours.step_env(key, states[0], actions)
        wanted, other, paid, _, more = theirs.step_env(key, states[1], actions)
        mine = mine.replace(game=mine.game.replace(recipe=other.recipe))
        of_cooks = [jnp.all(seen[a][..., :18] == wanted[a][..., :18]) for a in ours.agents]
        shaped = [info["shaped_reward"][a] == more["shaped_reward"][a] for a in ours.agents]
        return (mine, other), jnp.stack([*of_cooks, *shaped, reward["agent_0"] == paid["agent_0"]])

    play = jax.jit(lambda states, keys: jax.lax.scan(step, states, keys)[1])
    assert np.asarray(play((state, start), jax.random.split(KEY, 100))).all()


# --- a game by hand ---


def test_one_cook_sees_the_recipe_cooks_and_serves():
    env, task = OvercookedV2(1, 4, 5, 1, random_starts=False), task_from_kitchen(ONE_COOK)
    step = jax.jit(env.step)
    state, now = env.reset(KEY, task)
    onion = [LEFT, LEFT, INTERACT, RIGHT, UP, INTERACT]
    plate = [RIGHT, RIGHT, INTERACT, LEFT, UP] + [STAY] * 14
    serve = [INTERACT, DOWN, DOWN, INTERACT]
    rewards, shaped = [], []
    for action in onion * 3 + plate + serve:
        state, now = step(KEY, state, jnp.array([action]), task)
        rewards.append(float(now.reward[0]))
        shaped.append(float(now.info["shaped_reward"][0]))
    assert rewards == [0.0] * 40 + [20.0]
    # Three onions, the plate while the pot is in use, the right soup.
    assert [each for each in shaped if each] == [3.0, 3.0, 3.0, 3.0, 5.0]
    assert now.info["events"][0].tolist() == [False] * 4 + [True, False, False]
    assert int(env.max_soups(task)) == 400 // cycle_time(tiles_of(ONE_COOK), [(0, 0, 0)])
    assert float(now.info["score"]) == pytest.approx(1 / int(env.max_soups(task)))


def test_a_button_costs_and_shows_the_recipe_for_ten_steps():
    kitchen = Kitchen(("WWPWW", "0.A.L", "1...B", "WWXWW"))
    env, task = OvercookedV2(1, 4, 5, 2, random_starts=False), task_from_kitchen(kitchen)
    step, shown = jax.jit(env.step), []
    state, now = env.reset(KEY, task)
    for action in [RIGHT, RIGHT, INTERACT] + [STAY] * 10:
        state, now = step(KEY, state, jnp.array([action]), task)
        shown.append(env.describe(state, task, seat=0)["recipe"] is not None)
        of_recipe = now.view.obs[0, ..., 9 + 9 + 6 + 2 + 4 :][..., :4]
        assert bool(of_recipe.any()) == shown[-1]
        assert float(now.reward[0]) == (-5.0 if action == INTERACT else 0.0)
    assert shown == [False] * 2 + [True] * 9 + [False] * 2


# --- the score ---


def test_a_score_of_one_is_what_one_good_cook_serves():
    """Cramped room: 3 * 1 + 2 + 2 steps to walk, 4 between them, 20 to cook, 9 * 2 to interact."""
    assert cycle_time(tiles_of(LAYOUTS["cramped_room_v2"].rows), [(0, 0, 0), (0, 1, 1)]) == 49
    for name, kitchen in LAYOUTS.items():
        task = task_from_kitchen(kitchen)
        assert 40 < int(task.cycle_time) < 100, name
    nothing_served = ("WWWWW", "0A..R", "WWBWW")
    env = OvercookedV2(1, 3, 5, 1)
    assert int(env.max_soups(task_from_kitchen(nothing_served))) == 1


# --- kitchens ---


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["WWW", "WA.", "WWW"], "row 2, column 3 is floor; the border needs counters"),
        (["WWWW", "0AZR", "WWWW"], "row 2, column 3 is 'Z'"),
        (["WWW0", "W..R", "WWWW"], "has 0 cooks"),
        (["WWWW", "WA.R", "WWWW"], "no ingredients"),
        (["WWW0", "WA.W", "WWWW"], "nothing shows the recipe"),
        (["W" * 33] * 3, "3 x 33 tiles"),
        ([], "0 x 0 tiles"),
    ],
)
def test_kitchens_that_break_a_rule_are_refused(rows, message):
    with pytest.raises(KitchenError, match=message):
        task_from_kitchen(rows)


def test_a_kitchen_comes_from_a_file_that_may_then_go_away(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("# two cooks\n\nWWPWW\n0A A1\nW   R\nWBWXW\n")
    settings = LayoutSettings(layout=str(file), recipes=("000", "011"))
    file.unlink()
    assert settings.layout == "WWPWW/0A.A1/W...R/WBWXW"
    assert LayoutSettings(layout=settings.layout, recipes=settings.recipes) == settings
    benchmark = layout(settings)
    task = benchmark.sequence(0, 1, 100)[0]
    assert task.recipes.tolist() == [contents((0, 0, 0)), contents((0, 1, 1))]
    assert benchmark.env.obs_shape == (5, 5, 25 + 5 * 2)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--env.layout nowhere.txt", "unknown layout 'nowhere.txt'"),
        ("--env.layout large.txt", "large.txt has 20 kB; it may have 16 kB"),
        ("--env.layout folder", "folder is a folder; it must be a plain file"),
        ("--env.layout open.txt", "open.txt: row 1, column 1 is floor"),
        ("--env.layout bytes.txt", "bytes.txt is not text"),
        ("--env.recipes 09", "recipe '09': write 3 digits"),
        ("--env.recipes 009", "from 0 to 1"),
        ("--env.num-agents 3", "num_agents is 3, but the kitchen has 2 cooks"),
        ("--env.view 0", "view is 0"),
    ],
)
def test_bad_settings_are_one_line(flags, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "large.txt").write_text("W" * 20_000)
    (tmp_path / "open.txt").write_text(".WW\nWAW\nWWW\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    assert main(["plan", "overcooked_v2/layout", *flags.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_the_command_line_draws_kitchens_and_checks_ones_own(tmp_path, capsys):
    assert main(["layouts", "--v2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(LAYOUTS)
    file, out = tmp_path / "mine.txt", tmp_path / "drawn"
    file.write_text("WWPWW\n0A..B\nWWXWW\n")
    assert main(["layouts", "--v2", "--file", str(file), "--out", str(out)]) == 0
    assert f"{file} can be played" in capsys.readouterr().out
    with Image.open(out / "mine.png") as picture:
        assert picture.size == (5 * 32, 3 * 32)
    file.write_text("WWPWW\n0...B\nWWXWW\n")
    assert main(["layouts", "--v2", "--file", str(file)]) == 2
    assert "has 0 cooks (A); it needs 1 to 4" in capsys.readouterr().err


def test_a_stream_has_one_shape_in_every_order():
    benchmark = stream(StreamSettings(num_agents=1))
    first, second = (benchmark.sequence(seed, 4, 100) for seed in (0, 1))
    assert first.names != second.names
    shapes = [[leaf.shape for leaf in jax.tree.leaves(each.tasks)] for each in (first, second)]
    assert shapes[0] == shapes[1]
    given = stream(StreamSettings(layouts=("test_time_wide", "cramped_room_up"), order="given"))
    assert given.sequence(5, 2, 100).names == ("test_time_wide", "cramped_room_up")
    with pytest.raises(ValueError, match="--tasks is 3; there are 2 kitchens"):
        given.sequence(0, 3, 100)


@pytest.mark.slow
def test_four_cooks_keep_the_promises_of_an_environment():
    rows = ("WWPWPWW", "0A.L.A1", "W.A.A.R", "WBWXWWW")
    env = OvercookedV2(4, 4, 7, 2, horizon=8, random_things=True, start_cooking_interaction=True)
    check_environment(env, sequence_from_kitchens([rows, rows], ["one", "two"], steps=1))


@pytest.mark.slow
@pytest.mark.parametrize("view", [None, 1, 2])
def test_no_more_entries_change_than_is_said(view):
    names = ("cramped_room_up", "grounded_coord_simple", "test_time_wide")
    sequence = sequence_from_kitchens([LAYOUTS[name] for name in names], names, steps=1)
    height, width = sequence.tasks.tile.shape[1:]
    env = OvercookedV2(2, height, width, 4, view=view, random_things=True, shows_delivery=True)

    @jax.jit
    def play(task):
        def game(key):
            def step(state, key):
                state, now = env.step(key, state, jax.random.randint(key, (2,), 0, 6), task)
                return state, now.view.obs

            return jax.lax.scan(step, env.reset(key, task)[0], jax.random.split(key, 60))[1]

        return jax.vmap(game)(jax.random.split(KEY, 200))

    for number in range(len(names)):
        task = TaskSequence.from_tasks([sequence[number]], [names[number]], 1).tasks
        obs = np.asarray(play(sequence[number])).reshape(-1, np.prod(env.obs_shape))
        changed = int((obs.min(0) != obs.max(0)).sum())
        assert changed <= env.changing_inputs(task)
        assert changed > 0.4 * env.changing_inputs(task)


# --- other interfaces ---


def test_gymnasium_and_pettingzoo_play_it():
    env, tasks = OvercookedV2.example()
    alone = SeatEnv(env, tasks, partners=Random())
    obs, info = alone.reset(seed=0)
    assert obs.shape == env.obs_shape
    assert info["action_mask"].shape == (6,)
    assert alone.step(INTERACT)[0].shape == env.obs_shape
    both = ParallelEnv(env, tasks, render=render)
    both.reset(seed=0, options={"task": 2})
    seen, *_ = both.step(dict.fromkeys(both.agents, STAY))
    assert {each.shape for each in seen.values()} == {env.obs_shape}
    assert both.render().shape == (5 * 32, 8 * 32, 3)


# --- pictures ---


def changed_cells(one, other, task, px=16):
    before, after = (
        render(each, task, px).reshape(task.tile.shape[0], px, -1, px, 3).swapaxes(1, 2)
        for each in (one, other)
    )
    return set(np.flatnonzero((before != after).any((2, 3, 4))).tolist())


def test_what_changes_in_a_kitchen_is_seen_where_it_changes():
    task = task_from_kitchen(Kitchen(("WWPWW", "0A.A1", "L...R", "WBWXW")))
    env = OvercookedV2(2, 4, 5, 2, random_starts=False)
    state, _ = env.reset(KEY, task)
    pot, counter, seat, button, board, hatch = 2, 0, 6, 10, 14, 18
    state = state.replace(recipe=jnp.int32(contents((0, 0, 0))))
    soup = contents((0, 1, 1)) | PLATE | COOKED

    def with_thing(cell, thing, timer=0):
        things, timers = state.thing.at[cell].set(thing), state.timer.at[cell].set(timer)
        return state.replace(thing=things, timer=timers)

    changes = {
        board: [state.replace(recipe=jnp.int32(contents((0, 0, 1))))],
        button: [with_thing(button, 0, timer) for timer in (10, 9)],
        hatch: [state.replace(delivered=jnp.bool_(True))],
        pot: [with_thing(pot, ingredient(0)), with_thing(pot, contents((0, 0, 1)) | COOKED)]
        + [with_thing(pot, contents((0, 0, 1)), timer) for timer in (20, 1)],
        counter: [with_thing(counter, thing) for thing in (ingredient(0), ingredient(1), soup)],
        seat: [state.replace(held=jnp.array([thing, 0])) for thing in (PLATE, soup)],
    }
    pictures = [render(state, task, 16)]
    for cell, states in changes.items():
        for each in states:
            assert changed_cells(state, each, task) == {cell}
            pictures.append(render(each, task, 16))
    assert len({picture.tobytes() for picture in pictures}) == len(pictures)


def test_what_nobody_sees_is_shaded():
    task = task_from_kitchen(LAYOUTS["long_room"])
    env = OvercookedV2(1, 4, 15, 1, random_starts=False)
    state, _ = env.reset(KEY, task)
    whole, seen = render(state, task, 8), render(state, task, 8, view=2)
    darker = (seen < whole).any((0, 2)).reshape(15, 8).all(1)
    assert darker.tolist() == [True] * 11 + [False] * 4
    film = env.frames(jax.tree.map(lambda leaf: leaf[None], state), task)
    np.testing.assert_array_equal(film[0], render(state, task, view=2))


def test_every_ingredient_looks_different():
    rows = ("WWWWWWWWWWPW", "BA...A.....R", "W0123456789W")
    task = task_from_kitchen(Kitchen(rows, recipes=((0, 1, 2),)))
    tiles = render(OvercookedV2(2, 3, 12, 10)._start(task), task, 16)[32:, 16:-16]
    crates = {tile.tobytes() for tile in np.split(tiles, 10, axis=1)}
    assert len(crates) == 10

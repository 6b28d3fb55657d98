"""Lists of recipes: tables, cooking by interaction, payment, masks and settings.

The golden games check whole kitchens; these are the cases that such games do not reach.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.benchmarks.meal import KitchenSettings, kitchens
from brigade.envs.overcooked import MULTI_EVENTS, Overcooked, Recipe, describe, task_from_grid
from brigade.envs.overcooked.recipes import (
    CONTENTS,
    RECIPES,
    choose_recipes,
    contents_of,
    look_up,
    recipe_arrays,
)

KITCHEN = ("XXPXX", "O1.2T", "X3.4S", "XDXXX")
U, D, R, L, S, I = range(6)  # noqa: E741


def env_of(**settings):
    settings = {"num_agents": 2, "start_facing": "up", "recipes": "multi", "horizon": 60} | settings
    return Overcooked(height=4, width=5, **settings)


def play(env, task, actions):
    """States and timesteps after every joint action."""

    @jax.jit
    def run(actions):
        state, _ = env.reset(jax.random.key(0), task)

        def step(state, action):
            state, now = env.step(jax.random.key(0), state, action, task)
            return state, (state, now)

        return jax.lax.scan(step, state, actions)[1]

    return run(jnp.array(actions))


def at(tree, time):
    return jax.tree.map(lambda x: x[time], tree)


# --- tables ---


def test_tables_hold_what_the_list_says():
    tables = recipe_arrays({"OT": Recipe(7, 5), "OTT": Recipe(30, 9)})
    for name, value, time, listed in (
        ("OT", 7, 5, True),
        ("OTT", 30, 9, True),
        ("OOO", -10, 20, False),
        ("T", -10, 20, False),
    ):
        code = contents_of(name)
        assert (tables.value[code], tables.cook_time[code]) == (value, time)
        assert bool(tables.listed[code]) is listed


def test_the_best_value_is_that_of_the_best_recipe_still_possible():
    tables = recipe_arrays({"OT": Recipe(7, 5), "OTT": Recipe(30, 9), "OOO": Recipe(20, 9)})
    best = {name: float(tables.best[contents_of(name)]) for name in ("O", "T", "OO", "OT", "TT")}
    assert best == {"O": 30, "T": 30, "OO": 20, "OT": 30, "TT": 30}
    assert tables.best[0] == 30  # an empty pot
    assert tables.best[contents_of("TTT")] == tables.best[contents_of("OOT")] == 0


def test_looking_up_equals_indexing():
    tables = recipe_arrays()
    contents = jnp.array(CONTENTS, jnp.uint8)
    for table in (tables.value, tables.cook_time, tables.listed, tables.best):
        assert look_up(table, contents).tolist() == table[contents].tolist()


def test_ingredients_have_no_order():
    assert contents_of("TO") == contents_of("OT")
    assert choose_recipes(["TTO", "OO"]) == {"OTT": RECIPES["OTT"], "OO": RECIPES["OO"]}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["OOP"], "write 1 to 3 letters O"),
        (["OOOO"], "write 1 to 3 letters O"),
        (["TTT"], "unknown recipe 'TTT': did you mean 'OTT'"),
        ([], "there is no recipe; give one or more of OOO, "),
    ],
)
def test_unknown_recipes_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        choose_recipes(names)


# --- cooking ---


def test_a_soup_of_two_is_started_cooks_its_own_time_and_pays_its_own_value():
    task = task_from_grid(KITCHEN, height=4, width=5, recipes={"OT": Recipe(7, 3)})
    # Seat 0: onion, to the pot. Seat 1: tomato, then a plate is not needed to start.
    actions = [
        (L, R),
        (I, I),  # both hold an ingredient
        (R, U),  # seat 0 stands below the pot, facing right
        (U, S),
        (I, S),  # onion in the pot
        (L, S),  # seat 0 leaves
        (S, L),
        (S, U),
        (S, I),  # tomato in the pot
        (S, I),  # started
        (S, I),  # an empty-handed interaction with a cooking pot does nothing
        (S, I),
        (S, I),
    ]
    states, now = play(env_of(), task, actions)
    pots = [describe(at(states, t), task)["pots"]["2,0"] for t in range(len(actions))]
    assert pots[3:] == [
        ["", -1, "empty"],
        ["O", -1, "idle"],
        ["O", -1, "idle"],
        ["O", -1, "idle"],
        ["O", -1, "idle"],
        ["OT", -1, "idle"],
        ["OT", 1, "cooking"],
        ["OT", 2, "cooking"],
        ["OT", 3, "ready"],
        ["OT", 3, "ready"],
    ]
    cook = MULTI_EVENTS.index("cook")
    assert now.info["events"][:, 1, cook].tolist() == [t == 9 for t in range(len(actions))]


def test_emptied_refilled_and_started_in_one_step_counts_one_tick():
    """With four cooks, the tick after a start is 1 even if the pot was cooking before the step."""
    grid = ("XXXXX", "X.1.X", "X2P3X", "X.4.X", "XOSDX")
    task = task_from_grid(grid, num_agents=4, height=5, width=5, recipes=RECIPES)
    env = Overcooked(4, 5, 5, 60, "up", recipes="multi")
    state, _ = env.reset(jax.random.key(0), task)
    pot = 2 * 5 + 2
    state = state.replace(
        facing=jnp.array([D, R, L, U], jnp.int32),
        held=jnp.array([3, 1, 0, 0], jnp.uint8),  # a plate, an onion, nothing, nothing
        pot=state.pot.at[pot].set(contents_of("OO")),
        tick=state.tick.at[pot].set(10),  # ready
    )
    after, now = env.step(jax.random.key(0), state, jnp.full(4, I), task)
    assert describe(after, task)["pots"]["2,2"] == ["O", 1, "cooking"]
    assert describe(after, task)["players"][0][3] == "soup:OO"
    assert now.info["shaped_reward"].tolist() == [5, 3, 0, 0]


@pytest.mark.parametrize(("soup", "pays"), [("OOT", 20), ("OT", 10), ("TTT", -10), ("O", -10)])
def test_serving_pays_by_the_list_and_all_cooks(soup, pays):
    task = task_from_grid(KITCHEN, height=4, width=5)
    for reward, expected in (("shared", [pays, pays]), ("individual", [0, pays])):
        env = env_of(reward=reward)
        state, _ = env.reset(jax.random.key(0), task)
        state = state.replace(
            cell=jnp.array([6, 13]),
            facing=jnp.array([L, R]),
            held=jnp.array([0, 64 + contents_of(soup)], jnp.uint8),
        )
        after, now = env.step(jax.random.key(0), state, jnp.array([S, I]), task)
        assert now.reward.tolist() == expected
        assert after.earned == pays
        assert now.info["score"] == pytest.approx(pays / 20 / env.max_soups(task))
        events = dict(zip(MULTI_EVENTS, now.info["events"][1].tolist(), strict=True))
        assert events["delivery"]
        assert events["delivery_of_size_two"] is (len(soup) == 2)
        assert events["delivery_of_size_three"] is (len(soup) == 3)
        assert events["delivery_of_useless_soup"] is (pays < 0)


@pytest.mark.parametrize(
    ("recipes", "pot", "ingredient", "kinds", "shaped"),
    [
        (RECIPES, "TT", 2, {"catastrophic"}, 0),
        (RECIPES, "TT", 1, {"viable", "optimal"}, 3),
        ({"OT": Recipe(10, 5), "OTT": Recipe(30, 5)}, "O", 1, {"catastrophic"}, 0),
        ({"OO": Recipe(10, 5), "OTT": Recipe(30, 5)}, "O", 1, {"viable"}, 3),
        ({"OOO": Recipe(20, 5)}, "T", 1, {"optimal", "useless"}, 3),
    ],
)
def test_placements_are_judged_by_what_the_soup_can_become(recipes, pot, ingredient, kinds, shaped):
    task = task_from_grid(KITCHEN, height=4, width=5, recipes=recipes)
    env = env_of()
    state, _ = env.reset(jax.random.key(0), task)
    state = state.replace(
        cell=jnp.array([7, 8]),
        held=jnp.array([ingredient, 0], jnp.uint8),
        pot=state.pot.at[2].set(contents_of(pot)),
    )
    _, now = env.step(jax.random.key(0), state, jnp.array([I, S]), task)
    events = dict(zip(MULTI_EVENTS, now.info["events"][0].tolist(), strict=True))
    assert events["placement_in_pot"]
    judged = ("viable", "optimal", "catastrophic", "useless")
    assert {kind for kind in judged if events[f"{kind}_placement"]} == kinds
    assert now.info["shaped_reward"].tolist() == [shaped, 0]


# --- settings ---


def test_without_masks_every_action_is_available():
    task = task_from_grid(KITCHEN, height=4, width=5)
    for masks in (False, True):
        _, now = env_of(action_masks=masks).reset(jax.random.key(0), task)
        assert bool(now.view.avail.all()) is not masks


def test_unknown_kinds_of_recipes_are_refused():
    with pytest.raises(ValueError, match="recipes is 'many'; use one of single, multi"):
        env_of(recipes="many")


def test_generated_kitchens_with_recipes_have_tomatoes_and_soups_can_be_served():
    benchmark = kitchens("1", settings=KitchenSettings(recipes="multi"))
    tile = np.asarray(benchmark.sequence(3, 5, 1).tasks.tile)
    assert benchmark.env.recipes == "multi"
    assert ((tile == 4).sum((1, 2)) >= 1).all()  # tomato piles
    assert ((tile == 3).sum((1, 2)) >= 1).all()  # onion piles
    plain = kitchens("1").sequence(3, 5, 1).tasks.tile
    assert not (np.asarray(plain) == 4).any()


def test_recipes_and_random_pots_do_not_go_together():
    with pytest.raises(ValueError, match="the list says how soups are cooked"):
        KitchenSettings(recipes="multi", random_cook_times=True)

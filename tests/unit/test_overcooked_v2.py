"""OvercookedV2: rules and observations are those of JaxMARL's environment, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.envs.overcooked_v2 import LAYOUTS, OvercookedV2, State, task_from_kitchen
from brigade.envs.overcooked_v2.observe import observe
from brigade.envs.overcooked_v2.tasks import KitchenError, num_ingredients, tiles_of

GAMES, STEPS = 80, 120


def state_of(theirs, width):
    """JaxMARL's state as ours."""
    place, grid = theirs.agents.pos, theirs.grid
    return State(
        cell=(place.y * width + place.x).astype(jnp.int32),
        facing=theirs.agents.dir.astype(jnp.int32),
        held=theirs.agents.inventory.astype(jnp.int32),
        thing=grid[:, :, 1].reshape(-1).astype(jnp.int32),
        timer=grid[:, :, 2].reshape(-1).astype(jnp.int32),
        recipe=theirs.recipe.astype(jnp.int32),
        delivered=jnp.bool_(theirs.new_correct_delivery),
        served=jnp.int32(0),
        time=jnp.asarray(theirs.step, jnp.int32),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "view", "shows_delivery", "starts_by_hand"),
    [("grounded_coord_ring", 2, False, False), ("cramped_room_v2", None, True, True)],
)
def test_every_step_equals_that_of_jaxmarl(layout, view, shows_delivery, starts_by_hand):
    """From random states with things lying around; the next recipe is theirs."""
    from jaxmarl.environments.overcooked_v2.overcooked import OvercookedV2 as Theirs

    theirs = Theirs(
        layout=layout,
        agent_view_size=view,
        random_reset=True,
        start_cooking_interaction=starts_by_hand,
        negative_rewards=True,
        sample_recipe_on_delivery=True,
        indicate_successful_delivery=shows_delivery,
    )
    task = task_from_kitchen(LAYOUTS[layout])
    (height, width), number = task.tile.shape, num_ingredients(np.asarray(task.tile))
    ours = OvercookedV2(
        num_agents=len(task.start),
        height=height,
        width=width,
        ingredients=number,
        view=view,
        shows_delivery=shows_delivery,
        start_cooking_interaction=starts_by_hand,
    )
    seats = [f"agent_{seat}" for seat in range(ours.num_agents)]

    def step(state, key):
        action_key, more_key = jax.random.split(key)
        action = jax.random.randint(action_key, (len(seats),), 0, 6)
        action = jnp.where(jax.random.bernoulli(more_key, 0.3, action.shape), 5, action)
        obs, after, reward, _, info = theirs.step_env(
            more_key, state, dict(zip(seats, action, strict=True))
        )
        found, now = ours.step(more_key, state_of(state, width), action, task)
        expected = state_of(after, width)
        found = found.replace(recipe=expected.recipe, served=expected.served)
        seen = observe(found, task, number, view, shows_delivery)
        pairs = [
            *zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True),
            (now.reward, jnp.stack([reward[seat] for seat in seats])),
            (
                now.info["shaped_reward"],
                jnp.stack([info["shaped_reward"][seat] for seat in seats]),
            ),
            (seen, jnp.stack([obs[seat] for seat in seats])),
        ]
        equal = jnp.stack([jnp.all(one == other) for one, other in pairs])
        return after, (equal, after.new_correct_delivery, reward[seats[0]])

    def play(key):
        return jax.lax.scan(step, theirs.reset(key)[1], jax.random.split(key, STEPS))[1]

    equal, delivered, reward = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), GAMES))
    assert np.asarray(equal).all()
    assert np.asarray(delivered).any()
    assert (np.asarray(reward) < 0).any()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["WWW", "WA.", "WWW"], "row 2, column 3 is floor; the border needs counters"),
        (["WWWW", "0AZR", "WWWW"], "row 2, column 3 is 'Z'"),
        (["WWW0", "W..R", "WWWW"], "has 0 cooks"),
        (["WWWW", "WA.R", "WWWW"], "no ingredients"),
        (["WWW0", "WA.W", "WWWW"], "nothing shows the recipe"),
    ],
)
def test_kitchens_that_break_a_rule_are_refused(rows, message):
    with pytest.raises(KitchenError, match=message):
        task_from_kitchen(rows)


def test_all_layouts_are_kitchens():
    assert len(LAYOUTS) == 26
    for kitchen in LAYOUTS.values():
        assert tiles_of(kitchen.rows).shape == (len(kitchen.rows), len(kitchen.rows[0]))
        assert task_from_kitchen(kitchen).num_recipes > 0

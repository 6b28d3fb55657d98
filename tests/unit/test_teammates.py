"""Heuristic teammates: what they may know, that every parameter matters, and how they are named."""

from dataclasses import fields
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.envs.overcooked import Overcooked
from brigade.envs.overcooked_v2 import OvercookedV2, task_from_kitchen
from brigade.envs.overcooked_v2.teammates import H1, H2, H3, H4, published, sampled
from brigade.envs.overcooked_v2.teammates.instances import PUBLISHED, table
from brigade.envs.overcooked_v2.teammates.policy import FAMILIES, as_arrays, parameters
from brigade.errors import UserError
from brigade.metrics.icrl4aht import distances_between, hamming_distances
from brigade.partners.cast import cast_of
from brigade.testing import check_policy
from brigade.train.crossplay import cross_play
from brigade.train.diversity import actions_in_the_same_states

KINDS = (H1, H2, H3, H4)
# Two rooms that share a button; only the left one has an indicator.
ROWS = ("WX2WWWWBW", "W..WB...0", "R.AL.A..X", "B..W...W1", "W0PWW1PWW")
OPEN = ("WP0WWWBWW", "W.......X", "W..A.A..P", "1.......R", "WWWWLWWWW")
CRAMPED = ("WWPWW", "0A.A1", "W...R", "WBWXW")
GAMES, STEPS = 64, 40


def kitchen(rows=ROWS, **settings):
    task = task_from_kitchen(rows, height=5, width=9, max_recipes=10)
    return OvercookedV2(height=5, width=9, horizon=STEPS, **settings), task


def alone_on(view, seat):
    """The view of one seat, with the whole state."""
    one = jax.tree.map(lambda x: x[seat : seat + 1], view.replace(state=None))
    return one.with_state(view.state, jnp.array([seat]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("released", [False, True])
def test_teammates_keep_the_promises_of_policies(kind, released):
    env, task = kitchen()
    view = env.reset(jax.random.key(0), task)[1].view
    policy = kind.for_game(env)
    check_policy(policy.named("0:as_released") if released else policy, view, env.num_actions)


# --- what they may know ---


def hidden_changed(whole, seat, key):
    """The same game for a cook on its seat, who cannot see what is changed far from it."""
    state, (height, width) = whole.state, whole.tile.shape
    rows, columns = np.divmod(np.arange(height * width), width)
    row, column = state.cell[seat] // width, state.cell[seat] % width
    seen = (jnp.abs(rows - row) <= 2) & (jnp.abs(columns - column) <= 2)
    tile = whole.tile.reshape(-1)
    shown = (seen & ((tile == 4) | ((tile == 5) & (state.timer > 0)))).any()
    thing_key, cell_key = jax.random.split(key)
    thing = jax.random.choice(thing_key, jnp.array([0, 1, 4, 16, 27]), state.thing.shape)
    thing = jnp.where((tile == 1) | (tile == 3), thing, 0)
    far = (tile == 0) & ~seen
    elsewhere = jax.random.uniform(cell_key, far.shape) * far
    other_seen = seen[state.cell[1 - seat]] | ~far.any()
    cell = jnp.where(other_seen, state.cell[1 - seat], elsewhere.argmax())
    held = jnp.where(other_seen, state.held[1 - seat], 1 - state.held[1 - seat] % 2)
    recipe = jnp.where(shown, state.recipe, jnp.array([12, 48, 192])[cell % 3])
    return whole.replace(
        state=state.replace(
            thing=jnp.where(seen, state.thing, thing),
            timer=jnp.where(seen, state.timer, 0),
            cell=state.cell.at[1 - seat].set(cell),
            held=state.held.at[1 - seat].set(held),
            recipe=recipe,
        )
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_teammate_cannot_see_does_not_matter(kind):
    """At the start of episodes with things lying around; the release's versions do look."""
    env, task = kitchen(random_things=True)

    def act(policy, params, view, key):
        one, other, act_key = jax.random.split(key, 3)
        seat = jax.random.randint(one, (), 0, 2)
        own = jax.tree.map(lambda x: x[seat][None], view.replace(state=None))
        changed = hidden_changed(view.state, seat, other)
        return [
            policy.act(
                params, policy.initial_carry((1,)), own.with_state(whole, seat[None]), act_key
            )[0][0]
            for whole in (view.state, changed)
        ]

    def compare(policy, params):
        keys = jax.random.split(jax.random.key(0), 512)
        views = jax.vmap(lambda key: env.reset(key, task)[1].view)(keys)
        before, after = jax.vmap(lambda view, key: act(policy, params, view, key))(views, keys)
        return before == after

    policy, params = kind.for_game(env).member()
    released = kind(env.height, env.width, as_released=True)
    same, same_released = jax.jit(lambda: (compare(policy, params), compare(released, params)))()
    assert np.asarray(same).all()
    assert not np.asarray(same_released).all()


@pytest.mark.parametrize("kind", [H3, H4])
def test_noise_is_new_in_every_episode_but_in_the_release(kind):
    env, task = kitchen(random_starts=False)

    def episode(policy, params, key):
        state, now = env.reset(jax.random.key(0), task)

        def step(games, key):
            state, now, carry = games
            action, carry, _ = policy.act(params, carry, alone_on(now.view, 1), key)
            joint = jnp.stack([jnp.int32(4), action[0]])
            return (*env.step(jax.random.key(1), state, joint, task), carry), action[0]

        start = (state, now, policy.initial_carry((1,)))
        return jax.lax.scan(step, start, jax.random.split(key, STEPS))[1]

    def differ(policy, params):
        keys = jax.random.split(jax.random.key(3), 8)
        played = jax.jit(jax.vmap(lambda key: episode(policy, params, key)))(keys)
        return (np.asarray(played) != np.asarray(played)[0]).any()

    params = parameters(kind.family, "1" if kind is H3 else "default")
    assert not differ(kind(env.height, env.width, as_released=True), params)
    if kind is H3:  # H4 draws only where the other cook is close
        assert differ(kind(env.height, env.width), params)


# --- parameters ---

OTHER_VALUES = {
    "refresh_interval": 3,
    "task_specialization": 1.0,
    "split_mode": 1,
    "shared_margin": 2,
    "behavior_mode": 4,
    "role_mode": 0,
    "handoff_style": 1,
    "w_press_L": 30.0,
    "w_start_cooking": 0.5,
    "dist_weight": 3.0,
    "inertia": 3.0,
}
# What else has to be so for a parameter to matter.
SETTINGS = {
    "cost_sensitivity": {"press_L_when_unknown": 1.0},
    "action_probability": {"behavior_mode": 3},
    "plate_urgency": {"role_mode": 2},
    "handoff_style": {"role_mode": 0},
    "prestage_bias": {"role_mode": 0},
    "start_cook_bias": {"role_mode": 0},
}
# With a dish, a plate or an ingredient in hand H4 has one intent, whatever it weighs.
WITHOUT_CHOICE = {"w_deliver", "w_pickup_cooked", "w_add_ingredient", "w_stage_on_counter"}
EVERY = [
    (family, field.name)
    for family in FAMILIES
    for field in fields(FAMILIES[family].params)
    if field.name not in WITHOUT_CHOICE
]


def play(env, policy, task, params):
    """[games, steps] Actions of two teammates in games with things lying around."""

    def game(key):
        reset_key, play_key = jax.random.split(key)
        state, now = env.reset(reset_key, task)

        def step(games, key):
            state, now, carry = games
            act_key, step_key = jax.random.split(key)
            view = now.view.with_state(now.view.state, jnp.arange(2))
            action, carry, _ = policy.act(params, carry, view, act_key)
            return (*env.step(step_key, state, action, task), carry), action

        start = (state, now, policy.initial_carry((2,)))
        return jax.lax.scan(step, start, jax.random.split(play_key, STEPS))[1]

    return jax.vmap(game)(jax.random.split(jax.random.key(0), GAMES))


@pytest.fixture(scope="module")
def players():
    """A compiled function per family."""
    env, _ = kitchen(random_things=True, start_cooking_interaction=True)
    return {kind.family: jax.jit(partial(play, env, kind.for_game(env))) for kind in KINDS}


@pytest.mark.parametrize(("family", "name"), EVERY)
def test_every_parameter_matters(players, family, name):
    values = dict(
        zip(table(family)["parameters"], table(family)["presets"]["default"], strict=True)
    )
    values |= SETTINGS.get(name, {})
    low = high = values
    if name in OTHER_VALUES:
        high = values | {name: OTHER_VALUES[name]}
    else:
        low, high = values | {name: 0.0}, values | {name: 1.0}
    rows = OPEN if family in ("h2", "h3") else ROWS
    _, task = kitchen(CRAMPED if (family, name) == ("h1", "stubbornness") else rows)
    one, other = (
        np.asarray(players[family](task, as_arrays(family, each))) for each in (low, high)
    )
    assert (one != other).any()


def test_published_instances_are_numbered_and_one_layout_has_its_own():
    assert len(published("h1", "test_time_wide")) == PUBLISHED == 5
    assert published("h1", "test_time_wide")[3]["refresh_interval"] == 1000
    assert published("h1", "cramped_room_down")[3]["refresh_interval"] == 250
    assert published("h4", "cramped_room_down") == published("h4", "coord_ring")


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_follow_from_their_name_and_keep_to_their_split(family):
    assert sampled(family, "test", 3) == sampled(family, "test", 3)
    assert sampled(family, "test", 3) != sampled(family, "test", 4)
    assert sampled(family, "test", 3, seed=1) != sampled(family, "test", 3)
    for name, ranges in table(family)["parameters"].items():
        for split in ("train", "test"):
            drawn = [sampled(family, split, number)[name] for number in range(20)]
            if split in ranges:
                low, high = min(ranges[split]), max(ranges[split])
                assert low - 1e-6 <= min(drawn) <= max(drawn) <= high + 1e-6


def test_the_roles_of_training_and_test_are_disjoint():
    roles = {
        split: {sampled("h3", split, number)["role_mode"] for number in range(30)}
        for split in table("h3")["split"]
    }
    assert roles == {"train": {0, 2}, "test": {1}}


# --- names ---


def test_instances_of_a_family_share_a_group():
    env, _ = kitchen()
    names = ["h1:0", "h4", "h1:high_L_priority", "h1:test-3", "h1:0:as_released"]
    cast = cast_of(names, env)
    assert [group.size for group in cast.groups] == [3, 1, 1]
    assert set(cast.names) == set(names)
    assert float(cast.params[0].idle_prob[0]) == np.float32(0.1)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("h1:9", "h1 has no instance '9'; use 0 to 4"),
        ("h2:0:fast", "'fast' is no way to decide; use as_released"),
        ("random:0", "this partner has no '0'"),
    ],
)
def test_unknown_instances_are_refused(word, message):
    with pytest.raises(UserError, match=message):
        cast_of([word], kitchen()[0])


def test_other_games_are_refused():
    with pytest.raises(UserError, match="partner h1:0: heuristic teammates need OvercookedV2"):
        cast_of(["h1:0"], Overcooked())


# --- diversity, and play as the first policy of a pair ---


def test_teammates_differ_and_play_each_other():
    env, task = kitchen()
    cast = cast_of(["h2:0", "h2:2", "h4:0", "static"], env)
    actions = actions_in_the_same_states(env, task, cast, 4, jax.random.key(0))
    assert actions.shape == (4, STEPS * 16)
    assert (actions[-1] == 4).all()
    distances = hamming_distances(actions)
    assert (np.diag(distances) == 0).all()
    assert distances[0, 1] < distances[0, 2]  # two that mostly stay, and one that works
    names, means = distances_between(distances, ["h2", "h2", "h4", "static"])
    assert names == ("h2", "h4", "static")
    assert means[0, 1] == pytest.approx(distances[:2, 2].mean())
    assert cross_play(env, task, cast, 2, jax.random.key(0)).returns.shape == (4, 4, 2)

"""The settings of a kitchen: each worked by hand, all of them together against the plain twin."""

import dataclasses
from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.kitchens import LETTERS, busy_actions, count_things, kitchens_for
from support.twin import EVENT_NAMES, Kitchen

from brigade.core import TaskSequence
from brigade.envs.overcooked import EVENTS, LAYOUTS, Overcooked, describe, task_from_grid
from brigade.envs.overcooked.conditions import (
    COOK_TIMES,
    POT_SIZES,
    one_of,
    sample_roles,
    sample_slippery,
)
from brigade.envs.overcooked.grid import survey
from brigade.envs.overcooked.observe import in_sight, observe
from brigade.envs.overcooked.render import render
from brigade.envs.overcooked.solve import servable_roles
from brigade.envs.overcooked.things import Item, Role
from brigade.testing import check_environment

STEPS = 800
WINDOW = (2, 1, 0)
ROLE_NAMES = ("any", "chef", "waiter")
FORCED = LAYOUTS["forced_coordination"]


# --- all settings at once, at random, against the twin ---


def conditions(number, grid, num_agents):
    """Every pot size in turn, and something of everything else; short, so that soups get done."""
    rng = Random(number)
    servable = num_agents > 1 and servable_roles(grid, num_agents)
    return {
        "pot_size": 1 + number % 5,
        "cook_time": 10 + number % 3,
        "roles": sample_roles(grid, num_agents, rng) if servable else None,
        "slippery": sample_slippery(grid, num_agents, 0.4, rng),
    }


@pytest.fixture(scope="module", params=[1, 2, 3, 4])
def games(request):
    """Random play with everything on: grids, conditions, actions, then [kitchen, step]."""
    num_agents = request.param
    grids = kitchens_for(num_agents)
    drawn = [conditions(number, grid, num_agents) for number, grid in enumerate(grids)]
    height, width = max(len(g) for g in grids), max(len(g[0]) for g in grids)
    tasks = [
        task_from_grid(grid, num_agents=num_agents, height=height, width=width, **drawn[number])
        for number, grid in enumerate(grids)
    ]
    kitchens = TaskSequence.from_tasks(tasks, [str(n) for n in range(len(grids))], 1)
    env = Overcooked(
        num_agents,
        height,
        width,
        random_starts=True,
        view=WINDOW,
        reward="individual",
        roles=num_agents > 1,
        sticky_actions=0.2,
        slip_chance=0.5,
    )
    rng = np.random.default_rng(num_agents)
    actions = busy_actions(rng, (len(grids), STEPS, num_agents))

    @jax.jit
    @jax.vmap
    def play(task, actions, key):
        start, _ = env.reset(key, task)

        def step(state, inputs):
            action, key = inputs
            state, now = env.step(key, state, action, task)
            return state, (state, now)

        return start, jax.lax.scan(step, start, (actions, jax.random.split(key, STEPS)))[1]

    keys = jax.random.split(jax.random.key(num_agents), len(grids))
    start, (states, steps) = jax.device_get(play(kitchens.tasks, actions, keys))
    return kitchens, grids, drawn, actions, start, states, steps


def at(tree, *index):
    return jax.tree.map(lambda x: x[index], tree)


def twin_of(games, number):
    """The plain kitchen, with cooks where chance let them start."""
    kitchens, grids, drawn, actions, start, _, _ = games
    roles, wet = drawn[number]["roles"], drawn[number]["slippery"]
    twin = Kitchen(
        grids[number],
        actions.shape[-1],
        drawn[number]["pot_size"],
        drawn[number]["cook_time"],
        roles and [ROLE_NAMES[role] for role in roles],
        [(column, row) for row, column in wet],
    )
    for seat, (x, y, facing, _) in enumerate(
        describe(at(start, number), kitchens[number])["players"]
    ):
        twin.place[seat], twin.facing[seat] = (x, y), facing
    return twin


def played(games, twin, number, time):
    """The letters that chance made of the actions, told by what the state shows of them."""
    actions, states = games[3][number, time], at(games[5], number, time)
    sticks = [int(last) != int(a) for last, a in zip(states.last_action, actions, strict=True)]
    slips = ["UDRL"[facing] for facing in states.facing]
    return twin.as_played([LETTERS[a] for a in actions], sticks, slips)


@pytest.mark.slow
def test_a_plain_twin_agrees_on_every_step(games):
    kitchens, grids, _, actions, _, states, steps = games
    num_agents = actions.shape[-1]
    for number in range(len(grids)):
        twin, task = twin_of(games, number), kitchens[number]
        for time in range(STEPS):
            letters = played(games, twin, number, time)
            _, shaped, events = twin.step(letters)
            assert describe(at(states, number, time), task) == twin.describe()
            reward = [20 * ("delivery" in events[seat]) for seat in range(num_agents)]
            assert steps.reward[number, time].tolist() == reward
            got = steps.info["shaped_reward"][number, time].tolist()
            assert got == [shaped[seat] for seat in range(num_agents)]
            for seat in range(num_agents):
                named = {EVENT_NAMES.get(e, e) for e in events[seat]} & set(EVENTS)
                flags = steps.info["events"][number, time, seat]
                assert {n for n, on in zip(EVENTS, flags, strict=True) if on} == named


def test_the_games_show_what_they_are_to_test(games):
    _, _, drawn, actions, _, states, steps = games
    assert (states.last_action != actions).any()
    walks = states.last_action < 4
    assert (walks & (states.facing != states.last_action)).any()  # slipped
    assert steps.reward.sum() > 0
    if actions.shape[-1] > 1:
        assert {role for each in drawn for role in each["roles"] or ()} == {Role.CHEF, Role.WAITER}


def test_things_are_conserved(games):
    _, grids, _, _, _, states, _ = games
    held_now = count_things(states)
    for number in range(len(grids)):
        twin = twin_of(games, number)
        for time in range(STEPS):
            twin.step(played(games, twin, number, time))
            for thing, taken in twin.taken.items():
                gone = sum(1 if thing == "dish" else soup.count(thing) for soup in twin.served)
                assert held_now[thing][number, time] + gone == taken


def test_cooks_stand_on_floor_of_their_own(games):
    kitchens, _, _, _, start, states, _ = games
    num_agents = states.cell.shape[-1]
    for number in range(len(kitchens)):
        floor = np.flatnonzero(np.asarray(kitchens[number].tile).reshape(-1) == 0)
        for cells in (start.cell[number][None], states.cell[number]):
            assert np.isin(cells, floor).all()
            assert {len(set(row)) for row in cells.tolist()} == {num_agents}


def test_what_is_seen_is_the_window_of_the_full_view_tile_by_tile(games):
    kitchens, _, _, _, _, states, steps = games
    for number in range(len(kitchens)):
        task = kitchens[number]
        for time in range(0, STEPS, 97):
            state = at(states, number, time)
            full = np.asarray(observe(state, task, 400))
            expected = masked_tile_by_tile(full, state, WINDOW)
            np.testing.assert_array_equal(steps.view.obs[number, time], expected)


def masked_tile_by_tile(full, state, window):
    """Zero where a cook does not look, worked out with one tile and one heading at a time."""
    forward, sides, behind = window
    seen = np.zeros_like(full)
    seats, height, width, _ = full.shape
    for seat in range(seats):
        y0, x0 = divmod(int(state.cell[seat]), width)
        for y in range(height):
            for x in range(width):
                heading = "UDRL"[int(state.facing[seat])]
                ahead = {"U": y0 - y, "D": y - y0, "R": x - x0, "L": x0 - x}[heading]
                aside = abs(x - x0) if heading in "UD" else abs(y - y0)
                if -behind <= ahead <= forward and aside <= sides:
                    seen[seat, y, x] = full[seat, y, x]
    return seen


# --- view ---

OPEN = ("XXXXXXX", "X.....X", "X.....X", "X..1..X", "X.....X", "X....2X", "XPODSXX")


@pytest.mark.parametrize(
    ("window", "facing", "seen"),
    [
        ((1, 1, 0), "U", {(2, 2), (3, 2), (4, 2), (2, 3), (3, 3), (4, 3)}),
        ((1, 1, 0), "D", {(2, 3), (3, 3), (4, 3), (2, 4), (3, 4), (4, 4)}),
        ((1, 1, 0), "R", {(3, 2), (3, 3), (3, 4), (4, 2), (4, 3), (4, 4)}),
        ((1, 1, 0), "L", {(3, 2), (3, 3), (3, 4), (2, 2), (2, 3), (2, 4)}),
        ((0, 0, 0), "U", {(3, 3)}),
        ((2, 0, 1), "U", {(3, 1), (3, 2), (3, 3), (3, 4)}),
        ((2, 1, 0), "L", {(x, y) for x in (1, 2, 3) for y in (2, 3, 4)}),
        ((3, 2, 1), "D", {(x, y) for x in range(1, 6) for y in range(2, 7)}),
    ],
)
def test_the_window_turns_with_the_cook(window, facing, seen):
    task = task_from_grid(OPEN)
    env = Overcooked(2, 7, 7, view=window, start_facing="up")
    state, _ = env.reset(jax.random.key(0), task)
    state = state.replace(facing=jnp.full(2, "UDRL".index(facing)))
    mask = np.asarray(in_sight(state, task, window))[0].reshape(7, 7)
    assert {(int(x), int(y)) for y, x in np.argwhere(mask)} == seen


def test_windows_have_the_sizes_of_the_paper():
    """Table 6: 2 x 3, 3 x 3; level 3 looks 3 ahead, 2 aside and 1 behind, 5 x 5 with its own."""
    task = task_from_grid(OPEN)
    state, _ = Overcooked(start_facing="up").reset(jax.random.key(0), task)
    for window, tiles in (((1, 1, 0), 2 * 3), ((2, 1, 0), 3 * 3), ((3, 2, 1), 5 * 5)):
        assert int(in_sight(state, task, window)[0].sum()) == tiles


def test_every_channel_is_zero_out_of_sight_even_urgency():
    task = task_from_grid(OPEN)
    env = Overcooked(2, 7, 7, horizon=30, view=(1, 1, 0), start_facing="up")
    _, now = env.reset(jax.random.key(0), task)
    urgency = np.asarray(now.view.obs)[0, ..., -1]
    assert urgency.sum() == 6
    assert now.view.obs.shape == (2, *env.obs_shape)
    assert np.asarray(now.view.obs)[0, 3, 3, 0] == 1  # the own place
    assert np.asarray(now.view.obs)[0, ..., 1].sum() == 0  # the other cook stands elsewhere


# --- reward ---

SERVE = ("XXPXX", "O1.2X", "XSDSX")


def after_one_step(rows, letters, held, facing, **settings):
    """What a joint action brings when seats hold these things and face there."""
    task_settings = settings.pop("task", {})
    task = task_from_grid(rows, num_agents=len(letters), **task_settings)
    env = Overcooked(len(letters), *task.tile.shape, start_facing="up", **settings)
    state, _ = env.reset(jax.random.key(0), task)
    facing = jnp.array(["UDRL".index(letter) for letter in facing])
    state = state.replace(held=jnp.array(held, jnp.uint8), facing=facing)
    action = jnp.array([LETTERS.index(letter) for letter in letters])
    return env.step(jax.random.key(0), state, action, task)


@pytest.mark.parametrize(
    ("kind", "reward"), [("shared", [20, 20]), ("individual", [0, 20]), ("sparse", [20, 20])]
)
def test_who_is_paid_for_a_soup(kind, reward):
    _, now = after_one_step(SERVE, "SI", [0, Item.SOUP + 3], "UD", reward=kind)
    assert now.reward.tolist() == reward
    assert now.view.prev_reward.tolist() == reward
    assert float(now.info["score"]) > 0


@pytest.mark.parametrize(
    ("kind", "shaped"), [("shared", [3, 0]), ("individual", [3, 0]), ("sparse", [0, 0])]
)
def test_who_earns_the_shaping(kind, shaped):
    rows = ("XPXXX", "O1.2X", "XSDSX")
    _, now = after_one_step(rows, "IS", [1, 0], "UU", reward=kind)
    assert now.info["shaped_reward"].tolist() == shaped
    assert bool(now.info["events"][0, EVENTS.index("placement_in_pot")])


# --- roles ---

PILES = ("XXOXX", "P.1.S", "X.2.X", "XTDXX")


@pytest.mark.parametrize(
    ("role", "rows", "facing", "takes"),
    [
        (Role.CHEF, PILES, "U", 1),  # onions
        (Role.WAITER, PILES, "U", 0),
        (Role.ANY, PILES, "U", 1),
        (Role.CHEF, ("XXTXX", "P.1.S", "X.2.X", "XODXX"), "U", 2),  # tomatoes
        (Role.WAITER, ("XXTXX", "P.1.S", "X.2.X", "XODXX"), "U", 0),
        (Role.CHEF, ("XXDXX", "P.1.S", "X.2.X", "XOXXX"), "U", 0),  # plates
        (Role.WAITER, ("XXDXX", "P.1.S", "X.2.X", "XOXXX"), "U", 3),
    ],
)
def test_what_roles_take_from_piles(role, rows, facing, takes):
    other = Role.CHEF if role == Role.WAITER else Role.WAITER
    state, now = after_one_step(
        rows, "IS", [0, 0], facing + "U", roles=True, task={"roles": (role, other)}
    )
    assert state.held.tolist() == [takes, 0]
    idle = bool(now.info["events"][0, EVENTS.index("idle_interact_empty")])
    assert idle == (takes == 0)


@pytest.mark.parametrize(
    ("role", "thing", "takes"),
    [
        (Role.CHEF, 1, True),
        (Role.CHEF, 2, True),
        (Role.CHEF, 3, False),
        (Role.CHEF, Item.SOUP + 3, True),  # a plated soup is no empty plate
        (Role.WAITER, 1, False),
        (Role.WAITER, 2, False),
        (Role.WAITER, 3, True),
        (Role.WAITER, Item.SOUP + 3, True),
        (Role.ANY, 3, True),
    ],
)
def test_what_roles_take_from_counters(role, thing, takes):
    rows = ("XXXXX", "P.1.S", "X.2.X", "XODXX")
    task = task_from_grid(rows, roles=(role, Role.WAITER))
    env = Overcooked(2, 4, 5, start_facing="up", roles=True)
    state, _ = env.reset(jax.random.key(0), task)
    state = state.replace(counter=state.counter.at[2].set(thing))
    state, now = env.step(jax.random.key(0), state, jnp.array([5, 4]), task)
    assert int(state.held[0]) == (thing if takes else 0)
    assert int(state.counter[2]) == (0 if takes else thing)
    assert bool(now.info["events"][0, EVENTS.index("idle_interact_counter")]) == (not takes)


def test_roles_of_a_task_rest_while_the_setting_is_off():
    state, _ = after_one_step(PILES, "IS", [0, 0], "UU", task={"roles": (Role.WAITER, Role.CHEF)})
    assert state.held.tolist() == [1, 0]


def test_roles_are_drawn_with_at_least_one_of_each_and_differ_from_task_to_task():
    grid = ("XXPXX", "O1.2X", "X3.4X", "XDXSX")
    for num_agents in (2, 3, 4):
        drawn = {sample_roles(grid, num_agents, Random(n)) for n in range(200)}
        assert len(drawn) == 2**num_agents - 2
        assert {frozenset(roles) for roles in drawn} == {frozenset((Role.CHEF, Role.WAITER))}


def test_roles_that_could_never_serve_are_not_drawn():
    # Onions and plates on the left, pots and serving on the right: neither role gets both over.
    with pytest.raises(ValueError, match="no assignment of chefs and waiters to 2 cooks"):
        sample_roles(FORCED, 2, Random(0))
    # Onions left, plates and serving right, the pot between: seat 1 must be the chef.
    between = ("XXXXX", "O1P2S", "XXXDX", "XXXXX")
    assert {sample_roles(between, 2, Random(n)) for n in range(20)} == {(Role.CHEF, Role.WAITER)}


# --- chance ---


def long_walk(env, task, actions, seed=0):
    """Every state of one game, from its start on."""
    start, _ = env.reset(jax.random.key(seed), task)

    def step(state, inputs):
        action, key = inputs
        state, now = env.step(key, state, action, task)
        return state, (state, now)

    keys = jax.random.split(jax.random.key(seed + 1), len(actions))
    return start, jax.lax.scan(step, start, (jnp.asarray(actions), keys))[1]


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_actions_stick_as_often_as_they_should(probability):
    task = task_from_grid(OPEN)
    env = Overcooked(horizon=4000, sticky_actions=probability)
    actions = np.tile([[4, 5], [5, 4]], (2000, 1))  # never twice the same
    _, (states, now) = jax.jit(lambda: long_walk(env, task, actions))()
    np.testing.assert_array_equal(now.view.prev_action, actions)  # what was asked for
    if probability == 0:
        assert states.last_action is None
        return
    last = np.asarray(states.last_action)
    assert (last[0] == actions[0]).all()  # nothing to repeat yet
    repeated = last[1:] == last[:-1]
    other = last[1:] != actions[1:]
    assert (repeated | ~other).all()  # either the action, or the one before
    # After a repetition the last action is the one asked for next, so the share s that is not as
    # asked has s = p * (1 - s).
    assert other.mean() == pytest.approx(probability / (1 + probability), abs=0.03)


def test_a_repeated_action_is_played():
    task = task_from_grid(OPEN)
    env = Overcooked(sticky_actions=1.0, start_facing="up")
    _, (states, now) = long_walk(env, task, [[3, 4], [2, 4], [2, 4]])
    assert [int(cell) % 7 for cell in states.cell[:, 0]] == [2, 1, 1]  # left, left, a wall
    assert now.view.prev_action[:, 0].tolist() == [3, 2, 2]


@pytest.mark.slow
def test_cooks_slip_where_it_is_slippery_and_only_while_they_walk():
    wet = [(3, 3)]
    task = task_from_grid(OPEN, slippery=wet)
    assert np.argwhere(np.asarray(task.slippery)).tolist() == [[3, 3]]
    env = Overcooked(slip_chance=0.6, start_facing="up")
    state, _ = env.reset(jax.random.key(0), task)
    keys = jax.random.split(jax.random.key(1), 4000)

    def ways(action):
        after, _ = jax.vmap(lambda key: env.step(key, state, jnp.array(action), task))(keys)
        return np.asarray(after.facing)

    up = ways([0, 0])
    share = np.bincount(up[:, 0], minlength=4) / len(keys)
    np.testing.assert_allclose(share, [0.4 + 0.15, 0.15, 0.15, 0.15], atol=0.03)
    assert set(up[:, 1].tolist()) == {0}  # seat 2 stands on dry floor
    for action in (4, 5):
        assert set(ways([action, action])[:, 0].tolist()) == {0}  # nobody turned


def test_a_slip_takes_the_cook_along():
    task = task_from_grid(OPEN, slippery=[(3, 3)])
    env = Overcooked(slip_chance=1.0, start_facing="up")
    state, _ = env.reset(jax.random.key(0), task)
    step = {0: -7, 1: 7, 2: 1, 3: -1}
    for seed in range(8):
        after, _ = env.step(jax.random.key(seed), state, jnp.array([0, 4]), task)
        assert int(after.cell[0]) == 3 * 7 + 3 + step[int(after.facing[0])]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_of_the_floor_is_slippery(share):
    cells = sample_slippery(OPEN, 2, share, Random(0))
    assert len(cells) == len(set(cells)) == round(share * 25)
    assert all(OPEN[row][column] in ".12" for row, column in cells)
    assert sample_slippery(OPEN, 2, 0.3, Random(0)) != sample_slippery(OPEN, 2, 0.3, Random(1))


def test_without_the_settings_a_game_does_not_depend_on_the_key():
    task = task_from_grid(OPEN, slippery=[(3, 3)])
    env = Overcooked(start_facing="up")
    actions = busy_actions(np.random.default_rng(0), (50, 2))
    games = [long_walk(env, task, actions, seed)[1][0] for seed in (0, 5)]
    for one, other in zip(*map(jax.tree.leaves, games), strict=True):
        np.testing.assert_array_equal(one, other)


# --- pots ---


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_a_pot_takes_its_size_and_then_cooks_for_its_time(size):
    rows = ("XXPXX", "O.1.T", "X.2.X", "XDXSX")
    task = task_from_grid(rows, pot_size=size, cook_time=12)
    env = Overcooked(2, 4, 5, start_facing="up", horizon=100)
    state, _ = env.reset(jax.random.key(0), task)
    for number in range(size + 1):
        assert describe(state, task)["pots"]["2,0"] == (
            [number, -1] if number < size else [size, 1]
        )
        state = state.replace(held=jnp.array([1 + number % 2, 0], jnp.uint8))
        state, _ = env.step(jax.random.key(0), state, jnp.array([5, 4]), task)
    assert int(state.held[0]) == 1 + size % 2  # one too many stays in the hand
    assert describe(state, task)["pots"]["2,0"] == [size, 2]
    state = state.replace(held=jnp.array([3, 0], jnp.uint8))
    for tick in range(3, 13):
        state, _ = env.step(jax.random.key(0), state, jnp.array([5, 4]), task)
        assert describe(state, task)["pots"]["2,0"] == [size, tick]
    state, _ = env.step(jax.random.key(0), state, jnp.array([5, 4]), task)
    onions, tomatoes = (size + 1) // 2, size // 2
    assert int(state.held[0]) == Item.SOUP + onions + 8 * tomatoes
    seen = np.asarray(observe(state, task, 400))[0, 1, 2]
    assert (int(seen[10 + 8]), int(seen[10 + 9])) == (onions, tomatoes)


def test_five_of_a_kind_fit_into_a_byte():
    rows = ("XXPXX", "O.1.T", "X.2.X", "XDXSX")
    task = task_from_grid(rows, pot_size=5)
    for contents in (5, 5 * 8):
        env = Overcooked(2, 4, 5, start_facing="up")
        state, _ = env.reset(jax.random.key(0), task)
        state = state.replace(
            held=jnp.array([3, 0], jnp.uint8),
            pot=state.pot.at[2].set(contents),
            tick=state.tick.at[2].set(20),
        )
        state, _ = env.step(jax.random.key(0), state, jnp.array([5, 4]), task)
        assert int(state.held[0]) == Item.SOUP + contents
        assert render(state, task).shape == (4 * 32, 5 * 32, 3)


def test_pots_and_times_are_drawn_from_the_whole_range():
    assert {one_of(POT_SIZES, Random(n)) for n in range(200)} == set(range(1, 6))
    assert {one_of(COOK_TIMES, Random(n)) for n in range(1000)} == set(range(10, 31))


# --- starts ---


def test_starts_are_uniform_over_different_cells_of_the_room():
    task = task_from_grid(LAYOUTS["cramped_room"])  # six floor cells
    env = Overcooked(2, 4, 5, random_starts=True)
    keys = jax.random.split(jax.random.key(0), 3000)
    state, now = jax.jit(jax.vmap(lambda key: env.reset(key, task)))(keys)
    pairs, counts = np.unique(np.asarray(state.cell), axis=0, return_counts=True)
    assert len(pairs) == 6 * 5
    assert counts.min() > 60  # 100 expected
    assert counts.max() < 145
    assert set(np.asarray(state.facing).ravel().tolist()) == {0, 1, 2, 3}
    np.testing.assert_array_equal(
        np.argmax(np.asarray(now.view.obs)[..., 0].reshape(3000, 2, -1), -1), state.cell
    )


def test_everyone_starts_in_the_room_it_belongs_to():
    task = task_from_grid(FORCED, height=6, width=7)
    env = Overcooked(2, 6, 7, random_starts=True)
    keys = jax.random.split(jax.random.key(0), 300)
    cells = np.asarray(jax.vmap(lambda key: env.reset(key, task)[0].cell)(keys))
    # Seat 1 is on the right, column 3; seat 2 on the left, column 1; rows 1 to 3.
    assert set(cells[:, 0].tolist()) == {7 * row + 3 for row in (1, 2, 3)}
    assert set(cells[:, 1].tolist()) == {7 * row + 1 for row in (1, 2, 3)}


def test_regions_number_the_rooms_of_the_survey():
    grid = ("XXXXXXX", "X.1X2.X", "XXXX..X", "X.XXXXX", "XPODSXX")
    region = np.asarray(task_from_grid(grid, height=6, width=8).region)
    assert region.shape == (6, 8)
    assert region[1].tolist() == [0, 1, 1, 0, 2, 2, 0, 0]
    assert region[3].max() == 0  # floor where nobody starts
    assert (region > 0).sum() == survey(grid, 2).reachable.bit_count()


# --- the whole environment ---

SETTINGS = {
    "view": {"view": (1, 1, 0)},
    "individual": {"reward": "individual"},
    "sparse": {"reward": "sparse"},
    "roles": {"roles": True},
    "sticky": {"sticky_actions": 0.3},
    "slippery": {"slip_chance": 0.5},
    "starts": {"random_starts": True},
    "all": {
        "view": (2, 1, 0),
        "reward": "individual",
        "roles": True,
        "sticky_actions": 0.3,
        "slip_chance": 0.5,
        "random_starts": True,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_the_promises_of_an_environment_hold(name):
    env, sequence = Overcooked.example()
    check_environment(dataclasses.replace(env, **SETTINGS[name]), sequence)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"view": "half"}, "view is 'half'; use 'full' or three numbers"),
        ({"view": (1, 1)}, r"view is \(1, 1\); use 'full' or three numbers"),
        ({"view": (1, -1, 0)}, "view is .* such as"),
        ({"view": (1.5, 1, 0)}, "view is"),
        ({"reward": "mine"}, "reward is 'mine'; use one of shared, individual, sparse"),
        ({"roles": True, "num_agents": 1}, "roles need a chef and a waiter; give num_agents 2"),
        ({"sticky_actions": 1.5}, "sticky_actions is 1.5; it must be from 0 to 1"),
        ({"sticky_actions": float("nan")}, "sticky_actions is nan"),
        ({"slip_chance": -0.1}, "slip_chance is -0.1; it must be from 0 to 1"),
    ],
)
def test_impossible_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message) as caught:
        Overcooked(**wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pot_size": 0}, "pot_size is 0; it must be from 1 to 5"),
        ({"pot_size": 6}, "pot_size is 6; it must be from 1 to 5"),
        ({"cook_time": 0}, "cook_time is 0; it must be from 1 to 255"),
        ({"cook_time": 256}, "cook_time is 256"),
        ({"roles": (1,)}, r"roles is \(1,\); give 2 roles: 0 \(any\), 1 \(chef\) or 2 \(waiter\)"),
        ({"roles": (1, 3)}, "roles is"),
        ({"slippery": [(0, 0)]}, "slippery: row 1, column 1 is not floor"),
        ({"slippery": [(1, 9)]}, "slippery: row 2, column 10 is not floor"),
    ],
)
def test_impossible_conditions_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message) as caught:
        task_from_grid(OPEN, **wrong)
    assert "\n" not in str(caught.value)


def test_a_seat_with_a_window_is_told_what_is_in_it():
    env = Overcooked(2, 5, 5, horizon=20, view=(1, 1, 0), start_facing="up")
    task = task_from_grid(LAYOUTS["coordination_ring"], num_agents=2)
    state, _ = env.reset(jax.random.key(0), task)
    whole, seen = env.describe(state, task), env.describe(state, task, 0)
    assert whole["tiles"][0] == "XXXPX"
    assert all(player is not None for player in whole["players"])
    x, y = whole["players"][0][:2]
    window = {(x + right, y + down) for right in (-1, 0, 1) for down in (-1, 0)}
    for row, letters in enumerate(seen["tiles"]):
        for column, letter in enumerate(letters):
            expected = whole["tiles"][row][column] if (column, row) in window else "?"
            assert letter == expected
    assert seen["players"][0] == whole["players"][0]
    assert (seen["players"][1] is None) == (tuple(whole["players"][1][:2]) not in window)
    assert env.action_names[env.stay_action] == "stay"

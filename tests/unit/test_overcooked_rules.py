"""The rules against a plain twin, against their own promises, and situation by situation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kitchens import LETTERS, busy_actions, count_things, kitchens_for
from support.twin import EVENT_NAMES, Kitchen

from brigade.envs.overcooked import EVENTS, Overcooked, describe, sequence_from_grids
from brigade.envs.overcooked.rules import move
from brigade.envs.overcooked.tasks import task_from_grid

STEPS = 800


@pytest.fixture(scope="module", params=[1, 2, 3, 4])
def games(request):
    """Random play in several kitchens: grids, actions, states and outcomes [kitchen, step]."""
    num_agents = request.param
    grids = kitchens_for(num_agents)
    kitchens = sequence_from_grids(
        grids, [str(n) for n in range(len(grids))], steps=1, num_agents=num_agents
    )
    height, width = kitchens.tasks.tile.shape[1:]
    env = Overcooked(num_agents, height, width, start_facing="up")
    rng = np.random.default_rng(num_agents)
    actions = busy_actions(rng, (len(grids), STEPS, num_agents))

    @jax.jit
    @jax.vmap
    def play(task, actions):
        start, _ = env.reset(jax.random.key(0), task)

        def step(state, action):
            state, now = env.step(jax.random.key(0), state, action, task)
            return state, (state, now)

        return jax.lax.scan(step, start, actions)[1]

    states, steps = jax.device_get(play(kitchens.tasks, actions))
    return kitchens, grids, actions, states, steps


def at(tree, *index):
    return jax.tree.map(lambda x: x[index], tree)


def test_a_plain_twin_agrees_on_every_step(games):
    kitchens, grids, actions, states, steps = games
    num_agents = actions.shape[-1]
    for number, grid in enumerate(grids):
        twin, task = Kitchen(grid, num_agents), kitchens[number]
        for time in range(STEPS):
            letters = [LETTERS[a] for a in actions[number, time]]
            delivered, shaped, events = twin.step(letters)
            assert describe(at(states, number, time), task) == twin.describe()
            assert steps.reward[number, time].tolist() == [20 * delivered] * num_agents
            got = steps.info["shaped_reward"][number, time].tolist()
            assert got == [shaped[seat] for seat in range(num_agents)]
            for seat in range(num_agents):
                named = {EVENT_NAMES.get(e, e) for e in events[seat]} & set(EVENTS)
                flags = steps.info["events"][number, time, seat]
                assert {n for n, on in zip(EVENTS, flags, strict=True) if on} == named


def test_no_two_cooks_share_a_cell(games):
    cells = games[3].cell
    num_agents = cells.shape[-1]
    distinct = [len(set(row)) for row in cells.reshape(-1, num_agents).tolist()]
    assert set(distinct) == {num_agents}


def test_cooks_stand_on_floor(games):
    kitchens, _, _, states, _ = games
    tiles = np.asarray(kitchens.tasks.tile).reshape(len(kitchens), 1, -1)
    assert (
        np.take_along_axis(np.broadcast_to(tiles, states.counter.shape), states.cell, -1) == 0
    ).all()


def test_things_are_conserved(games):
    """What the kitchen holds plus what was served is what was taken from the piles."""
    _, grids, actions, states, _ = games
    num_agents = actions.shape[-1]
    held_now = count_things(states)
    for number, grid in enumerate(grids):
        twin = Kitchen(grid, num_agents)
        for time in range(STEPS):
            twin.step([LETTERS[a] for a in actions[number, time]])
            for thing, taken in twin.taken.items():
                gone = sum(1 if thing == "dish" else soup.count(thing) for soup in twin.served)
                assert held_now[thing][number, time] + gone == taken


def play_letters(rows, letters, num_agents=2, state=None):
    """The description after each joint action, e.g. ["UR", "II"]."""
    task = task_from_grid(rows, num_agents=num_agents)
    env = Overcooked(num_agents, *task.tile.shape, start_facing="up")
    if state is None:
        state, _ = env.reset(jax.random.key(0), task)
    seen = []
    for joint in letters:
        action = jnp.array([LETTERS.index(letter) for letter in joint])
        state, now = env.step(jax.random.key(0), state, action, task)
        seen.append((describe(state, task), now))
    return seen


def places(rows, joint, num_agents):
    """Where everyone stands after one joint action."""
    task = task_from_grid(rows, num_agents=num_agents)
    action = jnp.array([LETTERS.index(letter) for letter in joint])
    cell, _ = move(task.start, jnp.zeros(num_agents, jnp.int32), action, task)
    width = task.tile.shape[1]
    return [(int(c) % width, int(c) // width) for c in cell]


HALL = ("XXXXXXX", "X12...X", "X34...X", "XPODSXX")


def test_a_swap_leaves_both_cooks_in_place():
    assert places(HALL, "RL", 2) == [(1, 1), (2, 1)]


def test_a_cook_follows_one_who_goes():
    assert places(HALL, "RR", 2) == [(2, 1), (3, 1)]


def test_a_ring_of_four_stays():
    # 1 -> 2's place, 2 -> 4's, 4 -> 3's, 3 -> 1's
    assert places(HALL, "RDUL", 4) == [(1, 1), (2, 1), (1, 2), (2, 2)]


def test_two_who_want_one_cell_stay_and_block_those_behind():
    rows = ("XXXXXXX", "X12.3.X", "X..4..X", "XPODSXX")
    # 2 and 3 both want (3, 1); 1 would follow 2; 4 moves away freely.
    assert places(rows, "RRLR", 4) == [(1, 1), (2, 1), (4, 1), (4, 2)]


def test_a_file_of_four_moves_as_one():
    rows = ("XXXXXXX", "X1234.X", "XPODSXX")
    assert places(rows, "RRRR", 4) == [(2, 1), (3, 1), (4, 1), (5, 1)]


def test_a_file_behind_a_cook_who_stays_stays():
    rows = ("XXXXXXX", "X1234.X", "XPODSXX")
    assert places(rows, "RRRS", 4) == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_a_contested_cell_that_is_being_left_goes_to_nobody():
    rows = ("XXXXXXX", "X.3...X", "X124..X", "XPODSXX")
    # 2 and 4 go right one behind the other; 1 and 3 both want the cell 2 leaves.
    assert places(rows, "RRDR", 4) == [(1, 2), (3, 2), (2, 1), (4, 2)]


def test_the_second_seat_meets_what_the_first_left():
    rows = ("XXXXX", "X1X2X", "XPODX", "XXSXX")
    task = task_from_grid(rows)
    env = Overcooked(2, *task.tile.shape, start_facing="up")
    state, _ = env.reset(jax.random.key(0), task)
    state = state.replace(facing=jnp.array([2, 3]), held=jnp.array([1, 0], jnp.uint8))
    (seen, _), *_ = play_letters(rows, ["II"], state=state)
    assert [player[3] for player in seen["players"]] == [None, "onion"]
    assert seen["counters"] == []


def test_an_interaction_uses_the_facing_before_the_step_and_does_not_move():
    rows = ("XXOXX", "X.1.X", "X.2.X", "XPDSX")
    (seen, _), *_ = play_letters(rows, ["IS"])
    assert seen["players"][0] == [2, 1, "U", "onion"]


def soup_state(rows, held, facing, tick=0, contents=3, num_agents=2):
    task = task_from_grid(rows, num_agents=num_agents)
    env = Overcooked(num_agents, *task.tile.shape, start_facing="up")
    state, _ = env.reset(jax.random.key(0), task)
    is_pot = np.asarray(task.tile).reshape(-1) == 2
    return state.replace(
        held=jnp.array(held, jnp.uint8),
        facing=jnp.array(facing),
        pot=jnp.asarray(is_pot * contents, jnp.uint8),
        tick=jnp.asarray(is_pot * tick, jnp.uint8),
    )


COOK = ("XXPXX", "O1.2O", "XDXSX")


def test_the_third_onion_starts_the_fire_in_the_same_step():
    rows = ("XXPXX", "O.1.O", "X.2.X", "XDXSX")
    state = soup_state(rows, [1, 0], [0, 0], contents=2)
    seen = play_letters(rows, ["IS"] + ["SS"] * 20, state=state)
    assert [s["pots"]["2,0"] for s, _ in seen] == [[3, min(t, 20)] for t in range(1, 22)]


def test_a_soup_one_step_short_cannot_be_taken():
    rows = ("XXPXX", "O.1.O", "X.2.X", "XDXSX")
    early = play_letters(rows, ["IS"], state=soup_state(rows, [3, 0], [0, 0], tick=19))[0]
    assert early[0]["players"][0][3] == "dish"
    ready = play_letters(rows, ["IS"], state=soup_state(rows, [3, 0], [0, 0], tick=20))[0]
    assert ready[0]["players"][0][3] == "soup"
    assert ready[0]["pots"]["2,0"] == [0, -1]
    assert ready[1].info["shaped_reward"].tolist() == [5, 0]


def test_two_deliveries_in_one_step_pay_twice_to_everyone():
    rows = ("XXPXX", "O1.2X", "XSDSX")  # a cycle takes 3 * 1 + 0 + 1 + 1 + 3 + 20 + 18 = 46 steps
    state = soup_state(rows, [64 + 3, 64 + 3], [1, 1], contents=0)
    _, now = play_letters(rows, ["II"], state=state)[0]
    assert now.reward.tolist() == [40, 40]
    assert float(now.info["score"]) == pytest.approx(2 / (400 // 46))


@pytest.mark.parametrize(
    ("pots", "held", "lying", "useful"),
    [
        (0, [0, 0], False, False),  # no pot in use
        (1, [0, 0], False, True),
        (1, [0, 3], False, False),  # the other cook has a plate already
        (2, [0, 3], False, True),
        (1, [0, 0], True, False),  # a plate waits on a counter
    ],
)
def test_a_plate_is_useful_while_a_pot_waits_for_one(pots, held, lying, useful):
    rows = ("XDXPPX", "X1..2X", "XXXOSX")
    task = task_from_grid(rows)
    state = soup_state(rows, held, [0, 0], contents=0)
    cells = np.flatnonzero(np.asarray(task.tile).reshape(-1) == 2)[:pots]
    pot = np.zeros(task.tile.size, np.uint8)
    pot[cells] = 1
    counter = np.zeros(task.tile.size, np.uint8)
    counter[2] = 3 if lying else 0
    state = state.replace(pot=jnp.asarray(pot), counter=jnp.asarray(counter))
    _, now = play_letters(rows, ["IS"], state=state)[0]
    assert now.info["shaped_reward"].tolist() == [3.0 if useful else 0.0, 0.0]


def test_pots_count_as_they_stood_before_the_step():
    """Seat 1 fills the first pot and seat 2 takes a plate in the same step: not yet useful."""
    rows = ("XPXXDX", "X1..2X", "XXXOSX")
    state = soup_state(rows, [1, 0], [0, 0], contents=0)
    _, now = play_letters(rows, ["II"], state=state)[0]
    assert now.info["shaped_reward"].tolist() == [3.0, 0.0]


def test_plates_count_at_the_moment_of_the_pickup():
    """One pot in use: of two plates taken in one step only the first is useful."""
    rows = ("XDXPDX", "X1..2X", "XXXOSX")
    state = soup_state(rows, [0, 0], [0, 0], contents=1)
    _, now = play_letters(rows, ["II"], state=state)[0]
    assert now.info["shaped_reward"].tolist() == [3.0, 0.0]


def test_tomatoes_and_onions_share_a_pot():
    rows = ("XXPXX", "O.1.T", "X.2.X", "XDXSX")
    state = soup_state(rows, [2, 0], [0, 0], contents=2)
    seen, now = play_letters(rows, ["IS"], state=state)[0]
    assert seen["pots"]["2,0"] == [3, 1]
    assert now.info["shaped_reward"].tolist() == [3, 0]


def test_the_episode_is_cut_at_the_horizon_and_never_over():
    task = task_from_grid(COOK)
    env = Overcooked(2, *task.tile.shape, horizon=3)
    state, now = env.reset(jax.random.key(0), task)
    cut = []
    for _ in range(3):
        state, now = env.step(jax.random.key(0), state, jnp.array([4, 4]), task)
        cut.append((bool(now.terminated), bool(now.truncated)))
    assert cut == [(False, False), (False, False), (False, True)]


def test_random_facing_draws_all_directions():
    task = task_from_grid(COOK)
    env = Overcooked(2, *task.tile.shape)
    keys = jax.random.split(jax.random.key(0), 64)
    facing = jax.vmap(lambda key: env.reset(key, task)[0].facing)(keys)
    assert set(np.asarray(facing).ravel().tolist()) == {0, 1, 2, 3}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), st.integers(0, 10_000))
def test_moving_never_puts_two_cooks_on_one_cell(action, seed):
    rng = np.random.default_rng(seed)
    task = task_from_grid(HALL, num_agents=4)
    floor = np.flatnonzero(np.asarray(task.tile).reshape(-1) == 0)
    cell = jnp.asarray(rng.choice(floor, 4, replace=False), jnp.int32)
    after, _ = move(cell, jnp.zeros(4, jnp.int32), jnp.array(action), task)
    assert len(set(after.tolist())) == 4

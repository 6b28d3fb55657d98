"""Observations, channel by channel, and against JaxMARL's Overcooked."""

import gzip
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.envs.overcooked.observe import SHARED_CHANNELS, num_channels, observe
from brigade.envs.overcooked.rules import start
from brigade.envs.overcooked.things import Item

CLASSIC = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit",
)


def jaxmarl_layout(task):
    """Our kitchen in JaxMARL's words; its walls are everything one cannot walk on."""
    from flax.core import FrozenDict

    tile = np.asarray(task.tile)
    cells = {name: jnp.array(np.flatnonzero(tile == number)) for number, name in NAMES.items()}
    return FrozenDict(
        height=tile.shape[0],
        width=tile.shape[1],
        wall_idx=jnp.array(np.flatnonzero(tile != 0)),
        agent_idx=task.start,
        **cells,
    )


NAMES = {2: "pot_idx", 3: "onion_pile_idx", 5: "plate_pile_idx", 6: "goal_idx"}


def recorded_and_random_actions(name):
    """The original's game in this kitchen, with its deliveries, then a thousand random steps."""
    path = Path(__file__).parents[1] / "golden" / "data" / "overcooked_traces.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        trace = next(t for t in map(json.loads, lines) if t["name"].startswith(name))
    recorded = [["UDRLSI".index(letter) for letter in step["actions"]] for step in trace["steps"]]
    rng = np.random.default_rng(3)
    wild = rng.choice(6, p=[0.16, 0.16, 0.16, 0.16, 0.02, 0.34], size=(1000, 2))
    return np.concatenate([recorded, wild])


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIC)
def test_observations_and_rewards_equal_jaxmarls_step_by_step(name):
    from jaxmarl.environments.overcooked import Overcooked as Peer

    actions = recorded_and_random_actions(name)
    task, horizon = task_from_grid(LAYOUTS[name]), len(actions) + 1
    env = Overcooked(height=task.tile.shape[0], width=task.tile.shape[1], horizon=horizon)
    with pytest.warns(DeprecationWarning, match="OvercookedV2"):
        peer = Peer(layout=jaxmarl_layout(task), max_steps=horizon)
    key = jax.random.key(5)

    @jax.jit
    def play():
        _, peer_state = peer.reset(key)
        up = jnp.zeros(2, jnp.int32)
        facing = jnp.array([[0, -1]] * 2).astype(peer_state.agent_dir.dtype)
        peer_state = peer_state.replace(agent_dir_idx=up, agent_dir=facing)
        state = start(task, up)

        def step(states, action):
            state, peer_state = states
            state, now = env.step(key, state, action, task)
            acts = {"agent_0": action[0], "agent_1": action[1]}
            obs, peer_state, reward, _, _ = peer.step_env(key, peer_state, acts)
            ours = (now.view.obs[0], now.view.obs[1], now.reward[0])
            theirs = (obs["agent_0"], obs["agent_1"], reward["agent_0"])
            return (state, peer_state), (ours, theirs)

        first = (observe(state, task, horizon)[0], peer.get_obs(peer_state)["agent_0"])
        return first, jax.lax.scan(step, (state, peer_state), actions)[1]

    first, (ours, theirs) = jax.device_get(play())
    np.testing.assert_array_equal(*first)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert ours[2].sum() > 0  # soups were served
    assert ours[0][-1, ..., -1].min() == 1  # and the end was near


ROWS = ("XXPPXX", "O1.2.T", "X3..4X", "XDXXSX")


def kitchen(num_agents=4, **changes):
    task = task_from_grid(ROWS, num_agents=num_agents)
    state = start(task, jnp.arange(num_agents, dtype=jnp.int32))
    return state.replace(**changes), task


def channel(obs, name, num_agents=4, seat=0):
    return np.asarray(obs)[seat, ..., 2 + 4 * num_agents + SHARED_CHANNELS.index(name)]


def board(**cells):
    plane = np.zeros(24, np.uint8)
    for cell, value in cells.items():
        plane[int(cell[1:])] = value
    return jnp.asarray(plane)


@pytest.mark.parametrize("num_agents", [1, 2, 3, 4])
def test_there_are_18_plus_4n_channels_of_one_byte(num_agents):
    state, task = kitchen(num_agents)
    obs = observe(state, task, 400)
    assert obs.shape == (num_agents, 4, 6, 18 + 4 * num_agents)
    assert obs.shape[-1] == num_channels(num_agents)
    assert obs.dtype == jnp.uint8


def test_every_seat_sees_itself_first_and_the_others_in_seat_order():
    state, task = kitchen()
    obs = np.asarray(observe(state, task, 400)).reshape(4, 24, -1)
    cells = [int(c) for c in state.cell]
    for seat in range(4):
        others = [s for s in range(4) if s != seat]
        assert np.flatnonzero(obs[seat, :, 0]).tolist() == [cells[seat]]
        assert np.flatnonzero(obs[seat, :, 1]).tolist() == sorted(cells[s] for s in others)
        for block, cook in enumerate([seat, *others]):
            facing = obs[seat, :, 2 + 4 * block : 6 + 4 * block]
            # Seat k faces direction k here.
            assert np.argwhere(facing).tolist() == [[cells[cook], cook]]


def test_shared_channels_are_the_same_for_everyone():
    state, task = kitchen(
        held=jnp.array([Item.ONION, Item.PLATE, Item.SOUP + 3, Item.TOMATO], jnp.uint8)
    )
    obs = np.asarray(observe(state, task, 400))
    for seat in range(1, 4):
        np.testing.assert_array_equal(obs[0, ..., 18:], obs[seat, ..., 18:])


def test_contents_of_pots_and_plates():
    # A pot with 1 onion and 1 tomato, a pot of 2 onions and 1 tomato that cooked for 5 steps.
    waiting, cooking = 1 + 8, 2 + 8
    state, task = kitchen(
        pot=board(c2=waiting, c3=cooking),
        tick=board(c3=5),
        counter=board(c0=Item.SOUP + 3 * 8, c1=Item.ONION),
        held=jnp.array([Item.SOUP + 3, 0, Item.PLATE, Item.TOMATO], jnp.uint8),
    )
    obs = observe(state, task, 400)
    cells = [int(c) for c in state.cell]

    def found(name):
        plane = channel(obs, name).ravel()
        return {int(c): int(plane[c]) for c in np.flatnonzero(plane)}

    assert found("onions in a pot that is not cooking") == {2: 1}
    assert found("tomatoes in a pot that is not cooking") == {2: 1}
    assert found("onions in a soup, cooking, ready or plated") == {3: 2, cells[0]: 3}
    assert found("tomatoes in a soup, cooking, ready or plated") == {3: 1, 0: 3}
    assert found("cooking steps left") == {3: 15}
    assert found("soup ready, in a pot or plated") == {0: 1, cells[0]: 1}
    assert found("plates") == {cells[2]: 1}
    assert found("onions") == {1: 1}
    assert found("tomatoes") == {cells[3]: 1}


def test_a_ready_pot_has_no_steps_left():
    state, task = kitchen(pot=board(c2=3), tick=board(c2=20))
    obs = observe(state, task, 400)
    assert channel(obs, "soup ready, in a pot or plated")[0, 2] == 1
    assert channel(obs, "cooking steps left").max() == 0
    assert channel(obs, "onions in a soup, cooking, ready or plated")[0, 2] == 3


@pytest.mark.parametrize(("time", "urgent"), [(360, 0), (361, 1), (399, 1)])
def test_urgency_when_fewer_than_40_steps_remain(time, urgent):
    state, task = kitchen(time=jnp.int32(time))
    plane = channel(observe(state, task, 400), "urgency")
    assert plane.min() == plane.max() == urgent


def test_a_full_view_needs_no_window():
    state, task = kitchen()
    wide = observe(state, task, 400, (9, 9, 9))
    np.testing.assert_array_equal(wide, observe(state, task, 400))


def test_padding_looks_like_counters():
    task = task_from_grid(ROWS, height=6, width=8)
    obs = observe(start(task, jnp.zeros(2, jnp.int32)), task, 400)
    counters = channel(obs, "counter", num_agents=2)
    assert counters[4:].min() == 1
    assert counters[:, 6:].min() == 1

"""Brigade's environments in the hands of code written for JaxMARL, PettingZoo and Gymnasium."""

import copy
import gzip
import importlib
import importlib.util
import json
import subprocess
import sys
import urllib.request
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import flax.linen as nn
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import struct
from flax.core import FrozenDict
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test

from brigade.core import Environment, Policy, TaskSequence, TimeStep, View
from brigade.envs.adapters.gymnasium import SeatEnv
from brigade.envs.adapters.jaxmarl import JaxMARLEnv
from brigade.envs.adapters.pettingzoo import ParallelEnv
from brigade.envs.overcooked import LAYOUTS, Overcooked, render, task_from_grid
from brigade.partners import Random
from brigade.testing import check_environment

KEY = jax.random.key(0)


class EchoTask(struct.PyTreeNode):
    pay: jax.Array
    id: jax.Array


@dataclass(frozen=True)
class Echo(Environment):
    """Three seats who see the last joint action; whoever plays 3 ends the game."""

    horizon: int = 5
    num_agents = 3
    num_actions = 4
    obs_shape = (3,)

    def reset(self, key, task):
        return jnp.int32(0), self._answer(jnp.int32(0), jnp.full(3, -1, jnp.int32), task)

    def step(self, key, state, action, task):
        return state + 1, self._answer(state + 1, action.astype(jnp.int32), task)

    def _answer(self, time, action, task):
        seats = jnp.arange(3)
        view = View(
            obs=jnp.broadcast_to(action.astype(jnp.float32), (3, 3)),
            avail=jnp.broadcast_to(jnp.arange(4) != 2, (3, 4)),
            prev_action=action,
            prev_reward=task.pay * seats,
            first=jnp.broadcast_to(time == 0, 3),
            active=jnp.ones(3, bool),
            task_id=jnp.broadcast_to(task.id, 3),
            state=time,
        )
        over = (action == 3).any()
        info = {"score": time / self.horizon, "place": seats}
        return TimeStep(view, task.pay * seats, over, time >= self.horizon, info)


def echo_tasks():
    tasks = [EchoTask(jnp.float32(pay), jnp.int32(0)) for pay in (1, 10)]
    return TaskSequence.from_tasks(tasks, ["poor", "rich"], steps=100)


@dataclass(frozen=True)
class Counting(Policy):
    """A partner with memory: plays 0, 1, 0, 1 and so on, one count per seat."""

    def init(self, key):
        return jnp.int32(2)

    def initial_carry(self, batch):
        return jnp.zeros(batch, jnp.int32)

    def act(self, params, carry, view, key, greedy=False):
        return carry % params, carry + 1, {}


@dataclass(frozen=True)
class Holding(Policy):
    """A policy with its parameters inside."""

    policy: Any
    params: Any

    def init(self, key):
        return ()

    def initial_carry(self, batch):
        return self.policy.initial_carry(batch)

    def act(self, params, carry, view, key, greedy=False):
        return self.policy.act(self.params, carry, view, key, greedy)


@pytest.mark.slow
def test_the_toy_of_these_tests_is_an_environment():
    check_environment(Echo(), echo_tasks())


# JaxMARL


def recorded_actions(name):
    path = Path(__file__).parents[1] / "golden" / "data" / "overcooked_traces.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        trace = next(t for t in map(json.loads, lines) if t["name"].startswith(name))
    return [["UDRLSI".index(letter) for letter in step["actions"]] for step in trace["steps"]]


def jaxmarls_overcooked(task, max_steps):
    """Their kitchen from ours; their walls are all that cannot be walked on."""
    from jaxmarl.environments.overcooked import Overcooked as Peer

    tile = np.asarray(task.tile)
    stations = {"pot_idx": 2, "onion_pile_idx": 3, "plate_pile_idx": 5, "goal_idx": 6}
    layout = {name: jnp.array(np.flatnonzero(tile == kind)) for name, kind in stations.items()}
    layout |= {"wall_idx": jnp.array(np.flatnonzero(tile != 0)), "agent_idx": task.start}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # they recommend their version 2
        height, width = tile.shape
        return Peer(FrozenDict(layout, height=height, width=width), max_steps=max_steps)


@pytest.mark.slow
def test_cramped_room_plays_like_jaxmarls_own_across_the_end_of_a_game():
    task, horizon = task_from_grid(LAYOUTS["cramped_room"]), 140
    ours = JaxMARLEnv(Overcooked(2, *task.tile.shape, horizon, start_facing="up"), task)
    theirs = jaxmarls_overcooked(task, horizon)
    actions = jnp.array(recorded_actions("cramped_room")[:210])

    @jax.jit
    def play():
        start = ours.reset(KEY)[1]
        peer_start = theirs.reset(KEY)[1]
        up = jnp.array([[0, -1]] * 2).astype(peer_start.agent_dir.dtype)
        peer_start = peer_start.replace(agent_dir=up, agent_dir_idx=jnp.zeros(2, jnp.int32))

        def step(states, action):
            acts = {"agent_0": action[0], "agent_1": action[1]}
            obs, state, *rest = ours.step(KEY, states[0], acts, start)
            peer_obs, peer_state, *peer_rest = theirs.step(KEY, states[1], acts, peer_start)
            return (state, peer_state), ((obs, *rest), (peer_obs, *peer_rest))

        first = ours.get_obs(start), theirs.get_obs(peer_start)
        return first, jax.lax.scan(step, (start, peer_start), actions)[1]

    first, (mine, other) = jax.device_get(play())
    jax.tree.map(np.testing.assert_array_equal, *first)
    jax.tree.map(np.testing.assert_array_equal, mine, other)  # obs, rewards, dones, shaping
    assert mine[1]["agent_0"].sum() >= 40  # soups were served
    assert {0, 3, 5} == set(mine[3]["shaped_reward"]["agent_0"].tolist())
    assert np.flatnonzero(mine[2]["__all__"]).tolist() == [horizon - 1]


@pytest.fixture
def baselines(monkeypatch):
    """JaxMARL's wrappers, with the real `six` where it is installed."""
    # JaxMARL imports gymnax, whose loader of MNIST imports `six` without requiring it. What it
    # takes from there is a function of the standard library under another name.
    if importlib.util.find_spec("six") is None:
        for name in ("six", "six.moves", "six.moves.urllib"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, "six.moves.urllib.request", urllib.request)
    return importlib.import_module("jaxmarl.wrappers.baselines")


class SmallActorCritic(nn.Module):
    num_actions: int

    @nn.compact
    def __call__(self, x):
        x = nn.tanh(nn.Dense(16)(x))
        return nn.Dense(self.num_actions)(x), nn.Dense(1)(x)[..., 0]


def jaxmarl_style_ippo(env, num_envs=2, num_steps=12, num_updates=2, gamma=0.99, gae=0.95):
    """Parameter-sharing PPO as JaxMARL's users write it: agents stacked into one batch."""
    num_actors = num_envs * env.num_agents
    agent = env.agents[0]
    size = int(np.prod(env.observation_space(agent).shape))
    net = SmallActorCritic(env.action_space(agent).n)
    tx = optax.adam(1e-2)
    params = net.init(KEY, jnp.zeros((1, size)))

    def batchify(values):
        stacked = jnp.stack([values[agent] for agent in env.agents])
        return stacked.reshape(num_actors, -1).astype(jnp.float32)

    def unbatchify(actions):
        split = actions.reshape(env.num_agents, num_envs)
        return {agent: split[i] for i, agent in enumerate(env.agents)}

    def play(params, carry, key):
        obs, state = carry
        act_key, step_key = jax.random.split(key)
        flat = batchify(obs)
        logits, value = net.apply(params, flat)
        action = jax.random.categorical(act_key, logits)
        keys = jax.random.split(step_key, num_envs)
        obs, state, reward, done, info = jax.vmap(env.step)(keys, state, unbatchify(action))
        shaped = info.pop("shaped_reward")
        reward = jax.tree.map(jnp.add, reward, shaped)
        done = {agent: done[agent] for agent in env.agents}
        record = {
            "obs": flat,
            "action": action,
            "value": value,
            "log_prob": chosen(logits, action),
            "reward": batchify(reward)[:, 0],
            "done": batchify(done)[:, 0],
            "info": jax.tree.map(lambda x: x.reshape(num_actors), info),
        }
        return (obs, state), record

    def chosen(logits, action):
        return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0]

    def advantages(batch, last_value):
        def back(carry, now):
            gain, next_value = carry
            alive = 1 - now["done"]
            delta = now["reward"] + gamma * next_value * alive - now["value"]
            gain = delta + gamma * gae * alive * gain
            return (gain, now["value"]), gain

        steps = {name: batch[name] for name in ("done", "reward", "value")}
        start = (jnp.zeros_like(last_value), last_value)
        return jax.lax.scan(back, start, steps, reverse=True)[1]

    def loss(params, batch, gain):
        logits, value = net.apply(params, batch["obs"])
        ratio = jnp.exp(chosen(logits, batch["action"]) - batch["log_prob"])
        norm = (gain - gain.mean()) / (gain.std() + 1e-8)
        policy_loss = -jnp.minimum(ratio * norm, jnp.clip(ratio, 0.8, 1.2) * norm).mean()
        return policy_loss + 0.5 * jnp.square(value - gain - batch["value"]).mean()

    def update(carry, key):
        params, opt_state, running = carry
        keys = jax.random.split(key, num_steps)
        running, batch = jax.lax.scan(lambda c, k: play(params, c, k), running, keys)
        gain = advantages(batch, net.apply(params, batchify(running[0]))[1])
        value, grads = jax.value_and_grad(loss)(params, batch, gain)
        updates, opt_state = tx.update(grads, opt_state)
        return (optax.apply_updates(params, updates), opt_state, running), (value, batch["info"])

    running = jax.vmap(env.reset)(jax.random.split(KEY, num_envs))
    start = (params, tx.init(params), running)
    end, (losses, info) = jax.lax.scan(update, start, jax.random.split(KEY, num_updates))
    return params, end[0], losses, info


@pytest.mark.slow
def test_a_jaxmarl_training_loop_runs(baselines):
    env, sequence = Overcooked.example()  # games of 20 steps
    wrapped = baselines.LogWrapper(JaxMARLEnv(env, sequence))
    before, after, losses, info = jax.jit(lambda: jaxmarl_style_ippo(wrapped))()
    assert np.isfinite(losses).all()
    assert optax.tree.norm(jax.tree.map(jnp.subtract, before, after)) > 0
    ended = np.asarray(info["returned_episode"]).reshape(24, -1)
    assert np.flatnonzero(ended.all(1)).tolist() == [19]
    assert (np.asarray(info["returned_episode_lengths"]).reshape(24, -1)[19:] == 20).all()


@pytest.mark.slow
def test_jaxmarls_q_learning_wrapper_runs(baselines):
    env = baselines.CTRolloutManager(JaxMARLEnv(Echo(), echo_tasks()), batch_size=2)
    obs, state = env.batch_reset(KEY)
    actions = {agent: env.batch_sample(KEY, agent) for agent in env.agents}
    obs, state, reward, done, _ = env.batch_step(KEY, state, actions)
    assert obs["agent_0"].shape == (2, 3 + 3)  # what it sees, and who it is
    assert reward["__all__"].tolist() == [3.0, 3.0]
    assert done["__all__"].shape == (2,)


def test_the_state_names_the_task_and_auto_resets_stay_with_it():
    env = JaxMARLEnv(Echo(), echo_tasks(), task=1)
    everyone = dict.fromkeys(env.agents, jnp.int32(0))

    def rewards(state):
        paid = []
        for _ in range(7):  # past the end of a game of 5
            _, state, reward, done, infos = env.step(KEY, state, everyone)
            paid.append((float(reward["agent_2"]), bool(done["__all__"]), int(state.step)))
        assert infos == {"shaped_reward": dict.fromkeys(env.agents, 0.0)}
        return paid

    played = [(False, 1), (False, 2), (False, 3), (False, 4), (True, 0), (False, 1), (False, 2)]
    assert rewards(env.reset(KEY)[1]) == [(20.0, *rest) for rest in played]
    assert rewards(env.reset(KEY, task=0)[1]) == [(2.0, *rest) for rest in played]
    # A batch of tasks is one call.
    keys = jax.random.split(KEY, 2)
    _, state = jax.vmap(env.reset)(keys, jnp.array([1, 0]))
    actions = dict.fromkeys(env.agents, jnp.zeros(2, jnp.int32))
    assert jax.vmap(env.step)(keys, state, actions)[2]["agent_1"].tolist() == [10.0, 1.0]


def test_a_game_that_is_over_is_done_and_step_env_does_not_reset():
    env = JaxMARLEnv(Echo(), echo_tasks()[1])
    _, state = env.reset(KEY)
    final = {"agent_0": 0, "agent_1": 3, "agent_2": 1}
    obs, after, _, dones, _ = env.step_env(KEY, state, final)
    assert dones == dict.fromkeys([*env.agents, "__all__"], True)
    assert obs["agent_2"].tolist() == [0.0, 3.0, 1.0]
    assert int(after.step) == 1
    assert bool(after.done)
    obs, after, _, dones, _ = env.step(KEY, state, final)
    assert dones["__all__"]
    assert obs["agent_2"].tolist() == [-1.0, -1.0, -1.0]
    assert not after.done


def test_what_a_jaxmarl_environment_says_of_itself():
    env = JaxMARLEnv(Echo(), echo_tasks())
    assert env.agents == ["agent_0", "agent_1", "agent_2"]
    assert (env.num_agents, env.max_steps, env.name) == (3, 5, "Echo")
    assert env.agent_classes == {"agent": env.agents}
    assert env.observation_space("agent_1").shape == (3,)
    assert env.observation_space("agent_1").dtype == jnp.float32
    assert env.action_space("agent_1").n == 4
    assert env.observation_spaces.keys() == env.action_spaces.keys() == set(env.agents)
    avail = env.get_avail_actions(env.reset(KEY)[1])
    assert avail["agent_2"].tolist() == [True, True, False, True]
    kitchen = JaxMARLEnv(*Overcooked.example())
    box = kitchen.observation_space("agent_0")
    assert (box.low, box.high, box.shape, box.dtype) == (0, 255, (5, 5, 26), jnp.uint8)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_task_that_is_not_there_is_refused(index):
    message = f"there is no task {index}; use 0 to 1"
    with pytest.raises(IndexError, match=message):
        JaxMARLEnv(Echo(), echo_tasks(), task=index)
    with pytest.raises(IndexError, match=message):
        JaxMARLEnv(Echo(), echo_tasks()).reset(KEY, task=index)
    with pytest.raises(IndexError, match=message):
        ParallelEnv(Echo(), echo_tasks()).reset(options={"task": index})
    with pytest.raises(IndexError, match=message):
        SeatEnv(Echo(), echo_tasks(), partners=Counting()).reset(options={"task": index})


# PettingZoo


@pytest.mark.parametrize("game", [Overcooked.example, lambda: (Echo(), echo_tasks())])
def test_pettingzoos_own_test_passes(game):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        parallel_api_test(ParallelEnv(*game()), num_cycles=50)


def test_a_parallel_game_is_the_environments_game():
    env, sequence = Overcooked.example()
    game = ParallelEnv(env, sequence, seed=3)
    start, _ = game.reset()
    state, now = env.reset(jax.random.split(jax.random.key(3))[1], sequence[0])
    np.testing.assert_array_equal(list(start.values()), now.view.obs)
    step = jax.jit(env.step)
    for action in recorded_actions("cramped_room")[: env.horizon]:
        state, now = step(KEY, state, jnp.array(action), sequence[0])
        obs, rewards, terminated, truncated, infos = game.step(
            dict(zip(start, action, strict=True))
        )
        np.testing.assert_array_equal(list(obs.values()), now.view.obs)
        np.testing.assert_array_equal(list(rewards.values()), now.reward)
        shaped = [info["shaped_reward"] for info in infos.values()]
        np.testing.assert_array_equal(shaped, now.info["shaped_reward"])
        assert infos["agent_1"]["events"].shape == now.info["events"].shape[1:]
        assert not any(terminated.values())
    assert all(truncated.values())
    assert game.agents == []
    with pytest.raises(RuntimeError, match="call reset"):
        game.step({"agent_0": 0, "agent_1": 0})


def test_parallel_seeds_repeat_and_unseeded_games_differ():
    game = ParallelEnv(*Overcooked.example())

    def starts(**seed):
        return [game.reset(**seed)[0]["agent_0"], *(game.reset()[0]["agent_0"] for _ in range(5))]

    first, again = starts(seed=7), starts(seed=7)
    np.testing.assert_array_equal(first, again)
    assert any((first[0] != other).any() for other in first[1:])


def test_parallel_observations_are_numpy_one_may_write_to_with_masks_in_info():
    game = ParallelEnv(Echo(), echo_tasks())
    obs, infos = game.reset(options={"task": 1})
    obs["agent_0"][:] = 5
    assert infos["agent_2"]["action_mask"].tolist() == [1, 1, 0, 1]
    assert (infos["agent_2"]["place"], infos["agent_2"]["score"]) == (2, 0.0)
    mask = infos["agent_0"]["action_mask"]
    assert game.action_space("agent_0").sample(mask=mask) != 2
    assert game.step(dict.fromkeys(game.agents, 0))[1] == {
        "agent_0": 0.0,
        "agent_1": 10.0,
        "agent_2": 20.0,
    }
    game.reset()  # stays with the task
    _, rewards, terminated, truncated, _ = game.step({"agent_0": 3, "agent_1": 0, "agent_2": 0})
    assert rewards["agent_2"] == 20.0
    assert all(terminated.values())
    assert not any(truncated.values())


@pytest.mark.parametrize("actions", [{"agent_0": 1}, {"agent_0": 1, "agent_1": 6}])
def test_parallel_actions_are_checked(actions):
    game = ParallelEnv(*Overcooked.example())
    game.reset()
    with pytest.raises(ValueError, match=r"the action of agent_1 is .* from 0 to 5"):
        game.step(actions)


def test_a_parallel_game_can_be_seen_and_copied():
    env, sequence = Overcooked.example()
    blind, game = ParallelEnv(env, sequence), ParallelEnv(env, sequence, render=render)
    assert (blind.render_mode, blind.render()) == (None, None)
    assert game.render_mode == "rgb_array"
    assert game.render() is None  # nothing to see yet
    game.reset()
    picture = game.render()
    assert picture.shape == (160, 160, 3)
    twin = copy.deepcopy(game)
    game.step({"agent_0": 0, "agent_1": 1})
    np.testing.assert_array_equal(twin.render(), picture)
    twin.step({"agent_0": 0, "agent_1": 1})
    np.testing.assert_array_equal(twin.render(), game.render())


# Gymnasium


@pytest.mark.filterwarnings("ignore:.*alternative render modes")
@pytest.mark.filterwarnings("ignore:.*infinity")
@pytest.mark.parametrize("seat", [0, 1])
def test_gymnasiums_own_checker_passes(seat):
    env, sequence = Overcooked.example()
    check_env(SeatEnv(env, sequence, seat, partners=Random(), render=render))
    check_env(SeatEnv(Echo(), echo_tasks(), seat, partners=Counting()))


@pytest.mark.parametrize("seat", [0, 1, 2])
def test_partners_fill_the_other_seats_and_remember(seat):
    game = SeatEnv(Echo(), echo_tasks(), seat, partners=Counting())
    for _ in range(2):  # a fresh game means a fresh memory
        game.reset()
        for count in range(5):
            expected = [count % 2] * 3
            expected[seat] = 0
            obs, reward, terminated, truncated, info = game.step(0)
            assert obs.tolist() == expected
            assert (reward, terminated, truncated) == (float(seat), False, count == 4)
            assert info["place"] == seat
    with pytest.raises(RuntimeError, match="call reset"):
        game.step(0)


def test_partner_parameters_and_the_task_are_the_users():
    game = SeatEnv(Echo(), echo_tasks(), 2, partners=Counting(), partner_params=jnp.int32(1))
    game.reset(options={"task": 1})
    assert game.step(1)[1] == 20.0
    assert game.step(3)[0].tolist() == [0, 0, 3]  # modulo 1
    game.reset()
    assert game.step(0)[1] == 20.0  # stays with the task


def test_a_trained_policy_can_be_the_partner():
    from support.parts import make_learner

    env, sequence = Overcooked.example()
    learner = make_learner(env)
    params = learner.init(KEY).params

    def play(partners, **more):
        game = SeatEnv(env, sequence, partners=partners, greedy_partners=True, **more)
        game.reset(seed=2)
        return [game.step(4)[0] for _ in range(6)]

    alone = play(learner.policy, partner_params=params)
    # A policy that holds arrays cannot be hashed, and must do as well.
    np.testing.assert_array_equal(alone, play(Holding(learner.policy, params)))


def test_gymnasium_seeds_repeat_with_partners_who_draw_lots():
    env, sequence = Overcooked.example()

    def play(seed):
        game = SeatEnv(env, sequence, partners=Random())
        first, _ = game.reset(seed=seed)
        return [first, *(game.step(4)[0] for _ in range(env.horizon))]

    np.testing.assert_array_equal(play(1), play(1))
    assert (np.array(play(1)) != np.array(play(2))).any()


def test_games_that_are_alike_share_their_compilation():
    traces = []

    @dataclass(frozen=True)
    class Noted(Echo):
        def step(self, key, state, action, task):
            traces.append(1)
            return super().step(key, state, action, task)

    def game():
        return SeatEnv(Noted(), echo_tasks(), partners=Counting())

    games = gymnasium.vector.SyncVectorEnv([game] * 3)
    games.reset(seed=0)
    for _ in range(8):  # past the end of a game of 5
        obs, *_ = games.step(np.array([0, 1, 0]))
    assert obs.shape == (3, 3)
    assert len(traces) == 1


@pytest.mark.parametrize("seat", [-1, 3])
def test_a_seat_that_is_not_there_is_refused(seat):
    with pytest.raises(ValueError, match=f"there is no seat {seat}; use 0 to 2"):
        SeatEnv(Echo(), echo_tasks(), seat, partners=Counting())


def test_an_action_that_is_not_there_is_refused():
    game = SeatEnv(Echo(), echo_tasks(), partners=Counting())
    game.reset()
    with pytest.raises(ValueError, match="action is 4; use 0 to 3"):
        game.step(4)


# Packages that may be missing


@pytest.mark.parametrize("package", ["pettingzoo", "gymnasium"])
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch):
    module = f"brigade.envs.adapters.{package}"
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'brigade-rl\[{package}\]'"):
        importlib.import_module(module)


@pytest.mark.slow
def test_only_the_spaces_need_jaxmarl(monkeypatch):
    for module in ("jaxmarl", "jaxmarl.environments"):
        monkeypatch.setitem(sys.modules, module, None)
    env = JaxMARLEnv(Echo(), echo_tasks())
    _, state = env.reset(KEY)
    env.step(KEY, state, dict.fromkeys(env.agents, 0))
    for space in (env.observation_space, env.action_space):
        with pytest.raises(ImportError, match=r"pip install 'brigade-rl\[jaxmarl\]'"):
            space("agent_0")


@pytest.mark.slow
def test_importing_the_folder_imports_no_adapter():
    code = (
        "import sys, brigade.envs.adapters;"
        "print([m for m in ('jax', 'gymnasium', 'pettingzoo', 'jaxmarl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("task", [7, -1, 0.5, "1", None])
def test_a_reset_that_is_refused_leaves_the_episode_as_it_was(task):
    """The same moves give the same as in a twin that was never asked for that task."""
    for make in (
        lambda: ParallelEnv(Echo(), echo_tasks()),
        lambda: SeatEnv(Echo(), echo_tasks(), partners=Counting()),
    ):
        envs = make(), make()
        for env in envs:
            env.reset(seed=1, options={"task": 1})
        with pytest.raises((IndexError, TypeError)):
            envs[0].reset(seed=2, options={"task": task})
        moves = 2 if isinstance(envs[0], SeatEnv) else dict.fromkeys(envs[0].possible_agents, 2)
        for steps in [[env.step(moves) for env in envs], [env.reset() for env in envs]]:
            jax.tree.map(np.testing.assert_array_equal, *steps)


def test_a_seed_that_is_refused_does_not_change_the_task():
    env, twin = ParallelEnv(Echo(), echo_tasks()), ParallelEnv(Echo(), echo_tasks())
    for each in (env, twin):
        each.reset(seed=1)
    with pytest.raises(TypeError):
        env.reset(seed="x", options={"task": 1})
    moves = dict.fromkeys(env.possible_agents, 2)
    jax.tree.map(np.testing.assert_array_equal, env.step(moves), twin.step(moves))

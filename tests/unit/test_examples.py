"""The files of examples/: they keep the contracts, and their numbers are right."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from support.parts import example, make_learner, make_trainer

import brigade
from brigade.core import Acting, Benchmark
from brigade.launch.cost import cost
from brigade.launch.overview import overview
from brigade.launch.target import Request
from brigade.launch.targets import find_target
from brigade.learners import NetworkConfig
from brigade.nets import ActorCritic
from brigade.testing import check_environment, check_learner, check_method, check_policy
from brigade.train import DeviceSource, Players

ENV = example()[0]
EXAMPLES = Path(__file__).parents[2] / "examples"


def of_file(kind, name):
    return brigade.get(kind, str(EXAMPLES / name))


@pytest.fixture(scope="module")
def anchor():
    return of_file("methods", "anchor.py:Anchor")


@pytest.mark.slow
def test_anchor_keeps_the_promises_of_a_method(anchor):
    env, sequence = example()
    method = anchor(strength=0.1)
    trainer, evaluator = make_trainer(env, make_learner(env), method)
    check_method(method, trainer, evaluator, sequence)


@pytest.mark.slow
def test_distil_keeps_the_promises_of_a_method():
    env, sequence = example()
    method = of_file("methods", "distil.py:Distil")(weight=0.1)
    trainer, evaluator = make_trainer(env, make_learner(env), method)
    check_method(method, trainer, evaluator, sequence)


def test_the_penalty_of_distil_by_hand():
    """The teacher is asked with the head of the last task, the divergence is as defined."""

    class Asked(struct.PyTreeNode):
        task_id: Any

    class Batch(struct.PyTreeNode):
        inputs: Any

    def outputs(params, batch):
        return SimpleNamespace(logits=params[batch.inputs.task_id])

    class Base(SimpleNamespace):
        def __call__(self, params):
            return jnp.float32(1.0), {}

    base = Base(batch=Batch(Asked(jnp.array([1, 1]))))
    learner = SimpleNamespace(outputs=outputs)
    method = of_file("methods", "distil.py:Distil")(weight=2.0)
    end = jnp.log(jnp.array([[0.5, 0.5], [0.9, 0.1]]))  # logits by task
    now = jnp.log(jnp.array([[0.25, 0.75], [0.1, 0.9]]))
    mem = method.init(end, None)
    mem, _ = method.begin_task(mem, None, None, jnp.int32(0), None)
    assert method.loss(mem, base, now, learner, None)[0] == 1.0  # no task has ended yet
    mem, _ = method.end_phase(mem, "train", FakeState(end), None, None, None)
    mem, _ = method.begin_task(mem, None, None, jnp.int32(1), None)
    loss, _ = method.loss(mem, base, now, learner, None)
    divergence = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    np.testing.assert_allclose(loss, 1.0 + 2.0 * divergence, rtol=1e-6)


def test_the_penalty_of_anchor_by_hand(anchor):
    def at(x, y, head, critic):
        trunk = {"kernel": jnp.array([x, y])}
        return {
            "actor_trunk": trunk,
            "actor_head": {"bias": jnp.array(head)},
            "critic_trunk": {"bias": jnp.array(critic)},
        }

    def base(params):
        return jnp.float32(10.0), {}

    learner = SimpleNamespace(groups=ActorCritic(num_actions=2).groups)
    method, end, now = anchor(strength=0.5), at(1.0, 2.0, 0.0, 0.0), at(4.0, 6.0, 9.0, 9.0)
    before = method.init(end, None)
    after, _ = method.end_phase(before, "train", FakeState(end), None, None, None)
    # Nothing is held before a task has ended; then 0.5 * (3 * 3 + 4 * 4), head and critic free.
    assert method.loss(before, base, now, learner, None)[0] == 10.0
    loss, metrics = method.loss(after, base, now, learner, None)
    assert loss == 22.5
    assert metrics["penalty"] == 12.5
    slope = jax.grad(lambda params: method.loss(after, base, params, learner, None)[0])(now)
    assert slope["actor_trunk"]["kernel"].tolist() == [3.0, 4.0]
    assert slope["actor_head"]["bias"] == slope["critic_trunk"]["bias"] == 0.0


@pytest.mark.slow
def test_the_slow_cook_acts_on_every_third_step_only():
    """It keeps the promises of a policy; its own moves fall where its count says."""
    kind = of_file("partners", "slow_cook.py:SlowCook")
    env, sequence = example()
    state, now = env.reset(jax.random.key(0), sequence[0])
    check_policy(kind(), now.view, env.num_actions)
    cook, memory = kind(pace=3), kind().initial_carry((2,))
    act, step = jax.jit(cook.act), jax.jit(env.step)
    moves = []
    for number in range(12):
        action, memory, _ = act(cook.init(None), memory, now.view, jax.random.key(number))
        moves.append(action.tolist())
        state, now = step(jax.random.key(number), state, action, sequence[0])
    rests = [move for number, move in enumerate(moves) if number % 3]
    assert rests == [[4, 4]] * 8
    assert any(move != [4, 4] for move in moves[::3])


def test_population_play_lets_everybody_meet():
    kind = of_file("generators", "population_play.py:PopulationPlay")
    generator = kind(members=3)
    met = set()
    for number in range(20):
        seating = generator.seat((), None, 3, 2, jax.random.key(number))
        met |= {tuple(row) for row in np.asarray(seating.member).tolist()}
    assert met == {(host, guest) for host in range(3) for guest in range(3)}


@pytest.mark.slow
def test_an_encoder_of_ones_own_trains(tmp_path):
    """It does not see where things are: a shifted picture has the same features."""
    config = {"benchmark": "overcooked/layout", "preset": "laptop", "env": {"horizon": 20}}
    config |= {"num_envs": 4, "num_steps": 20, "steps_per_task": 160, "eval_episodes": 2}
    config |= {"ppo": {"minibatches": 2}}
    config["network"] = {"encoder": str(EXAMPLES / "pooled.py:Pooled"), "hidden": [8]}
    run = brigade.run(config, tmp_path / "run")
    assert np.isfinite(run.returns["score"]).all()
    with pytest.raises(brigade.UserError, match="unknown encoder"):
        brigade.load(brigade.load(run.path, trust=True).export(tmp_path / "own.safetensors"))
    network = of_file("encoders", "pooled.py:Pooled")(hidden=(8,))
    picture = jnp.zeros((1, 6, 6, 3)).at[0, 2, 2].set(1.0)
    params = network.init(jax.random.key(0), picture, jnp.zeros(1, jnp.int32), (1,))
    one, other = (
        network.apply(params, seen, jnp.zeros(1, jnp.int32), (1,))
        for seen in (picture, jnp.roll(picture, 1, axis=1))
    )
    np.testing.assert_allclose(one, other, rtol=1e-5)


ANCHOR_TABLE = str(EXAMPLES / "anchor_table.py:TARGET")


def test_a_table_of_ones_own_has_its_runs_and_the_printed_figures(tmp_path):
    """In the order of its rows; tests/smoke/test_documents.py trains one of them."""
    target = find_target(ANCHOR_TABLE)
    (stage,) = target.plan(Request(tmp_path, words=["--num-envs", "4"])).stages
    assert [run.name for run in stage.runs] == [*target.published]
    configs = [run.experiment.as_dict() for run in stage.runs]
    assert [config["method"].split(":")[-1] for config in configs] == ["ft", "Anchor", "Anchor"]
    strengths = [config.get("method_settings", {}).get("strength") for config in configs]
    assert strengths == [None, 0.01, 0.1]
    assert [(c["steps_per_task"], c["num_envs"]) for c in configs] == [(49_600, 4)] * 3
    shown = [[str(f) for f in figures.values()] for figures in target.published.values()]
    assert shown == [["0.76", "0.36"], ["0.91", "0.07"], ["0.62", "0.03"]]


def test_a_table_of_ones_own_is_run_as_it_was_published():
    """The paper's scale keeps what a row says, also its preset; no level, no known cost."""
    target = find_target(ANCHOR_TABLE)
    row = target.settings(target.rows[1], "paper")
    assert (row["preset"], row["steps_per_task"]) == ("laptop", 4e5)
    assert row["method_settings"] == {"strength": 0.01}
    assert target.steps("paper") == 3 * 2 * 4e5
    assert cost(target, "small", "cpu") is None
    with pytest.raises(brigade.UserError, match=r"TARGET has no levels; remove --level$"):
        find_target(ANCHOR_TABLE, "2")
    with pytest.raises(brigade.UserError, match=r"anchor.py:Anchor is not a target; it must be"):
        find_target(str(EXAMPLES / "anchor.py:Anchor"))


def test_a_package_adds_a_target(tmp_path, monkeypatch):
    info = tmp_path / "my_lab-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[brigade.targets]\nlab/one = anchor_table:TARGET\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert find_target("lab/one").title == find_target(ANCHOR_TABLE).title
    (line,) = [line for line in overview("cpu") if "lab/one" in line]
    assert line.split() == ["lab/one", "?", "?", "the", "tutorial's", "table"]


class FakeState:
    """Has parameters."""

    def __init__(self, params):
        self.params = params


@pytest.mark.slow
def test_meeting_keeps_the_promises_of_an_environment():
    check_environment(*of_file("envs", "meeting.py:Meeting").example())


@pytest.mark.slow
def test_reinforce_keeps_the_promises_of_a_learner():
    env, sequence = example()
    settings = of_file("learners", "reinforce.py:Reinforce")(network=NetworkConfig(hidden=(8,)))
    learner = settings.build(env, num_tasks=3, updates_per_task=4)
    check_learner(learner, DeviceSource(env, Players(learner.policy), 4, 20), sequence[0])


@pytest.mark.slow
def test_the_returns_of_reinforce_by_hand():
    """Two rewards in one episode and one in the next: 1 + 0.5 * 2, 2, and 4, normalised."""
    kind = of_file("learners", "reinforce.py:Reinforce")
    config = replace(kind().reinforce, gamma=0.5)
    learner = replace(kind().build(ENV, num_tasks=1, updates_per_task=1), config=config)
    source = DeviceSource(ENV, Players(learner.policy), 1, 3)
    task = example()[1][0]
    state = learner.init(jax.random.key(0))
    start = source.start(jax.random.key(0), task)
    _, traj = source.next(start, Acting(state.params), task, jax.random.key(0))
    reward = jnp.array([1.0, 2.0, 4.0])[:, None, None] * jnp.ones((1, 1, 2))
    ends = jnp.array([[False], [True], [False]])
    traj = traj.replace(reward=reward, terminated=ends, info={})
    _, moves, index = learner.prepare(state, traj, jax.random.key(0))
    expected = np.repeat([2.0, 2.0, 4.0], 2)
    expected = (expected - expected.mean()) / expected.std()
    np.testing.assert_allclose(moves.returns, expected, rtol=1e-4)
    assert index.shape == (1, 6)


@pytest.mark.slow
def test_ippo_learns_to_meet(tmp_path):
    config = {"benchmark": str(EXAMPLES / "meeting.py:meeting"), "preset": "laptop", "seeds": 1}
    config |= {"tasks": 1, "steps_per_task": 4e4, "eval_every": 100}
    scores = brigade.run(config, tmp_path / "run").returns["score"].mean(axis=(1, 2, 3, 4, 5))
    assert scores[0] < 0.3
    assert scores[-1] > 0.9


def test_a_game_of_meeting_by_hand():
    env, sequence = of_file("envs", "meeting.py:Meeting").example()  # 5 cells, 6 steps
    task, key = sequence[0], jax.random.key(0)  # meet at cell 0
    state, now = env.reset(key, task)
    assert len(set(state.place.tolist())) == 2
    state = state.replace(place=jnp.array([1, 2]))
    state, now = env.step(key, state, jnp.array([0, 0]), task)
    assert state.place.tolist() == [0, 1]
    assert now.view.obs[1].T.tolist() == [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0]]  # own, other's
    assert (now.info["score"], bool(now.terminated)) == (0.0, False)
    state, now = env.step(key, state, jnp.array([0, 0]), task)  # seat 0 walks against the wall
    assert state.place.tolist() == [0, 0]
    assert now.reward.tolist() == [1.0, 1.0]
    assert (now.info["score"], bool(now.terminated), bool(now.truncated)) == (1.0, True, False)
    state = state.replace(place=jnp.array([0, 2]), time=jnp.int32(5))
    _, now = env.step(key, state, jnp.array([1, 1]), task)  # too late
    assert (bool(now.terminated), bool(now.truncated)) == (False, True)


def test_the_meeting_benchmark_gives_every_seed_its_own_places():
    benchmark = of_file("benchmarks", "meeting.py:meeting")()
    assert isinstance(benchmark, Benchmark)
    streams = [benchmark.sequence(seed, 11, 1000) for seed in range(3)]
    cells = np.stack([stream.tasks.cell for stream in streams])
    assert [sorted(row[:9]) for row in cells.tolist()] == [list(range(9))] * 3
    assert len({tuple(row) for row in cells.tolist()}) == 3
    # Nine cells: the tenth task is the first again, and has its number.
    assert cells[:, 9].tolist() == cells[:, 0].tolist()
    assert streams[0].tasks.id.tolist() == [*range(9), 0, 1]
    _, now = benchmark.env.reset(jax.random.key(0), streams[0][0])
    assert now.view.obs.shape == (2, *benchmark.env.obs_shape)

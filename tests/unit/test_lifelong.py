"""Lifelong Hanabi: pools, streams chosen by cross-play, learning with one partner after another."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.parts import SMALL_Q

from brigade.benchmarks.lifelong_hanabi import READY_MADE, LifelongSettings, stream
from brigade.benchmarks.lifelong_hanabi_pool import (
    Agent,
    Pool,
    Stream,
    choose_streams,
    read_pool,
)
from brigade.cli import main
from brigade.envs.hanabi import Hanabi
from brigade.errors import UserError
from brigade.launch import hanabi_tables
from brigade.launch.hanabi_measures import Play, game, of_method, start_of
from brigade.launch.hanabi_pool import (
    ARCHITECTURES,
    METHODS,
    SMALL,
    NewPool,
    play_pool,
    probe_actions,
    refuse_twins,
)
from brigade.launch.runs_target import compare
from brigade.launch.target import slug
from brigade.launch.targets import find_target
from brigade.learners.q_settings import Additions, QConfig, QNetworkConfig
from brigade.learners.r2d2 import IQL
from brigade.metrics.lifelong_hanabi import average_score, forgetting, future_score
from brigade.partners.files import Policies, interface, load_policies
from brigade.report.read import read_run
from brigade.report.summary import find
from brigade.runs.assemble import assemble
from brigade.runs.config import from_dict
from brigade.runs.export import policies_of, started_as
from brigade.runs.run import load, resume, run
from brigade.train import Position, Record
from brigade.train.more_evaluations import FewShot, HeldOut
from brigade.train.programs import evaluate
from brigade.train.trainer import evaluation_key, stack_sequences

GAME = {"colors": 2, "ranks": 3, "hand_size": 2, "hint_tokens": 3, "life_tokens": 2}
ENV = Hanabi(**GAME)
KEY = jax.random.key(0)


def agent(method: str, number: int, seed: int) -> Agent:
    return Agent(f"{method}-{number}-{seed}", method, number, seed)


def save_agent(folder, who: Agent, key: int, game=GAME) -> None:
    """An untrained agent."""
    env = Hanabi(**game)
    memory = "lstm" if who.architecture == 1 else "gru"
    network = QNetworkConfig(hidden=(8,), memory=memory, memory_size=8)
    add = Additions(sad="sad" in who.method)
    learner = IQL(QConfig(**SMALL_Q["q"]), network, add).build(env, num_tasks=1, updates_per_task=1)
    policy, params = learner.policy.actor(learner.policy.init(jax.random.key(key)), None)
    stacked = jax.tree.map(lambda x: x[None], params)
    member = {"name": who.name, "run": who.name, "seed": who.seed}
    origin = {"benchmark": "hanabi/standard", "env": game}
    policies = Policies(policy, stacked, interface(env), [member], origin)
    (folder / who.file).write_bytes(policies.as_bytes())


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Untrained agents: the learner, three partners, and some who are held out."""
    folder = tmp_path_factory.mktemp("pool")
    agents = [
        *(agent("iql", 1, seed) for seed in range(1, 7)),
        *(agent("vdn", 4, seed) for seed in (1, 2)),
        *(agent("vdn_op", 1, seed) for seed in (1, 2)),
        agent("sad", 1, 1),
        agent("iql_aux", 1, 1),
    ]
    for key, who in enumerate(agents):
        save_agent(folder, who, key)
    returns = np.random.default_rng(0).uniform(0, 6, (len(agents), len(agents)))
    streams = choose_streams(agents, returns, {"easy": 2, "hard": 3, "10": 3})
    made = Pool(folder, tuple(agents), returns, streams, episodes=1)
    (folder / "pool.json").write_text(made.as_json())
    return folder


# --- choosing streams ---


def test_streams_are_chosen_by_cross_play():
    agents = [
        agent("iql", 1, 1),  # the learner: its cross-play is the least
        agent("iql", 1, 2),
        agent("vdn", 1, 1),
        agent("vdn", 1, 2),
        agent("iql_op", 1, 1),
        agent("sad", 1, 1),
        agent("iql_aux", 1, 1),
    ]
    both = np.full((7, 7), 5.0)
    both[0, 1:] = [3.0, 1.0, 2.0, 4.0, 0.0, 0.0]
    both[2, 3] = 9.0  # who plays badly with the learner, but well with each other
    both = np.triu(both) + np.triu(both, 1).T
    found = choose_streams(agents, both, {"easy": 2, "hard": 2})
    assert found["easy"].learner == found["hard"].learner == "iql-1-1"
    # The learner's only sibling is left for intra-play.
    assert found["easy"].partners == ("iql_op-1-1", "vdn-1-2")
    # First 2 (1.0 with the learner); then 4 with (4 + 5) / 2 before 3 with (2 + 9) / 2.
    assert found["hard"].partners == ("vdn-1-1", "iql_op-1-1")
    assert found["hard"].intra == ("iql-1-2",)
    assert found["hard"].inter == ("iql-1-2", "vdn-1-2", "sad-1-1", "iql_aux-1-1")
    # In a pool this small, a long stream needs it.
    every = choose_streams(agents, both, {"easy": 4, "10": 4})
    assert every["easy"].partners == ("iql_op-1-1", "iql-1-2", "vdn-1-2", "vdn-1-1")
    assert every["10"].intra == ()
    with pytest.raises(
        ValueError, match=r"has 4 agents of .* to choose partners from; the stream 10"
    ):
        choose_streams(agents, both, {"10": 10})
    with pytest.raises(ValueError, match="no agent of method iql"):
        choose_streams(agents[2:], both[2:, 2:], {"hard": 1})


def test_at_most_two_agents_of_a_method_are_held_out_for_inter_play(pool):
    for found in read_pool(pool).streams.values():
        methods = [name.partition("-")[0] for name in found.inter]
        assert max(methods.count(method) for method in methods) <= 2
        assert not {found.learner, *found.partners} & {*found.intra, *found.inter}


def test_whoever_is_met_in_training_is_not_held_out():
    with pytest.raises(ValueError, match="b is in training and held out"):
        Stream("a", ("b", "c"), ("b",), ())
    with pytest.raises(ValueError, match="occurs twice, or is the learner"):
        Stream("a", ("b", "b"), (), ())


def test_a_held_out_copy_of_a_partner_is_found_by_its_actions():
    found = Stream("a", ("b",), ("c",), ("d",))
    actions = {name: np.arange(9) + number for number, name in enumerate("abcd")}
    refuse_twins(found, actions)
    with pytest.raises(UserError, match="the held-out agent d acts like b"):
        refuse_twins(found, actions | {"d": actions["b"].copy()})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: tree | {"format": 9}, "format 9; this Brigade reads 1"),
        (lambda tree: tree | {"returns": [[1.0]]}, r"returns have 1 rows, .* for 12 agents"),
        (lambda tree: {k: v for k, v in tree.items() if k != "agents"}, "'agents' is missing"),
        (lambda tree: tree | {"agents": [{"name": "../x"}]}, "is not the name of an agent"),
        (
            lambda tree: (
                tree | {"streams": {"hard": tree["streams"]["hard"] | {"partners": ["nobody"]}}}
            ),
            "names 'nobody', which is no agent",
        ),
        (
            lambda tree: tree | {"returns": [[None] * 12] * 12},
            "a return is None; it must be a number",
        ),
        (lambda tree: [], "must be an object"),
    ],
)
def test_a_damaged_pool_is_refused_in_one_line(pool, tmp_path, change, message):
    tree = json.loads((pool / "pool.json").read_text())
    (tmp_path / "pool.json").write_text(json.dumps(change(tree)))
    with pytest.raises(UserError, match=message) as caught:
        read_pool(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_what_is_no_pool_is_refused(pool, tmp_path, capsys):
    with pytest.raises(UserError, match="is no pool: it has no"):
        read_pool(tmp_path)
    with pytest.raises(UserError, match="has no stream 'harder'"):
        read_pool(pool).stream("harder")
    out = tmp_path / "out"
    words = ["run", "lifelong_hanabi/hard", "--env.pool", str(tmp_path), "--out", str(out)]
    assert main(words) == 2
    assert "is no pool" in capsys.readouterr().err
    assert not out.exists()


# --- the benchmark ---


def test_a_stream_is_one_partner_after_another(pool):
    benchmark = stream(LifelongSettings(stream="hard", pool=str(pool)))
    chosen = read_pool(pool).stream("hard")
    sequence = benchmark.sequence(0, 3, 100)
    assert sequence.names == chosen.partners
    assert sequence.partners == tuple((name,) for name in chosen.partners)
    assert set(benchmark.cast.names) == set(chosen.partners)
    assert all(group.greedy for group in benchmark.cast.groups)
    kept = {name.partition(" ")[0] for name in benchmark.held_out.names}
    assert kept == {*chosen.intra, *chosen.inter}
    assert benchmark.start_from.endswith(f"{chosen.learner}.safetensors")
    with pytest.raises(ValueError, match="--tasks is 4, but the stream has 3 partners"):
        benchmark.sequence(0, 4, 100)


def test_a_partner_of_another_variant_is_refused(pool, tmp_path):
    settings = LifelongSettings(stream="hard", pool=str(pool)).with_files()
    other = agent("vdn", 1, 7)
    save_agent(tmp_path, other, 0, GAME | {"hint_tokens": 4})
    with pytest.raises(UserError, match="another variant of the game"):
        stream(replace(settings, partners=(str(tmp_path / other.file),)))
    save_agent(tmp_path, other, 0, GAME | {"lost_game": "fireworks"})
    with pytest.raises(UserError, match="another variant of the game"):
        stream(replace(settings, partners=(str(tmp_path / other.file),)))
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(Path(settings.partners[0]).read_bytes())
    with pytest.raises(UserError, match="is in training and held out"):
        stream(replace(settings, inter=(str(copy),)))


def test_agents_that_are_not_named_are_those_of_the_stream(pool, tmp_path):
    whole = LifelongSettings(stream="hard", pool=str(pool)).with_files()
    again = LifelongSettings(stream="hard", pool=str(pool), learner=whole.learner).with_files()
    assert again == whole
    mine = str(tmp_path / "mine.safetensors")
    both = LifelongSettings(pool=str(pool), learner=mine, partners=(mine,)).with_files()
    assert both.held_out == ()
    with pytest.raises(UserError, match="there is no policy file"):
        LifelongSettings(stream="hard", pool=str(pool), learner=mine).with_files()


def test_held_out_agents_are_those_of_the_learner_that_is_given(pool, tmp_path):
    """Of its own method, and not the learner, its partners or whom its file says it has met."""
    made = read_pool(pool)
    chosen = made.stream("hard")

    def held_out_with(learner):
        found = LifelongSettings(stream="hard", pool=str(pool), learner=str(learner)).with_files()
        return [[Path(file).stem for file in files] for files in (found.intra, found.inter)]

    free = [each.name for each in made.agents if each.name not in chosen.partners]
    other = next(name for name in free if name.startswith("vdn-"))
    intra, inter = held_out_with(made.path(other))
    assert intra == [name for name in free if name.startswith("vdn-") and name != other]
    assert other not in inter
    assert chosen.learner in inter or sum(name.startswith("iql-") for name in inter) == 2
    # A copy under another name is still the same agent; whoever was met before is left out, too.
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(made.path(other).read_bytes())
    assert held_out_with(mine) == [intra, inter]
    policies = load_policies(mine)
    origin = {**policies.origin, "trained_with": [{"name": inter[0], "run": "r", "seed": 0}]}
    mine.write_bytes(replace(policies, origin=origin).as_bytes())
    assert inter[0] not in held_out_with(mine)[1]
    # A life changes no agent's method, and its file names the agent that it started as.
    origin = {**policies.origin, "started_as": other, "learner": "iql"}
    mine.write_bytes(replace(policies, origin=origin, members=[{"name": "life"}]).as_bytes())
    assert held_out_with(mine)[0] == [name for name in free if name.startswith("vdn-")]
    # The learner's method may not be in the pool.
    members = [{**policies.members[0], "method": "mine"}]
    mine.write_bytes(replace(policies, members=members).as_bytes())
    assert held_out_with(mine)[0] == []


def test_a_second_life_still_names_the_agent_of_the_pool(pool, tmp_path):
    """What `brigade export` writes of a run, and of a run that started from that file."""
    made = read_pool(pool)
    agent = next(each for each in made.agents if each.method == "iql_aux")
    own = load_policies(made.path(agent.name))
    assert started_as(str(made.path(agent.name))) == {"started_as": agent.name}
    for life in ("first", "second"):
        file = tmp_path / f"{life}.safetensors"
        start = made.path(agent.name) if life == "first" else tmp_path / "first.safetensors"
        origin = {**own.origin, "learner": "iql", **started_as(str(start))}
        file.write_bytes(replace(own, origin=origin, members=[{"name": life}]).as_bytes())
        found = LifelongSettings(stream="hard", pool=str(pool), learner=str(file)).with_files()
        assert found.intra
        assert all(Path(each).name.startswith("iql_aux-") for each in found.intra)


def test_the_benchmark_sets_the_paper_s_regularisation():
    """No decay of importance, heads included; MEAL's defaults are others."""
    for name, decay in (("online_ewc", 1.0), ("mas", 1.0), ("ewc", None)):
        settings = from_dict({"benchmark": "lifelong_hanabi/hard", "method": name}, ())
        assert getattr(settings.method, "decay", None) == decay
    online = from_dict({"benchmark": "lifelong_hanabi/hard", "method": "online_ewc"}, ())
    assert (online.method.heads, online.method.per_parameter) == (True, False)
    own = ("--method-settings.decay", "0.5")
    changed = from_dict({"benchmark": "lifelong_hanabi/hard", "method": "online_ewc"}, own)
    assert changed.method.decay == 0.5
    assert from_dict({"benchmark": "meal/level-1", "method": "online_ewc"}, ()).method.decay == 0.9


SETTINGS = {
    "benchmark": "lifelong_hanabi/hard",
    "method": "er",
    "preset": "laptop",
    "seeds": 2,
    "tasks": 3,
    "num_envs": 4,
    "num_steps": 12,
    "steps_per_task": 96,
    "eval_every": 2,
    "eval_episodes": 2,
    "few_shot_updates": 1,
    "q": SMALL_Q["q"],
    "method_settings": {"memory_size": 400, "sample_size": 40},
}


@pytest.fixture(scope="module")
def settings(pool):
    return SETTINGS | {"env": {"stream": "hard", "pool": str(pool)}}


@pytest.fixture(scope="module")
def life(settings, tmp_path_factory):
    return run(settings, tmp_path_factory.mktemp("life") / "run")


@pytest.mark.slow
def test_a_life_records_partners_clones_and_held_out_agents(life, pool):
    arrays, chosen = life.returns, read_pool(pool).stream("hard")
    evaluations = 4  # before, and after each of three tasks
    assert arrays["score"].shape == (evaluations, 3, 1, 2, 2, 2)
    assert arrays["few_shot_score"].shape == arrays["score"].shape
    names = arrays["held_out_names"].tolist()
    assert set(names) == {*chosen.intra, *chosen.inter}
    assert arrays["held_out_returns"].shape == (evaluations, len(names), 2, 2, 2)
    assert arrays["task_names"].tolist() == list(chosen.partners)


@pytest.mark.slow
def test_the_learner_starts_from_the_pool(life, settings, pool):
    parts = assemble(from_dict(settings))
    rounds = stack_sequences(parts.sequences, parts.lineup.pairings)
    state = parts.trainer.init(parts.seeds, rounds, parts.lineup.cast, parts.lineup.params)
    chosen = read_pool(pool).stream("hard").learner
    wanted = load_policies(pool / f"{chosen}.safetensors").params
    for a, b in zip(jax.tree.leaves(state.learner.params), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[0])
    assert parts.learner.policy.network.memory_size == 8  # the network is the file's


@pytest.mark.slow
def test_clones_leave_no_trace_in_training(life, settings, tmp_path):
    plain = run(settings | {"few_shot_updates": 0}, tmp_path / "plain")
    np.testing.assert_array_equal(plain.returns["score"], life.returns["score"])
    assert "few_shot_score" not in plain.returns
    one, other = load(life.path), load(plain.path)
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_a_clone_learns_with_its_partner_alone(life, settings):
    """Its updates are those of a new learner with the same parameters, and nothing else."""
    parts = assemble(from_dict(settings))
    (few_shot,) = [each for each in parts.also if isinstance(each, FewShot)]
    rounds, cast = stack_sequences(parts.sequences, parts.lineup.pairings), parts.lineup.cast
    start = parts.trainer.init(parts.seeds, rounds, cast, parts.lineup.params)
    params = jax.device_get(start.learner.params)
    keys = jax.random.split(KEY, 2)
    clone = few_shot.adapted(parts.trainer, start, keys, rounds, 1, cast)
    own = [jax.tree.map(lambda x, n=n: x[n], params) for n in (0, 1)]
    twin = few_shot.trainer.init_with(own, list(keys), rounds, cast)
    twin = few_shot.trainer.begin_task(twin, rounds, 1)
    twin, _ = few_shot.trainer.step(twin, rounds, 1, cast)
    changed = False
    for a, b, before in zip(
        *map(jax.tree.leaves, (clone.learner.params, twin.learner.params, params)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
        changed |= bool((np.asarray(a) != before).any())
    assert changed
    assert few_shot.trainer.learner.config.buffer_size <= parts.learner.config.buffer_size


@pytest.mark.slow
def test_clones_are_evaluated_on_their_own_task(life, settings):
    """Without updates a clone is the learner itself, so its games are the learner's."""
    parts = assemble(from_dict(settings))
    (few_shot,) = [each for each in parts.also if isinstance(each, FewShot)]
    rounds, cast = stack_sequences(parts.sequences, parts.lineup.pairings), parts.lineup.cast
    state = parts.trainer.init(parts.seeds, rounds, cast, parts.lineup.params)
    record = Record(tuple(parts.sequences[0].names), 1, tuple(parts.seeds))
    keys = jax.random.split(KEY, 2)
    replace(few_shot, updates=0)(parts.trainer, Position(0, 0, state, record), rounds, keys, cast)
    (played,) = record.columns["few_shot_returns"]
    by_task = jax.vmap(lambda key: jax.random.split(key, (3, 2)))(keys)
    for task in range(3):
        alone = jax.tree.map(lambda x, n=task: x[:, n : n + 1], rounds)
        wanted = evaluate(
            few_shot.trainer,
            few_shot.evaluator,
            state,
            alone,
            by_task[:, task, 1],
            cast,
        )
        np.testing.assert_array_equal(
            np.moveaxis(played[task], 2, 0), np.asarray(wanted.returns)[:, 0]
        )


@pytest.mark.slow
def test_held_out_agents_play_as_any_partner_would(life, settings):
    """The recorded games are those of an evaluation with these agents as the task's partners."""
    parts = assemble(from_dict(settings))
    (kept,) = [each for each in parts.also if isinstance(each, HeldOut)]
    rounds = stack_sequences(parts.sequences, parts.lineup.pairings)
    state = parts.trainer.init(parts.seeds, rounds, parts.lineup.cast, parts.lineup.params)
    keys = jnp.stack([evaluation_key(seed, 0) for seed in parts.seeds])
    number = 1_000_000_006 + parts.also.index(kept)
    keys = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)
    pairing = jax.tree.map(lambda x: jnp.stack([x, x]), kept.pairing)
    task = jax.tree.map(lambda x: x[:, :1], rounds.task)
    again = evaluate(
        parts.trainer,
        kept.evaluator,
        state,
        rounds.replace(task=task, pairing=pairing),
        keys,
        parts.benchmark.held_out.params,
    )
    recorded = life.returns["held_out_returns"][0]  # [partner, seat, seed, episode]
    np.testing.assert_array_equal(np.moveaxis(recorded, 2, 0), np.asarray(again.returns)[:, 0])


@pytest.mark.slow
def test_a_stopped_life_ends_the_same(life, settings, tmp_path):
    seen = []

    def interrupt(progress, *_):
        seen.append(progress)
        if len(seen) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, tmp_path / "stopped", watch=interrupt)
    again = resume(tmp_path / "stopped")
    assert again.returns.keys() == life.returns.keys()
    for name, values in life.returns.items():
        np.testing.assert_array_equal(again.returns[name], values)


@pytest.mark.slow
def test_measures_are_the_papers_equations(life):
    data = read_run(life.path)
    score = data.arrays["score"].mean((2, 3, 5))  # [eval, task, seed]
    clones = data.arrays["few_shot_score"].mean((2, 3, 5))
    for seed in (0, 1):
        table = score[1:, :, seed]  # after each task
        of = {name: find(name).compute(data)[seed] for name in data.measures}
        assert of["lifelong_average"] == pytest.approx(average_score(table)[-1], abs=1e-6)
        assert of["lifelong_forgetting"] == pytest.approx(forgetting(table)[-1], abs=1e-6)
        assert of["future_score"] == pytest.approx(future_score(table).mean(), abs=1e-6)
        assert of["current_score"] == pytest.approx(np.diag(table).mean(), abs=1e-6)
        assert of["few_shot_average"] == pytest.approx(clones[-1, :, seed].mean(), abs=1e-6)
        names = data.arrays["held_out_names"].tolist()
        inter = [names.index(name) for name in data.sets["inter"]]
        intra = [names.index(name) for name in data.sets["intra"]]
        kept = data.arrays["held_out_score"].mean((2, 4))  # [eval, partner, seed]
        gain = kept[-1, inter, seed].mean() - kept[0, inter, seed].mean()
        assert of["generalisation"] == pytest.approx(gain, abs=1e-6)
        points = data.arrays["held_out_returns"].mean((2, 4))
        assert of["inter_play"] == pytest.approx(points[-1, inter, seed].mean(), abs=1e-6)
        assert of["intra_play"] == pytest.approx(points[-1, intra, seed].mean(), abs=1e-6)


@pytest.mark.slow
def test_multi_task_learning_meets_all_partners_in_every_phase(settings):
    tree = {k: v for k, v in settings.items() if k != "method_settings"}
    parts = assemble(from_dict(tree | {"method": "mtl", "few_shot_updates": 0, "seeds": 1}))
    rounds, cast = stack_sequences(parts.sequences, parts.lineup.pairings), parts.lineup.cast
    state = parts.trainer.init(parts.seeds, rounds, cast, parts.lineup.params)
    state = parts.trainer.begin_task(state, rounds, 0)
    met = set()
    for _ in range(24):
        state, _ = parts.trainer.step(state, rounds, 0, cast)
        met |= set(np.unique(state.source.step.view.task_id).tolist())
    assert met == {0, 1, 2}
    assert parts.learner.updates_per_task == 3 * 2  # schedules last for the whole stream


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"few_shot_updates": -1}, "few_shot_updates is -1"),
        ({"network": {"memory_size": 16}}, "has another network than the learner"),
        ({"start_from": "nowhere.safetensors"}, "there is no policy file nowhere.safetensors"),
        ({"q": SMALL_Q["q"] | {"buffer_size": 2}}, "buffer_size is 2"),
        (
            {"q": SMALL_Q["q"] | {"batch_size": 2, "few_shot_buffer": 3}},
            "buffer_size is 3, but a rollout has 4",
        ),
        ({"network": {"memory_layers": 2}}, "another network .* memory_layers is 1, here 2"),
    ],
)
def test_bad_settings_are_refused(settings, tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        run(settings | change, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_learner_cannot_start_from_a_held_out_agent(settings, pool):
    kept = read_pool(pool).stream("hard").intra[0]
    with pytest.raises(UserError, match=f"is {kept}, which is held out for tests; start from"):
        assemble(from_dict(settings | {"start_from": str(pool / f"{kept}.safetensors")}))


def test_another_stream_is_another_benchmark(settings, pool):
    with pytest.raises(UserError, match="stream is easy; run lifelong_hanabi/easy"):
        from_dict(settings | {"env": {"stream": "easy", "pool": str(pool)}})


@pytest.mark.slow
def test_an_exported_policy_tells_whom_it_met_and_can_be_met(life, pool, tmp_path):
    policies = policies_of(load(life.path))
    met = {each["name"] for each in policies.origin["trained_with"]}
    chosen = read_pool(pool).stream("hard")
    assert met == {chosen.learner, *chosen.partners}
    file = tmp_path / "ego.safetensors"
    file.write_bytes(policies.only(policies.names[:1]).as_bytes())
    settings = LifelongSettings(stream="hard", pool=str(pool)).with_files()
    benchmark = stream(replace(settings, partners=(str(file),)))
    assert benchmark.cast.names == policies.names[:1]


@pytest.mark.slow
def test_curves_follow_the_papers_equations(life):
    data = read_run(life.path)
    score = data.score  # [eval, task, seed]: before, after tasks 1, 2 and 3
    curves = {name: find(name).curve(data) for name in data.measures if find(name).curve}
    last = score[3]
    np.testing.assert_allclose(curves["lifelong_average"][1], score[1, 0])
    np.testing.assert_allclose(curves["lifelong_average"][2], score[2, :2].mean(0))
    np.testing.assert_allclose(curves["lifelong_forgetting"][1], 0.0)
    np.testing.assert_allclose(
        curves["lifelong_forgetting"][3],
        (np.maximum(score[1, :2], score[2, :2]) - last[:2]).mean(0),
    )
    np.testing.assert_allclose(curves["future_score"][1], score[1, 1:].mean(0))
    assert np.isnan(curves["future_score"][3]).all()
    np.testing.assert_allclose(curves["current_score"][2], score[2, 1])
    finals = {
        name: find(name).compute(data) for name in ("lifelong_average", "lifelong_forgetting")
    }
    for name, values in finals.items():
        np.testing.assert_allclose(curves[name][-1], values)


def test_the_recorded_life_comes_out_of_its_games_again():
    page = (RESULTS / "lifelong_hanabi.md").read_text(encoding="utf-8")
    met = {"vdn-1-1", "vdn_op-4-1", "vdn-1-2", "iql_op-4-2", "iql_op-1-2"}
    groups = {
        "itself": {"learner"},
        "the five partners it met": met,
        "two agents it never met (`iql_aux-1-1`, `iql_aux-4-1`)": {"iql_aux-1-1", "iql_aux-4-1"},
    }
    folder = RESULTS / "lifelong-hanabi-figure-2"
    for name, others in groups.items():
        means = []
        for when in ("before", "after"):
            rows = csv.DictReader((folder / f"{when}.csv").read_text().splitlines())
            pairs = [({row["seat_0"], row["other_seats"]}, float(row["score"])) for row in rows]
            own = [(pair - {"learner"} or pair, s) for pair, s in pairs if "learner" in pair]
            means.append(np.mean([score for other, score in own if other <= others]))
        assert f"| {name} | {means[0]:.2f} | {means[1]:.2f} |" in page


def test_the_recorded_table_2_is_in_the_document():
    page = (RESULTS / "lifelong_hanabi.md").read_text(encoding="utf-8")
    rows = json.loads((RESULTS / "lifelong-hanabi-table-2" / "table.json").read_text())
    cells: dict[str, list[str]] = {}
    for row in rows:
        published = "-" if row["published"] is None else f"{row['published']:.2f}"
        cells.setdefault(row["run"], []).extend([f"{row['mean']:.2f}", published])
    assert len(cells) == 7
    for agent, numbers in cells.items():
        assert f"| {agent} | {' | '.join(numbers)} |" in page


SHOWN = {
    "figure-3": (
        *("current score", "average over partners", "forgetting", "future score"),
        *("few-shot average", "few-shot forgetting", "generalisation"),
    ),
    "figure-4": ("average over partners", "forgetting", "few-shot average", "generalisation"),
}


@pytest.mark.parametrize("figure", SHOWN)
def test_the_numbers_of_recorded_figures_are_in_the_document(figure):
    page = (RESULTS / "lifelong_hanabi.md").read_text(encoding="utf-8")
    rows = json.loads((RESULTS / f"lifelong-hanabi-{figure}" / "table.json").read_text())
    means: dict[str, dict[str, float]] = {}
    for row in rows:
        means.setdefault(row["run"], {})[row["measure"]] = row["mean"]
    assert len(means) >= 6
    for agent, found in means.items():
        cells = [f"{round(found[measure], 2) + 0.0:.2f}" for measure in SHOWN[figure]]
        assert f"| {agent} | {' | '.join(cells)} |" in page


def test_every_run_of_table_1_has_the_papers_penalty():
    for row in find_target("lifelong_hanabi/table-1", None).rows:
        experiment = from_dict(find_target("lifelong_hanabi/table-1").settings(row, "small"))
        if experiment.config.method in ("ewc", "online_ewc"):
            assert not experiment.method.per_parameter
            assert experiment.method.heads
        if experiment.config.method == "online_ewc":
            assert experiment.method.decay == 1.0
        assert experiment.learner.q.optimizer == ("sgd" if "SGD" in row.name else "adam")
        assert experiment.learner.q.reset_optimizer


# --- the pool, and tables from it ---

TINY = replace(
    SMALL,
    methods=("iql", "vdn_op"),
    architectures=(1,),
    divisor=32,
    episodes=2,
    streams={"easy": 1, "hard": 2, "10": 1},
    settings={
        "steps_per_task": 192,
        "num_envs": 8,
        "num_steps": 12,
        "eval_every": 2,
        "eval_episodes": 2,
        "env": GAME,
        "q": SMALL_Q["q"],
    },
)


@pytest.mark.slow
def test_a_pool_is_trained_played_and_not_made_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(hanabi_tables.SCALES, "small", TINY)
    out = tmp_path / "study"
    words = ["reproduce", "lifelong_hanabi/pool", "--out", str(out), "--quiet"]
    assert main(words) == 0
    made = read_pool(out / "pool")
    names = ["iql-1-1", "iql-1-2", "vdn_op-1-1", "vdn_op-1-2"]
    assert [each.name for each in made.agents] == names
    shown = capsys.readouterr().out
    assert "A pool of 4 agents" in shown
    assert {"table.md", "crossplay.png", "crossplay.html"} <= {p.name for p in out.iterdir()}
    agents = {name: load_policies(made.path(name)) for name in names}
    assert agents["iql-1-1"].game["variant"]["encoding"] == "beliefs"
    played = play_pool(agents, replace(ENV, encoding="beliefs"), 2, 0)
    np.testing.assert_allclose(made.returns, played.returns.mean(-1), atol=1e-3)
    parameters = [jax.tree.leaves(agents[name].params)[0] for name in names]
    assert len({np.asarray(each).tobytes() for each in parameters}) == 4
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    monkeypatch.setattr("brigade.launch.hanabi_pool.play_pool", None)  # not played again
    assert main(words) == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}


@pytest.mark.slow
def test_a_pool_too_small_for_its_streams_is_refused_before_training(tmp_path, capsys):
    words = ["reproduce", "lifelong_hanabi/pool", "--out", str(tmp_path / "out")]
    assert main([*words, "--methods", "iql", "vdn", "--seeds", "1"]) == 2
    assert "the pool has 3 agents" in capsys.readouterr().err
    assert main([*words, "--methods", "vdn"]) == 2
    assert "no agent of method iql to be the learner" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_every_method_and_architecture_can_be_put_together(tmp_path):
    scale = replace(
        TINY,
        methods=tuple(METHODS),
        architectures=tuple(ARCHITECTURES),
        settings={"env": GAME, "q": SMALL_Q["q"]},
    )
    study = NewPool(tmp_path, scale)
    runs = {each: study.experiment(*each) for each in study.members()}
    assert len(runs) == 50
    assert len({experiment.config.seed for experiment in runs.values()}) == 50
    for method, (kind, _) in METHODS.items():
        learner = runs[method, 2].learner
        assert type(learner).__name__.lower() == kind
        assert learner.add == Additions(
            op=method.endswith("op"), sad="sad" in method, aux=0.25 * ("aux" in method)
        )
    network = runs["iql", 5].learner.network
    assert (network.memory, network.memory_layers, network.hidden) == ("gru", 1, (16, 16))


def test_play_of_a_method_is_its_mean_or_its_best():
    agents = (agent("sad", 1, 1), agent("sad", 1, 2), agent("vdn", 1, 1))
    returns = np.array([[9.0, 2.0, 4.0], [4.0, 7.0, 8.0], [2.0, 6.0, 5.0]])
    found = Pool(None, agents, returns, {}, 1)
    mean = of_method(found, "sad", ["sad-1-2", "vdn-1-1"], best=False)
    # Both seat orders: 0 with 1 is 3, 0 with 2 is 3, 1 with 2 is 7.
    np.testing.assert_allclose(mean, Play([9.0, 7.0], [3.0, 3.0], [3.0, 7.0]))
    best = of_method(found, "sad", ["sad-1-2", "vdn-1-1"], best=True)
    np.testing.assert_allclose(best, Play([7.0], [3.0], [7.0]))
    with pytest.raises(UserError, match="has no agents of method iql"):
        start_of(found, "iql")


@pytest.mark.slow
def test_tables_compare_the_pool_with_agents_that_kept_learning(
    pool, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(hanabi_tables, "EPISODES", {"small": 2})
    one = {"IQL + ER": hanabi_tables.CONTINUAL["IQL + ER"]}
    monkeypatch.setattr(hanabi_tables, "CONTINUAL", one)
    fast = "--num-envs 4 --num-steps 12 --steps-per-task 48 --eval-episodes 2 --tasks 2".split()
    fast += ["--q.buffer-size", "64", "--q.warm-up", "4", "--q.batch-size", "4", "--quiet"]
    fast += [f"--env.pool={pool}"]
    out = tmp_path / "table"
    assert main(["reproduce", "lifelong_hanabi/table-2", "--out", str(out), *fast]) == 0
    numbers = json.loads((out / "table.json").read_text())
    rows = {(each["run"], each["measure"]): each for each in numbers}
    assert rows["SAD", "self-play"]["published"] == pytest.approx(23.85 / 25)
    assert rows["IQL + ER", "inter-play"]["published"] == pytest.approx(16.32 / 25)
    made = read_pool(pool)
    names = [each.name for each in made.agents]
    me = names.index(made.stream("hard").learner)
    before = rows["IQL + ER, before", "self-play"]["mean"]
    assert before == pytest.approx(made.returns[me, me] / 6, abs=1e-3)  # two colours, three ranks
    assert "Not in this pool: SAD + AUX, SAD + OP, SAD + AUX + OP." in capsys.readouterr().out
    assert main(["reproduce", "lifelong_hanabi/figure-2", "--out", str(out), *fast]) == 0
    assert (out / "before" / "crossplay.png").exists()
    assert (out / "after" / "crossplay.csv").read_text().startswith("seat_0,")


# --- recorded results ---

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGE = (RESULTS / "lifelong_hanabi.md").read_text(encoding="utf-8")


def test_the_recorded_pool_is_the_ready_made_one():
    """And the last two columns are those of the pool before it."""
    made = read_pool(READY_MADE)
    cells = hanabi_tables.compare_pool(made)
    earlier = read_pool(RESULTS / "lifelong-hanabi-pool-without-beliefs")
    assert earlier.agents == made.agents
    without = hanabi_tables.compare_pool(replace(made, returns=earlier.returns))
    before = [f"{cell.ours.mean:.2f}" for cell in without]
    for place in range(0, len(cells), 2):
        own, others = cells[place : place + 2]
        row = (own.row, str(own.ours), str(own.published), str(others.ours), str(others.published))
        assert f"| {' | '.join((*row, *before[place : place + 2]))} |" in PAGE


@pytest.mark.parametrize("number", [3, 4])
def test_the_rows_of_recorded_figures_are_named_as_their_runs(number):
    target = find_target(f"lifelong_hanabi/figure-{number}", None)
    records = json.loads((RESULTS / f"lifelong-hanabi-figure-{number}" / "table.json").read_text())
    assert list(dict.fromkeys(each["run"] for each in records)) == [row.name for row in target.rows]
    for row in target.rows:
        assert f"\n| {row.name} |" in PAGE


def test_the_recorded_table_comes_out_of_its_evaluations_again():
    target = find_target("lifelong_hanabi/table-1", None)
    assert len(target.rows) == 12
    for row in target.rows:
        folder = RESULTS / "lifelong-hanabi-table-1" / slug(row.name)
        cells = compare(target, [row], [folder])
        texts = [row.name]
        for cell in cells:
            texts += (
                [str(cell.ours)]
                if cell.published is None
                else [
                    str(cell.ours),
                    str(cell.published),
                ]
            )
        assert f"| {' | '.join(texts)} |" in PAGE


def test_the_ready_made_pool_is_audited():
    """No held-out agent of any stream acts like one that is met in training."""
    made = read_pool(READY_MADE)
    agents = {each.name: load_policies(made.path(each.name)) for each in made.agents}
    actions = probe_actions(agents, game(made))
    for found in made.streams.values():
        refuse_twins(found, actions)
    again = choose_streams(
        made.agents, made.returns, {name: len(each.partners) for name, each in made.streams.items()}
    )
    assert again == made.streams

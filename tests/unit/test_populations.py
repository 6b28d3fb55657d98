"""Populations: members learn as they would alone, generators say who meets whom and for what."""

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brigade
from brigade.cli import main
from brigade.cli.training import chosen_generator
from brigade.core import Acting, Seating
from brigade.core.seating import pairing_of
from brigade.envs.overcooked import Overcooked
from brigade.errors import UserError
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.methods.ft import FineTuning
from brigade.partners.files import load_policies
from brigade.populations.brdiv import BRDiv
from brigade.populations.ego import EgoGenerator
from brigade.populations.sp import SelfPlay
from brigade.runs.assemble import assemble
from brigade.runs.checkpoints import read_state
from brigade.runs.config import from_dict
from brigade.runs.config_files import read_file
from brigade.runs.export import policies_of
from brigade.runs.run import load, resume, run
from brigade.runs.snapshots import at_stages
from brigade.testing import check_generator
from brigade.train import DeviceSource, Players, Trainer
from brigade.train.members import for_each
from brigade.train.programs import init_policies, of_each_policy
from brigade.train.update import update

KEY = jax.random.key(0)
ENV = Overcooked(2, 4, 5, horizon=8)


def learner_for(generator, memory="none", epochs=2):
    """The learner of each policy."""
    ppo = PPOConfig(epochs=epochs, minibatches=2, shaping_steps=None)
    network = NetworkConfig(hidden=(8,), memory=memory, memory_size=4)
    told = {"critic_ids": generator.critic_ids} if generator.critic_ids else {}
    return IPPO(ppo, network).build(ENV, num_tasks=1, updates_per_task=4, **told)


def played(generator, memory="none", num_envs=None):
    """A rollout of the population with its trainer, and the learner's and generator's states."""
    learner, tables = learner_for(generator, memory), generator.tables
    cast = generator.cast(learner.policy)
    players = Players(
        learner.policy,
        cast.groups,
        own_seats=1 if cast.groups else 0,
        members=generator.policies,
        names_partners=generator if generator.critic_ids else None,
    )
    source = DeviceSource(ENV, players, num_envs or 2 * tables, 8, tables)
    trainer = Trainer(source, learner, FineTuning(), generator)
    state = jax.jit(partial(init_policies, trainer))(KEY)
    matches = generator.init(state.params, learner.policy, KEY)
    seating = generator.seat(matches, pairing_of(generator.evaluation(2)[0]), tables, 2, KEY)
    task = brigade.get("benchmarks", "overcooked/layout")().sequence(0, 1, 1)[0]
    acting = Acting(state.params, generator.partners(matches, state.params, ()), seating)
    _, traj = jax.jit(source.next)(source.start(KEY, task), acting, task, KEY)
    return trainer, state, matches, traj


EXAMPLE = str(Path(__file__).parents[2] / "examples" / "population_play.py:PopulationPlay")


EGOS = [
    name
    for name in brigade.names("generators")
    if issubclass(brigade.get("generators", name), EgoGenerator)
]
POPULATIONS = [name for name in brigade.names("generators") if name not in EGOS]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*POPULATIONS, EXAMPLE])
def test_generators_keep_their_promises(name):
    kind = brigade.get("generators", name)
    generator = kind(members=3)
    trainer, _, _, traj = played(generator)
    check_generator(generator, trainer, ENV, traj)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", "gru"])
def test_a_member_learns_as_it_would_alone(memory):
    """The same rollout, cut out for each member, through the one update: the same parameters."""
    trainer, state, matches, traj = played(SelfPlay(members=3), memory)
    base = trainer.learner
    each = jax.jit(partial(of_each_policy, trainer))(state.params, matches, traj)
    learn = partial(update, base, FineTuning())
    together, _, _ = jax.jit(partial(for_each, 3, learn))(KEY, state, (), each)
    prepare = jax.jit(base.prepare)

    @jax.jit
    def gradient_step(own, data, row):
        batch = base.take(data, row)
        grads = jax.grad(lambda params: base.loss(params, own, batch, KEY)[0])(own.params)
        return base.apply_gradients(own, grads)

    for member, key in enumerate(jax.random.split(KEY, 3)):
        prepare_key, _, _ = jax.random.split(key, 3)
        alone, own = (jax.tree.map(lambda x, m=member: x[m], tree) for tree in (each, state))
        own, data, index = prepare(own, alone, prepare_key)
        for row in index:  # plainly, one gradient step after another
            own = gradient_step(own, data, row)
        for a, b in zip(jax.tree.leaves(own.params), jax.tree.leaves(together.params), strict=True):
            np.testing.assert_allclose(a, b[member], atol=2e-6)


@pytest.mark.slow
def test_a_member_gets_what_its_own_seats_saw():
    trainer, state, matches, traj = played(BRDiv(members=2))
    split = of_each_policy(trainer, state.params, matches, traj)
    assert split.action.shape == (4, 8, 4, 1)  # policies, steps, 2 places x 2 games, seat
    member = np.repeat(np.asarray(traj.seating.member), 2, axis=0)  # [games, seats]
    for policy in range(4):
        games, seats = np.nonzero(member == policy)
        mine = np.asarray(traj.action)[:, games, seats]
        found = np.asarray(split.action)[policy, :, :, 0]
        assert sorted(map(tuple, mine.T)) == sorted(map(tuple, found.T))
        whom = np.asarray(split.view.state.seat)[policy, 0, :, 0]
        met = np.array(
            [member[game][1 - seat] % 2 for game, seat in zip(games, seats, strict=True)]
        )
        assert sorted(whom.tolist()) == sorted(met.tolist())


@pytest.mark.slow
def test_shared_shaping_is_shared_before_members_part():
    trainer, state, matches, traj = played(SelfPlay(members=2))
    shaped = jnp.zeros(traj.reward.shape).at[..., 0].set(3.0)
    traj = traj.replace(info=traj.info | {"shaped_reward": shaped})
    split = of_each_policy(trainer, state.params, matches, traj)
    assert np.unique(split.info["shaped_reward"]).tolist() == [3.0]


# --- BRDiv ---


def all_pairs(members, swapped=False):
    pairing = np.arange(members**2)
    member = np.stack([members + pairing % members, pairing // members], 1)
    member = member[:, ::-1] if swapped else member
    return Seating(jnp.asarray(member), jnp.ones((members**2, 2), bool))


@pytest.mark.parametrize("swapped", [False, True])
def test_brdiv_weighs_own_pairs_against_all_others(swapped):
    """The weighted mean of all returns is the objective, up to a factor; worked by hand.

    3 partners, a = 1: own pairs (1 + 2) / 3 each, others 2 c / 6: as c = 1/2 and as c = 1.
    """
    release = np.asarray(BRDiv().weights((), all_pairs(3, swapped))).reshape(3, 3)
    np.testing.assert_allclose(release, np.where(np.eye(3), 1.0, -1 / 6), rtol=1e-6)
    original = np.asarray(BRDiv(cross_play=1.0).weights((), all_pairs(3, swapped))).reshape(3, 3)
    np.testing.assert_allclose(original, np.where(np.eye(3), 1.0, -1 / 3), rtol=1e-6)
    weights = BRDiv(members=4, diversity=0.3, cross_play=0.7).weights((), all_pairs(4, swapped))
    returns = np.random.default_rng(0).uniform(size=(4, 4))
    own = np.eye(4, dtype=bool)
    objective = 1.6 * returns[own].mean() - 2 * 0.3 * 0.7 * returns[~own].mean()
    weighted = (np.asarray(weights).reshape(4, 4) * returns).sum() * 1.6 / 4
    assert weighted == pytest.approx(objective, rel=1e-5)


@pytest.mark.slow
def test_brdiv_pays_by_pairing():
    """Others are paid for what they do not achieve: soups and shaping alike."""
    trainer, _, _, traj = played(BRDiv(members=2, both_seats=False))
    ones = jnp.ones(traj.reward.shape)
    traj = traj.replace(reward=20 * ones, info=traj.info | {"shaped_reward": 3 * ones})
    paid = trainer.matchmaker.reward((), trainer.learner, None, traj)
    weight = np.repeat(np.array([1.0, -1 / 3, -1 / 3, 1.0]), 2)  # 2 a c / ((n - 1) (1 + 2 a))
    np.testing.assert_allclose(paid.reward[0, :, 0], 20 * weight, rtol=1e-6)
    np.testing.assert_allclose(paid.info["shaped_reward"][3, :, 1], 3 * weight, rtol=1e-6)


def test_brdiv_plays_all_pairings_on_both_seats():
    generator = BRDiv(members=3)
    seen = set()
    for number in range(20):
        member = np.asarray(generator.seat((), None, 9, 2, jax.random.key(number)).member)
        pairs = {tuple(sorted(row)) for row in member.tolist()}
        assert pairs == {(i, 3 + j) for i in range(3) for j in range(3)}
        seen |= {tuple(row) for row in member.tolist()}
    assert len(seen) == 18
    fixed = BRDiv(members=3, both_seats=False).seat((), None, 9, 2, KEY).member
    assert (np.asarray(fixed)[:, 0] >= 3).all()


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", "gru"])
def test_critics_know_whom_they_play_with_and_actors_do_not(memory):
    trainer, state, matches, traj = played(BRDiv(members=2), memory)
    base, each = trainer.learner, of_each_policy(trainer, state.params, matches, traj)
    own, first = (jax.tree.map(lambda x: x[0], tree) for tree in (each, state))
    params = first.params
    _, data, index = base.prepare(first, own, KEY)
    batch = base.take(data, index[0])
    swapped = batch.inputs.joint.replace(seat=1 - batch.inputs.joint.seat)
    other = batch.replace(inputs=batch.inputs.replace(joint=swapped))
    here, there = base.outputs(params, batch), base.outputs(params, other)
    np.testing.assert_array_equal(here.logits, there.logits)
    assert not np.allclose(here.value, there.value)


# --- runs ---

SMALL = {
    "benchmark": "overcooked/layout",
    "preset": "laptop",
    "num_steps": 100,
    "steps_per_task": 1,
    "eval_every": 1,
    "eval_episodes": 1,
    "ppo": {"epochs": 1, "minibatches": 2},
    "network": {"hidden": [8]},
}


@pytest.mark.slow
def test_a_population_is_a_run_like_any_other(tmp_path):
    """Stopped and taken up again, it ends bit for bit the same."""
    settings = SMALL | {
        "generator": "brdiv",
        "generator_settings": {"members": 2},
        "num_envs": 8,
        "steps_per_task": 2400,
    }
    whole = run(settings, tmp_path / "whole")

    def interrupt(progress, position, experiment):
        if progress.update == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, tmp_path / "stopped", watch=interrupt)
    resume(tmp_path / "stopped")
    again = (tmp_path / "stopped" / "returns.npz").read_bytes()
    assert again == (whole.path / "returns.npz").read_bytes()
    assert whole.returns["partner_names"].tolist() == [
        f"brdiv-{i} with response-{j}" for i in (1, 2) for j in (1, 2)
    ]
    assert whole.returns["score"].shape == (4, 1, 4, 1, 1, 1)
    config = json.loads((whole.path / "config.json").read_text())
    assert config["measures"] == ["own_pairs", "other_pairs"]
    assert config["sets"] == {"own": [f"brdiv-{i} with response-{i}" for i in (1, 2)]}
    assert "soups" in config["meanings"]["score"]
    assert config["config"]["generator_settings"]["members"] == 2
    assert load(whole.path).parts.trainer.policies == 4


@pytest.mark.slow
def test_an_ego_with_an_archive_continues_as_if_never_stopped(tmp_path):
    """COLE's archive, estimates and tries are part of the checkpoint; snapshots are kept."""
    settings = {
        "benchmark": "overcooked/layout",
        "generator": "cole",
        "generator_settings": {"archive": 3, "generation": 1},
        "env": {"horizon": 8},
        "seeds": 2,
        "num_envs": 8,
        "num_steps": 8,
        "steps_per_task": 256,
        "eval_every": 2,
        "eval_episodes": 1,
        "snapshots": 3,
        "ppo": {"epochs": 1, "minibatches": 2},
        "network": {"hidden": [8]},
    }
    whole = run(settings, tmp_path / "whole")
    assert whole.returns["partner_names"].tolist() == ["itself"]
    assert whole.returns["seat_names"].tolist() == ["0", "1"]

    def interrupt(progress, position, experiment):
        if progress.update == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, tmp_path / "stopped", watch=interrupt)
    resume(tmp_path / "stopped")
    again = (tmp_path / "stopped" / "returns.npz").read_bytes()
    assert again == (whole.path / "returns.npz").read_bytes()
    last, before = (load(tmp_path / name) for name in ("whole", "stopped"))
    for a, b in zip(jax.tree.leaves(last.params), jax.tree.leaves(before.params), strict=True):
        assert (a == b).all()
    policies = policies_of(last)
    assert policies.names == ("whole-seed0", "whole-seed1")
    kept = sorted(path.stem.lstrip("0") for path in (whole.path / "snapshots").iterdir())
    assert kept == ["", "128", "256"]
    stages = at_stages(whole.path, policies, ("init", "final"))
    assert stages.names == ("whole-seed0-init", "whole-seed0", "whole-seed1-init", "whole-seed1")
    first = load_policies(whole.path / "snapshots" / f"{0:015d}.safetensors")
    for a, b in zip(jax.tree.leaves(stages.params), jax.tree.leaves(first.params), strict=True):
        assert (a[0] == b[0]).all()
        assert (a[2] == b[1]).all()


def test_e3t_meets_a_noisy_copy_of_itself(tmp_path):
    settings = {
        "benchmark": "overcooked/layout",
        "generator": "e3t",
        "env": {"horizon": 8},
        "num_envs": 8,
        "num_steps": 8,
        "steps_per_task": 64,
        "eval_episodes": 1,
        "ppo": {"epochs": 1, "minibatches": 2},
        "network": {"hidden": [8]},
    }
    parts = assemble(from_dict(settings))
    assert [type(group.policy).__name__ for group in parts.trainer.source.players.cast] == [
        "Noisy",
        "ActorCriticPolicy",
    ]
    params, strategy = parts.learner.policy.init(KEY), parts.trainer.matchmaker
    state = strategy.init(params, parts.learner.policy, KEY)
    copy, own = strategy.partners(state, params, ())
    for a, b in zip(jax.tree.leaves(copy), jax.tree.leaves(own), strict=True):
        assert (a == b).all()
    pairing = jax.tree.map(lambda x: x[0], parts.lineup.pairings[0])
    seating = strategy.seat(state, pairing, 8, 2, KEY)
    assert seating.own.sum(1).tolist() == [1] * 8  # one seat each is the ego's
    assert seating.own.sum(0).tolist() == [4, 4]
    assert (seating.member[~seating.own] == 0).all()  # the noisy copy, never itself


@pytest.mark.parametrize(
    "more",
    [
        {"generator": "cole"},
        {"generator": "lbrdiv", "num_envs": 9},
        {"generator": "comedi", "num_envs": 24},
        {"partners": ["random", "static"], "partner_sampling": "ranked"},
    ],
)
def test_what_compares_returns_needs_whole_episodes(more):
    settings = {"benchmark": "overcooked/layout", "num_steps": 100, "num_envs": 8, **more}
    with pytest.raises(UserError, match="whole episodes, use --num-steps 400"):
        assemble(from_dict(settings))


def test_hard_partners_are_met_more_often_with_ranked_sampling():
    settings = {
        "benchmark": "overcooked/layout",
        "partners": ["random", "static"],
        "partner_sampling": "ranked",
        "env": {"horizon": 8},
        "num_envs": 12,
        "num_steps": 8,
        "ppo": {"minibatches": 2},
    }
    parts = assemble(from_dict(settings))
    pairing = jax.tree.map(lambda x: x[0], parts.lineup.pairings[0])
    seating = parts.trainer.matchmaker.seat(jnp.array([5.0, 60.0]), pairing, 12, 2, KEY)
    counts = np.bincount(np.asarray(seating.member[~seating.own]), minlength=2)
    assert counts.tolist() == [8, 4]  # ranks 2 and 1
    alone = {name: value for name, value in settings.items() if name != "partners"}
    with pytest.raises(UserError, match="it needs partners, add --partners"):
        assemble(from_dict(alone))


@pytest.mark.slow
def test_a_population_from_the_command_line(tmp_path, capsys):
    """Self-play on kitchens of a level; the file is loaded as partners."""
    small = (
        "--num-envs 4 --num-steps 100 --steps-per-task 400 --eval-episodes 1 --ppo.epochs 1 "
        "--ppo.minibatches 2 --network.hidden 8 --preset laptop"
    ).split()
    out = tmp_path / "pop"
    assert main(["population", "meal/level-1", "--members", "2", *small, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "Self-play" in shown
    assert f"policies: {out / 'population.safetensors'}" in shown
    found = load_policies(out / "population.safetensors")
    assert found.names == ("sp-1", "sp-2")
    assert found.origin["generator"] == "sp"
    returns = np.load(out / "returns.npz")
    assert found.members[0]["score"] == pytest.approx(returns["score"][-1, 0, 0].mean(), abs=1e-4)
    assert main(["report", str(out)]) == 0
    capsys.readouterr()
    assert main(["watch", str(out), "--partner", "sp-2"]) == 0
    assert "seed0-task1-table2.gif" in capsys.readouterr().out
    assert main(["watch", str(out), "--partner", "sp-3"]) == 2
    assert "unknown partner 'sp-3'" in capsys.readouterr().err


def test_defaults_of_a_population_grow_with_it():
    config = from_dict(
        {
            "benchmark": "meal/level-1",
            "preset": "laptop",
            "generator": "sp",
            "generator_settings": {"members": 5},
        }
    ).config
    assert (config.seeds, config.tasks, config.num_envs) == (1, 1, 80)
    assert config.steps_per_task == pytest.approx(5 * 5e5, rel=0.02)
    brdiv = from_dict({"benchmark": "overcooked/layout", "generator": "brdiv"})
    assert brdiv.config.num_envs == 72
    assert brdiv.learner.ppo.value_clip is None


@dataclass(frozen=True)
class Uneven(SelfPlay):
    """Lets the first policy sit everywhere."""

    def seat(self, state, pairing, tables, seats, key):
        seating = super().seat(state, pairing, tables, seats, key)
        return seating.replace(member=jnp.zeros_like(seating.member))


def test_a_generator_that_seats_unevenly_is_refused():
    experiment = from_dict(SMALL | {"generator": "sp", "num_envs": 8})
    with pytest.raises(UserError, match="each must have the same"):
        assemble(replace(experiment, generator=Uneven(members=8)))


@pytest.mark.slow
def test_the_generator_of_a_config_file_holds(tmp_path, capsys):
    file = tmp_path / "brdiv.toml"
    file.write_text('benchmark = "overcooked/layout"\ngenerator = "brdiv"\n')
    assert chosen_generator(["--config", str(file)]) == "brdiv"
    assert chosen_generator(["--config", str(file), "--generator=sp"]) == "sp"
    assert chosen_generator(["overcooked/layout"]) is None
    assert main(["population", "overcooked/layout", "--generator", "none"]) == 2
    assert "a population needs one of brdiv, cole, " in capsys.readouterr().err
    words = ["plan", "--config", str(file), "--no-measure", "--preset", "laptop"]
    assert main(words) == 0
    assert from_dict(read_file(str(file))).generator == BRDiv()


HANABI = {
    "benchmark": "hanabi/standard",
    "env": {"colors": 1, "ranks": 2, "hand_size": 2, "life_tokens": 1, "hint_tokens": 1},
    "preset": "laptop",
    "num_envs": 4,
    "num_steps": 20,
    "steps_per_task": 160,
    "eval_every": 1,
    "eval_episodes": 2,
    "q": {"buffer_size": 64, "warm_up": 2, "batch_size": 2, "gradient_steps": 2, "target_every": 1},
    "network": {"hidden": [8], "memory_size": 8},
}
TINY = SMALL | {"env": {"horizon": 8}, "num_steps": 8, "network": {"hidden": [8]}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "seats"),
    [
        (HANABI | {"generator": "sp", "learner": "vdn"}, 2),  # learns from the sum over a table
        (HANABI | {"generator": "brdiv", "learner": "iql"}, 1),
        (
            TINY
            | {"benchmark": "meal/level-1", "generator": "sp", "method": "ewc", "tasks": 2}
            | {"num_envs": 4, "steps_per_task": 64, "env": {}},
            1,
        ),
        (
            TINY
            | {"generator": "comedi", "num_envs": 12, "steps_per_task": 192}
            | {"network": {"hidden": [8], "memory": "gru", "memory_size": 4}},
            1,
        ),
    ],
    ids=["VDN", "IQL", "EWC", "GRU"],
)
def test_populations_work_with_every_learner_and_method_that_fits(settings, seats, tmp_path):
    """Q-learning renews the target network of each policy; EWC keeps the parameters of each."""
    done = run(settings | {"generator_settings": {"members": 2}}, tmp_path / "run")
    state = load(done.path)
    policies = state.parts.trainer.policies
    params = jax.tree.map(lambda x: np.asarray(x[0]), state.params)
    for leaf in jax.tree.leaves(params):
        assert len(leaf) == policies
        assert np.isfinite(leaf).all()
    kernels = [leaf for leaf in jax.tree.leaves(params) if leaf.ndim > 2]
    assert all(not np.array_equal(leaf[0], leaf[1]) for leaf in kernels)
    kept = read_state(max((done.path / "checkpoints").iterdir()), state.parts)
    if "q" in settings:
        assert kept.learner.aux.steps[0].tolist() == [4] * policies  # 2 rollouts x 2
        for a, b in zip(
            jax.tree.leaves(kept.learner.aux.target), jax.tree.leaves(state.params), strict=True
        ):
            np.testing.assert_array_equal(a, b)  # renewed after every gradient step
        assert kept.learner.aux.buffer.entries.action.shape[-1] == seats
    if settings.get("method") == "ewc":
        anchors = [leaf for leaf in jax.tree.leaves(kept.memory) if leaf.ndim > 3]
        assert anchors
        assert all(leaf.shape[1] == policies for leaf in anchors)
        assert any((leaf[0, 0] != leaf[0, 1]).any() for leaf in anchors)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"generator": "brdv"}, "did you mean 'brdiv'"),
        ({"generator": "brdiv", "generator_settings": {"members": 1}}, "members is 1"),
        ({"generator": "brdiv", "generator_settings": {"cross_play": -1.0}}, "cross_play is -1.0"),
        ({"generator": "brdiv", "num_envs": 10}, "it must be a multiple of 9"),
        ({"generator": "brdiv", "learner": "mappo"}, "cannot be central or share a trunk"),
        ({"generator": "hsp", "learner": "mappo"}, "use ippo or iql"),
        ({"generator": "sp", "partners": ["human"]}, "a population trains without partners"),
        ({"generator": "mep", "network": {"memory": "gru"}}, "needs policies without memory"),
        ({"generator": "brdiv", "network": {"shared_trunk": True}}, "no shared_trunk"),
        (
            {"benchmark": "meal/level-1", "generator": "brdiv", "env": {"num_agents": 3}},
            "this game has 3",
        ),
    ],
)
def test_populations_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        assemble(from_dict(SMALL | settings))


def test_what_learns_from_a_whole_table_needs_one_policy_there():
    with pytest.raises(UserError, match="seats different policies at a table"):
        assemble(from_dict(HANABI | {"generator": "brdiv", "learner": "vdn"}))


def test_a_population_has_a_table_for_every_member():
    parts = assemble(from_dict(SMALL | {"generator": "sp", "num_envs": 8}))
    assert parts.trainer.source.tables == 8


@pytest.mark.slow
@pytest.mark.parametrize(("generator", "games"), [(SelfPlay(members=3), 2), (BRDiv(members=3), 6)])
def test_schedules_count_the_steps_of_each_policy(generator, games):
    """Two games a table: self-play has both seats of its own, a pair of BRDiv one seat in three."""
    trainer, state, matches, traj = played(generator)
    each = of_each_policy(trainer, state.params, matches, traj)
    assert each.steps == 8 * games
    assert traj.steps == 8 * 2 * generator.tables


def test_shaping_fades_by_the_steps_of_each_policy():
    """After as many steps of its own as a learner alone: 2 policies, 8 games of 100 steps."""
    settings = SMALL | {"generator": "sp", "generator_settings": {"members": 2}, "num_envs": 8}
    settings |= {"ppo": SMALL["ppo"] | {"shaping_steps": 800}}
    learner = assemble(from_dict(settings)).learner
    weights = [float(learner.shaping_weight(jnp.int32(n), 4 * 100)) for n in range(4)]
    assert weights == [1.0, 0.5, 0.0, 0.0]

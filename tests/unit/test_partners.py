"""Partners by name, and the stream of eight partners. Cooks have a file of their own."""

import hashlib
from importlib.resources import files

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.benchmarks.meal_partners import OURS, SCHEDULE, PartnerSettings, partners
from brigade.cli import main
from brigade.core.trees import pick
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.errors import UserError
from brigade.partners import Random
from brigade.runs.assemble import assemble
from brigade.runs.baselines import one_task
from brigade.runs.config import from_dict
from brigade.train.programs import acting_with
from brigade.train.trainer import stack_sequences

KEY = jax.random.key(0)


def kitchen(name):
    grid = LAYOUTS[name]
    return Overcooked(height=len(grid), width=len(grid[0])), task_from_grid(grid)


def test_random_partners_take_all_actions_alike():
    env, task = kitchen("cramped_room")
    view = env.reset(KEY, task)[1].view
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (3000, *x.shape)), view)
    actions, _, _ = Random().act((), (), many, KEY)
    np.testing.assert_allclose(np.bincount(actions.ravel(), minlength=6) / 6000, 1 / 6, atol=0.025)


# --- the stream of partners ---


@pytest.mark.slow
def test_a_task_keeps_its_partner_when_it_is_learned_alone():
    whole = partners().sequence(3, 8, 1000)
    assert whole.names == SCHEDULE
    assert whole.tasks.id.tolist() == list(range(8))
    for place, name in enumerate(SCHEDULE):
        alone = one_task(whole, place)
        assert alone.partners == ((name,),)
        assert int(alone[0].id) == 0


def test_our_learned_partners_belong_to_the_kitchen_and_differ():
    policies = PartnerSettings().learned()
    assert policies.names == ("brdiv-1", "brdiv-2", "brdiv-3")
    assert policies.origin["env"] == {"layout": "cramped_room"}
    soups = np.array([member["soups_with_responses"] for member in policies.members])
    own = np.eye(3, dtype=bool)
    assert soups[own].min() >= 9
    assert soups[~own].max() <= 0.5
    env, task = kitchen("cramped_room")
    view = env.reset(KEY, task)[1].view
    network = policies.policy.network
    logits = jax.vmap(lambda p: network.apply({"params": p}, view.obs, view.task_id).logits)
    best = np.asarray(jax.nn.softmax(logits(policies.params)))[:, 1]
    assert np.abs(best[0] - best[1]).sum() + np.abs(best[1] - best[2]).sum() > 0.5


def test_our_learned_partners_never_change():
    """Runs name them without keeping a copy; a better population gets a name of its own."""
    content = files("brigade.partners").joinpath(OURS).read_bytes()
    assert hashlib.sha256(content).hexdigest()[:16] == "37a8a2c9405638ff"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partners": ("humn",)}, "did you mean 'human'"),
        ({"partners": ("brdiv1", "human")}, "did you mean 'brdiv-1'"),
        ({"partners": ("human",), "population": "nowhere.safetensors"}, "there is no policy file"),
        ({"partners": ("brdiv-4",)}, "unknown partner 'brdiv-4'"),
        ({"partners": ("human", "human")}, "name each partner once"),
        ({"partners": ()}, "partners is empty"),
        ({"layout": "cramped"}, "did you mean 'cramped_room'"),
        ({"layout": "coordination_ring"}, "no trained partners for coordination_ring"),
        ({"drops": 1.5}, "from 0 to 1"),
    ],
)
def test_partners_that_do_not_fit_are_refused(settings, message):
    with pytest.raises((UserError, ValueError), match=message):
        partners(PartnerSettings(**settings))


@pytest.mark.slow
def test_more_tasks_than_partners_are_refused(capsys):
    assert main(["run", "meal/partners", "--tasks", "9"]) == 2
    assert "--tasks is 9, but there are 8 partners" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "method"), [("none", "er"), ("gru", "ewc")])
def test_a_learner_learns_with_partners(memory, method):
    """One update with each of two partners; only the learner's own seat is learned from."""
    experiment = from_dict(
        {
            "benchmark": "meal/partners",
            "method": method,
            "tasks": 2,
            "num_envs": 2,
            "num_steps": 40,
            "steps_per_task": 80,
            "eval_episodes": 1,
            "env": {"partners": ["brdiv-2", "static"]},
            "ppo": {"epochs": 1, "minibatches": 2},
            "network": {"hidden": [8], "memory": memory, "memory_size": 8},
        }
    )
    parts = assemble(experiment)
    cast, rounds = (
        parts.lineup.cast,
        stack_sequences(parts.sequences[:1], parts.lineup.pairings[:1]),
    )
    state = parts.trainer.init([0], rounds, cast)
    for index in range(2):
        state = parts.trainer.begin_task(state, rounds, index)
        state, metrics = parts.trainer.step(state, rounds, index, cast)
        assert np.isfinite(np.asarray(metrics["loss"])).all()
        state = parts.trainer.end_phase(state, rounds, index, "train", cast)
    if method == "er":  # no slot goes to the partner
        kept = state.memory.samples
        assert float(kept.weight[0, :10].min()) == 1.0
    else:
        importance = jax.tree.leaves(state.memory.importance)
        assert max(float(jnp.abs(leaf).max()) for leaf in importance) > 0
    one, now = pick(state, 0), pick(pick(rounds, 0), 1)
    acting = acting_with(parts.trainer, one.learner.params, one.matches, cast, now.pairing, KEY)
    _, traj = jax.jit(parts.trainer.source.next)(one.source, acting, now.task, KEY)
    assert traj.action.shape == (40, 2, 1)
    assert np.asarray(traj.seat).tolist() == [[0], [0]]
    # The partner that stays shows in the view alone: its place never changes.
    theirs = np.asarray(traj.view.obs)[:, :, 0, :, :, 1]
    assert (theirs == theirs[:1]).all()
    mine = np.asarray(traj.view.obs)[:, :, 0, :, :, 0]
    assert (mine != mine[:1]).any()

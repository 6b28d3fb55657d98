"""A stream over kitchens and partners; partners of smaller kitchens."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.benchmarks.zsc_stream import Cropped, StreamSettings, stream
from brigade.core import Policy
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.learners import IPPO, NetworkConfig
from brigade.partners.files import Policies, interface
from brigade.runs.assemble import assemble
from brigade.runs.config import from_dict

pytestmark = pytest.mark.slow

KEY = jax.random.key(0)


def save_partners(folder, layout, number=2):
    """A file of untrained policies for a layout."""
    grid = LAYOUTS[layout]
    env = Overcooked(2, len(grid), len(grid[0]))
    learner = IPPO(network=NetworkConfig(hidden=(4,))).build(env, num_tasks=1, updates_per_task=1)
    every = [learner.policy.actor(learner.policy.init(jax.random.key(n)), 0) for n in range(number)]
    params = jax.tree.map(lambda *x: jnp.stack(x), *[params for _, params in every])
    members = [{"name": f"p{n}"} for n in range(number)]
    path = folder / f"{layout}.safetensors"
    path.write_bytes(Policies(every[0][0], params, interface(env), members).as_bytes())
    return str(path)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("partners")
    kitchens = ("coordination_ring", "counter_circuit")
    files = tuple(save_partners(folder, name) for name in kitchens)
    return StreamSettings(kitchens, files, per_kitchen=2)


def test_every_task_is_a_kitchen_with_one_of_its_partners(settings):
    benchmark = stream(settings)
    sequence = benchmark.sequence(0, 4, 1)
    assert benchmark.num_tasks == 4
    assert sequence.names == (
        "coordination_ring with p0",
        "coordination_ring with p1",
        "counter_circuit with p0",
        "counter_circuit with p1",
    )
    assert sequence.partners == tuple((name,) for name in sequence.names)
    assert benchmark.cast.names == sequence.names
    assert benchmark.env.obs_shape == (5, 8, 26)
    kinds = [type(group.policy).__name__ for group in benchmark.cast.groups]
    assert kinds == ["Cropped", "ActorCriticPolicy"]  # only the ring is smaller
    tile = np.asarray(sequence.tasks.tile)
    assert (tile[0] == tile[1]).all()
    assert (tile[2] == tile[3]).all()
    with pytest.raises(ValueError, match="there are 4 pairs of a kitchen and a partner"):
        benchmark.sequence(0, 5, 1)


def test_a_partner_sees_its_own_kitchen_in_a_larger_one():
    """The same game in both sizes: cropped observations are those of the kitchen itself."""
    grid = LAYOUTS["coordination_ring"]
    small, large = Overcooked(2, 5, 5, 60, "up"), Overcooked(2, 5, 8, 60, "up")
    tasks = task_from_grid(grid), task_from_grid(grid, height=5, width=8)
    actions = jax.random.randint(KEY, (60, 2), 0, 6)

    def play(env, task):
        state, now = env.reset(KEY, task)
        seen = [now.view.obs]
        step = jax.jit(env.step)
        for action in actions:
            state, now = step(KEY, state, action, task)
            seen.append(now.view.obs)
        return jnp.stack(seen)

    class Watcher(Policy):
        def act(self, params, carry, view, key, greedy=False):
            return view.obs, carry, {}

    here = play(small, tasks[0])
    view = large.reset(KEY, tasks[1])[1].view.replace(obs=play(large, tasks[1]))
    cropped, _, _ = Cropped(Watcher(), 5, 5).act((), (), view, KEY)
    np.testing.assert_array_equal(cropped, here)


def test_a_stream_is_put_together_with_every_shape_checked(settings):
    tree = {
        "benchmark": "zsc_eval/stream",
        "env": {
            "kitchens": settings.kitchens,
            "partners": settings.partners,
            "per_kitchen": 2,
            "horizon": 8,
        },
        "tasks": 3,
        "num_envs": 4,
        "num_steps": 8,
        "ppo": {"minibatches": 2},
    }
    parts = assemble(from_dict(tree))
    assert parts.lineup.partner_names == ("partner 1 of the task",)
    assert parts.lineup.seat_names == ("0", "1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kitchens": ("coordination_rng",)}, "did you mean 'coordination_ring'"),
        ({"kitchens": ("counter_circuit", "counter_circuit")}, "a kitchen is named twice"),
        ({"partners": ("x.safetensors",)}, "give one file per kitchen"),
        ({"per_kitchen": 0}, "per_kitchen is 0"),
    ],
)
def test_wrong_streams_are_refused(settings, changes, message):
    with pytest.raises(ValueError, match=message):
        replace(settings, **changes)


def test_too_few_partners_and_those_of_another_kitchen_are_refused(settings):
    with pytest.raises(ValueError, match="has 2 partners; give at most that"):
        stream(replace(settings, per_kitchen=3))
    swapped = replace(settings, partners=settings.partners[::-1])
    with pytest.raises(Exception, match="was trained for an environment with observation"):
        stream(swapped)

"""Dormant units, counted while networks are called."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.parts import NUM_ENVS, NUM_STEPS, example, make_learner

from brigade.core import Acting
from brigade.metrics.plasticity import dormant_ratio
from brigade.nets.dormant import dormant_share, recorded_activations
from brigade.nets.layers import Hidden
from brigade.train import DeviceSource, Players


def test_the_share_is_that_of_the_metric():
    layers = [jnp.array([[1.0, 0.0, 2.0, 0.001]]), jnp.array([[0.0, 0.0], [0.0, 1.0]])]
    expected = np.mean([dormant_ratio(np.asarray(layer)) for layer in layers])
    assert expected == pytest.approx((2 / 4 + 1 / 2) / 2)
    assert float(dormant_share(layers)) == pytest.approx(expected)


@pytest.mark.slow
def test_a_learner_tells_how_many_of_its_units_sleep():
    env, sequence = example()
    learner = make_learner(env)
    source = DeviceSource(env, Players(learner.policy), NUM_ENVS, NUM_STEPS)
    state = learner.init(jax.random.key(0))
    loop = source.start(jax.random.key(1), sequence[0])
    _, traj = jax.jit(source.next)(loop, Acting(state.params), sequence[0], jax.random.key(2))
    _, data, index = learner.prepare(state, traj, jax.random.key(3))
    batch = learner.take(data, index[0])
    with recorded_activations() as layers:
        learner.outputs(state.params, batch)
    assert [layer.shape[-1] for layer in layers] == [16] * 2  # the actor's, not the critic's
    # A layer whose outputs are all 0 is dormant as a whole: half of all layers.
    norm = state.params["actor_trunk"]["Hidden_0"]["LayerNorm_0"]
    asleep = {name: 0.0 * leaf for name, leaf in norm.items()}
    trunk = state.params["actor_trunk"]
    hidden = trunk["Hidden_0"] | {"LayerNorm_0": asleep}
    tired = state.params | {"actor_trunk": trunk | {"Hidden_0": hidden}}
    awake, dormant = (
        float(learner.diagnose(params, batch)["dormant"]) for params in (state.params, tired)
    )
    assert awake < 0.5 <= dormant


@pytest.mark.parametrize("norm", [{}, {"layer_norm": False}, {"norm_last": True}])
def test_dead_units_are_dormant_wherever_the_norm_is(norm):
    layer = Hidden(8, **norm)
    inputs, task = jnp.ones((5, 3)), jnp.zeros(5, jnp.int32)
    params = layer.init(jax.random.key(0), inputs, task)["params"]
    dead = params["Linear_0"]["bias"].at[:4].set(-1e3)
    params = params | {"Linear_0": params["Linear_0"] | {"bias": dead}}
    with recorded_activations() as layers:
        layer.apply({"params": params}, inputs, task)
    assert len(layers) == 1
    assert (np.asarray(layers[0])[:, :4] == 0).all()

"""Networks: every knob of the paper does what its name says."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from brigade.nets import ActorCritic
from brigade.nets.norm import (
    BLOCK,
    backward,
    backward_kernel,
    forward,
    forward_kernel,
    normed_activation,
)

OBS = jax.random.randint(jax.random.key(0), (3, 2, 5, 5, 4), 0, 4).astype(jnp.uint8)


def build(**knobs):
    net = ActorCritic(num_actions=6, num_tasks=3, hidden=(8, 8), **knobs)
    return net, net.init(jax.random.key(1), OBS, jnp.zeros((3, 2), jnp.int32))


def sizes(params):
    return {
        "/".join(key.key for key in path): leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(params["params"])
    }


@pytest.mark.parametrize(
    ("encoder", "shared", "heads", "one_hot"),
    itertools.product(("mlp", "cnn"), (True, False), (True, False), ("none", "heads", "input")),
)
def test_every_combination_answers_in_shape(encoder, shared, heads, one_hot):
    net, params = build(
        encoder=encoder, shared_trunk=shared, multi_head=heads, task_one_hot=one_hot
    )
    out = net.apply(params, OBS, jnp.array([[0, 1], [2, 0], [1, 2]]))
    assert out.logits.shape == (3, 2, 6)
    assert out.value.shape == (3, 2)


def test_heads_are_slices_of_one_layer_chosen_by_task():
    net, params = build(task_one_hot="none")
    assert sizes(params)["actor_head/kernel"] == (8, 3 * 6)
    one = net.apply(params, OBS[0, :1], jnp.array([1]))
    head = params["params"]["actor_head"]
    zeroed = {"kernel": head["kernel"].at[:, 6:12].set(0), "bias": head["bias"]}
    changed = {"params": params["params"] | {"actor_head": zeroed}}
    assert np.abs(one.logits).max() > 0
    assert np.abs(net.apply(changed, OBS[0, :1], jnp.array([1])).logits).max() == 0
    for other in (0, 2):
        before = net.apply(params, OBS[0, :1], jnp.array([other])).logits
        after = net.apply(changed, OBS[0, :1], jnp.array([other])).logits
        np.testing.assert_array_equal(before, after)


def test_without_heads_and_one_hot_the_task_changes_nothing():
    net, params = build(multi_head=False, task_one_hot="none")
    a = net.apply(params, OBS[0], jnp.array([0, 0]))
    b = net.apply(params, OBS[0], jnp.array([2, 1]))
    np.testing.assert_array_equal(a.logits, b.logits)


def test_the_one_hot_enters_where_asked():
    at_input, at_heads = build(task_one_hot="input")[1], build(task_one_hot="heads")[1]
    first = "actor_trunk/Hidden_0/Linear_0/kernel"
    assert sizes(at_input)[first] == (100 + 3, 8)
    assert sizes(at_input)["actor_head/kernel"][0] == 8
    assert sizes(at_heads)[first] == (100, 8)
    assert sizes(at_heads)["actor_head/kernel"][0] == 8 + 3


def test_a_shared_trunk_has_no_trunk_of_its_own_for_anyone():
    shared, separate = sizes(build(shared_trunk=True)[1]), sizes(build()[1])
    assert {name.split("/")[0] for name in shared} == {"trunk", "actor_head", "critic_head"}
    assert {name.split("/")[0] for name in separate} == {
        "actor_trunk",
        "critic_trunk",
        "actor_head",
        "critic_head",
    }


def test_layer_norm_comes_after_every_hidden_layer_or_not_at_all():
    with_norm, without = sizes(build()[1]), sizes(build(layer_norm=False)[1])
    assert sum("LayerNorm" in name and name.endswith("scale") for name in with_norm) == 4
    assert not any("LayerNorm" in name for name in without)


def test_weights_start_orthogonal_with_the_papers_gains():
    _, params = build(task_one_hot="none", multi_head=False)
    hidden = params["params"]["actor_trunk"]["Hidden_1"]["Linear_0"]
    np.testing.assert_allclose(hidden["kernel"].T @ hidden["kernel"], 2 * np.eye(8), atol=1e-5)
    head = params["params"]["actor_head"]
    np.testing.assert_allclose(head["kernel"].T @ head["kernel"], 1e-4 * np.eye(6), atol=1e-8)
    assert float(jnp.abs(hidden["bias"]).max()) == 0.0


def test_tanh_and_relu_differ():
    relu, params = build(activation="relu")
    tanh, _ = build(activation="tanh")
    ids = jnp.zeros((3, 2), jnp.int32)
    assert not np.allclose(relu.apply(params, OBS, ids).value, tanh.apply(params, OBS, ids).value)


SAMPLES, FEATURES = 4 * BLOCK, 16


def norm_inputs():
    x, dy = (3 * jax.random.normal(jax.random.key(k), (SAMPLES, FEATURES)) for k in (0, 1))
    return x, *(jax.random.normal(jax.random.key(k), (FEATURES,)) for k in (2, 3, 4)), dy


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_hand_made_gradient_of_the_norm_is_that_of_flax(activation):
    *inputs, dy = norm_inputs()

    def plain(x, x_bias, scale, bias):
        normed = nn.LayerNorm().apply({"params": {"scale": scale, "bias": bias}}, x + x_bias)
        return getattr(nn, activation)(normed)

    def ours(*inputs):
        return normed_activation(*inputs, activation)

    (a, back_a), (b, back_b) = (jax.vjp(f, *inputs) for f in (plain, ours))
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    for wanted, found in zip(back_a(dy), back_b(dy), strict=True):
        np.testing.assert_allclose(wanted, found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_gpu_kernels_of_the_norm_compute_what_the_plain_version_does(activation):
    *inputs, dy = norm_inputs()
    np.testing.assert_allclose(
        forward_kernel(activation, interpret=True)(*inputs),
        forward(activation, *inputs),
        atol=1e-5,
    )
    found = backward_kernel(activation, interpret=True)(*inputs, dy)
    for a, b in zip(backward(activation, *inputs, dy), found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)

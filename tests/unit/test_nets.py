"""Networks: every knob of the paper does what its name says."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from brigade.nets import ActorCritic, ChangingInputs
from brigade.nets.convolution import convolution, max_pool
from brigade.nets.encoders import encoder_class, whole_pictures
from brigade.nets.layers import exact_times
from brigade.nets.memory import Memory, carry_size
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


@pytest.mark.slow
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


def test_layer_norm_may_come_after_the_activation():
    """The release's order: the last hidden layer is then centred, before it never is."""
    for norm_last, mean in ((True, 0.0), (False, None)):
        net, params = build(norm_last=norm_last)
        _, kept = net.apply(params, OBS, jnp.zeros((3, 2), jnp.int32), capture_intermediates=True)
        layer = kept["intermediates"]["actor_trunk"]["Hidden_1"]["__call__"][0]
        if norm_last:
            np.testing.assert_allclose(layer.mean(-1), mean, atol=1e-5)
            np.testing.assert_allclose(layer.std(-1), 1.0, atol=1e-3)
        else:
            assert layer.min() == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "cell"), [("gru", nn.GRUCell(8)), ("lstm", nn.OptimizedLSTMCell(8))]
)
def test_recurrent_cores_and_their_gradients_are_those_of_flax(kind, cell):
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (7, 5, 6))
    first = jax.random.bernoulli(keys[1], 0.3, (7, 5))
    carry = jax.random.normal(keys[2], (5, carry_size(kind, 8)))
    core = Memory(kind, 8)
    params = core.init(keys[3], x, carry, first)["params"]
    params = jax.tree.map(lambda p: p + 0.1 * jnp.arange(p.size).reshape(p.shape) / p.size, params)

    def ours(params, x, carry):
        hidden, last = core.apply({"params": params}, x, carry, first)
        return jnp.sum(hidden**2) + jnp.sum(last * jnp.arange(last.shape[-1])), hidden

    def step_by_step(params, x, carry):
        (cell_params,) = params.values()
        hidden = []
        for now, restart in zip(x, first, strict=True):
            carry = jnp.where(restart[:, None], 0.0, carry)
            states = carry if kind == "gru" else tuple(jnp.split(carry, 2, axis=-1))
            states, out = cell.apply({"params": cell_params}, states, now)
            carry = states if kind == "gru" else jnp.concatenate(states, axis=-1)
            hidden.append(out)
        hidden = jnp.stack(hidden)
        return jnp.sum(hidden**2) + jnp.sum(carry * jnp.arange(carry.shape[-1])), hidden

    found, expected = (
        jax.value_and_grad(function, (0, 1, 2), has_aux=True)(params, x, carry)
        for function in (ours, step_by_step)
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected
    )


def test_a_convolution_of_changing_entries_is_that_of_the_whole_picture():
    net, params = build(encoder="cnn")
    same = jnp.broadcast_to(OBS[:1, :1], OBS.shape)  # most entries never change
    obs = jnp.where(jnp.arange(4) == 2, OBS, same).reshape(6, 5, 5, 4)
    task = jnp.zeros(6, jnp.int32)

    def value(params, obs, task):
        out = net.apply(params, obs, task)
        return jnp.sum(out.value**2) + jnp.sum(out.logits[:, 1])

    expected = jax.value_and_grad(value)(params, obs, task)
    found = jax.value_and_grad(value)(params, ChangingInputs.of(obs, 30), task[0])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected
    )


@pytest.mark.parametrize("knobs", [{}, {"memory": "gru"}])
def test_logits_and_values_are_not_rounded_to_bfloat16(knobs):
    """Near 64, bfloat16 knows only every half."""
    low = ActorCritic(num_actions=6, hidden=(128,), dtype=jnp.bfloat16, **knobs)
    obs, task, one = OBS[:, 0], jnp.zeros(3, jnp.int32), jnp.ones(3, bool)
    if knobs:
        arguments = (obs[None], task[None], one[None], low.initial_carry((3,)))
        method, take = ActorCritic.over_sequence, lambda out: out[0]
    else:
        arguments, method, take = (obs, task), ActorCritic.__call__, lambda out: out
    params = low.init(jax.random.key(0), *arguments, method=method)
    head = params["params"]["critic_head"]
    params["params"]["critic_head"] = {"kernel": 20 * head["kernel"], "bias": head["bias"] + 64.3}
    value = take(low.apply(params, *arguments, method=method)).value
    assert value.dtype == jnp.float32
    assert np.abs(value - value.astype(jnp.bfloat16)).max() > 0.01
    # The products of the head, with the same features, are those of float32.
    x = jax.random.normal(jax.random.key(1), (64, 128)).astype(jnp.bfloat16)
    kernel = 20 * jax.random.normal(jax.random.key(2), (128, 6))
    exact = x.astype(jnp.float32) @ kernel
    np.testing.assert_allclose(exact_times(x, kernel), exact, atol=1e-5 * np.abs(exact).max())
    slope = jax.grad(lambda x, k: jnp.sum(exact_times(x, k) ** 2), (0, 1))(x, kernel)
    plain = jax.grad(lambda x, k: jnp.sum((x.astype(jnp.float32) @ k) ** 2), (0, 1))(x, kernel)
    for a, b in zip(slope, plain, strict=True):
        np.testing.assert_allclose(a.astype(jnp.float32), b, atol=1e-2 * np.abs(b).max())


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


@pytest.mark.parametrize(("width", "stride"), [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2), (4, 3)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolutions_as_products_equal_those_of_xla(width, stride, padding):
    """On a CPU they are products over neighbourhoods; values and gradients are the same."""
    pictures = jax.random.normal(jax.random.key(0), (3, 7, 6, 2))
    kernel = jax.random.normal(jax.random.key(1), (width, width, 2, 5))

    def of_xla(pictures, kernel):
        return jax.lax.conv_general_dilated(
            pictures,
            kernel,
            (stride, stride),
            padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    def ours_of(pictures, kernel):
        return convolution(pictures, kernel, stride, same=padding == "SAME")

    np.testing.assert_allclose(
        ours_of(pictures, kernel), of_xla(pictures, kernel), rtol=1e-5, atol=1e-5
    )
    for argument in (0, 1):
        ours, theirs = (
            jax.grad(lambda *x, f=f: (f(*x) ** 2).sum(), argument)(pictures, kernel)
            for f in (ours_of, of_xla)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(8, 8), (7, 9)])
def test_pooling_equals_that_of_xla(size):
    pictures = jax.random.normal(jax.random.key(0), (2, *size, 3))
    expected = jax.lax.reduce_window(
        pictures, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
    )
    np.testing.assert_array_equal(max_pool(pictures, 3, 2), expected)


@pytest.mark.parametrize(
    ("encoder", "features", "convolutions"),
    # As published: 7 x 7 x 64 and 11 x 11 x 32 features of pictures of 84 x 84 x 4.
    [("nature", 3136, 3), ("impala", 3872, 15)],
)
def test_networks_for_pictures_have_their_published_shapes(encoder, features, convolutions):
    net = ActorCritic(4, hidden=(16,), encoder=encoder, layer_norm=False, shared_trunk=True)
    pictures = jnp.zeros((2, 84, 84, 4), jnp.uint8)
    params = jax.eval_shape(net.init, jax.random.key(0), pictures, jnp.zeros(2, jnp.int32))
    found = sizes(params)
    assert found["trunk/Hidden_0/Linear_0/kernel"] == (features, 16)
    kernels = [shape for name, shape in found.items() if len(shape) == 4]
    assert len(kernels) == convolutions


def test_pictures_of_bytes_are_scaled_and_others_are_not():
    small = jnp.full((2, 5, 5, 3), 51, jnp.uint8)
    assert whole_pictures(small).max() == pytest.approx(0.2)
    assert whole_pictures(small.astype(jnp.float32)).max() == 51.0
    inputs = ChangingInputs.of(small.at[1, 0, 0, 0].set(255), 4)
    assert whole_pictures(inputs).shape == (2, 5, 5, 3)
    assert float(whole_pictures(inputs)[1, 0, 0, 0]) == 1.0


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("nature", (5, 5, 26), "at least 36 x 36 pixels, and these have 5 x 5"),
        ("impala", (7,), "needs observations .height, width, channels., but here they are .7."),
        ("natur", (5, 5, 26), "did you mean 'nature'"),
        ("brigade", (7,), "unknown encoder"),
    ],
)
def test_encoders_that_do_not_fit_are_refused(name, shape, message):
    with pytest.raises(ValueError, match=message):
        encoder_class(name).check(name, shape)

"""Losses and advantages against numbers worked by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.parts import NUM_ENVS, NUM_STEPS, example, make_learner

from brigade.core import Acting
from brigade.core.distributions import Categorical
from brigade.learners import PPOConfig
from brigade.learners.losses import (
    clipped_surrogate,
    clipped_value_loss,
    generalised_advantage,
    normalise,
    shuffled_minibatches,
    total_reward,
    weighted_mean,
)
from brigade.learners.return_scale import ReturnScale
from brigade.train import DeviceSource, Players


def column(*numbers):
    """[T, B=1, seats=1]."""
    return jnp.array(numbers, jnp.float32).reshape(-1, 1, 1)


def flags(*numbers):
    return jnp.array(numbers, bool).reshape(-1, 1)


def advantages(terminated, cut):
    """Rewards 1, 2, 3; values 10, 20, 30, then 40; gamma 0.5, lambda 0.5."""
    return generalised_advantage(
        column(1, 2, 3), column(10, 20, 30, 40), flags(*terminated), flags(*cut), 0.5, 0.5
    ).ravel()


def test_advantages_of_a_running_game():
    # deltas: 1 + 10 - 10 = 1, 2 + 15 - 20 = -3, 3 + 20 - 30 = -7
    # advantages: -7; -3 - 7/4 = -4.75; 1 - 4.75/4 = -0.1875
    np.testing.assert_allclose(advantages([0, 0, 0], [0, 0, 0]), [-0.1875, -4.75, -7.0])


def test_nothing_follows_the_end_of_a_game():
    # The second step ends it: delta 2 - 20 = -18; the third belongs to another game.
    np.testing.assert_allclose(advantages([0, 1, 0], [0, 1, 0]), [1 - 18 / 4, -18.0, -7.0])


def test_a_time_limit_keeps_the_value_of_what_would_have_followed():
    # Cut but not worthless: delta 2 + 15 - 20 = -3, and no advantage flows back over it.
    np.testing.assert_allclose(advantages([0, 0, 0], [0, 1, 0]), [1 - 3 / 4, -3.0, -7.0])


@pytest.mark.parametrize(
    ("new", "advantage", "expected"),
    [
        (1.1, 2.0, 2.2),  # inside the clip
        (1.5, 2.0, 2.4),  # gain capped at 1.2
        (0.5, 2.0, 1.0),  # a loss of gain is never capped
        (1.5, -2.0, -3.0),  # nor is harm
        (0.5, -2.0, -1.6),  # avoided harm is capped at 0.8
    ],
)
def test_the_surrogate_is_pessimistic(new, advantage, expected):
    got = clipped_surrogate(jnp.log(new), jnp.log(1.0), jnp.float32(advantage), 0.2)
    assert float(got) == pytest.approx(expected, rel=1e-5)


def test_the_value_loss_takes_the_larger_error():
    # Old 1.0, new 2.0, target 2.5: clipped to 1.2, error 1.3; plain error 0.5. Half of 1.69.
    got = clipped_value_loss(jnp.float32(2.0), jnp.float32(1.0), jnp.float32(2.5), 0.2)
    assert float(got) == pytest.approx(0.5 * 1.69, rel=1e-6)
    plain = clipped_value_loss(jnp.float32(2.0), jnp.float32(1.0), jnp.float32(2.5), None)
    assert float(plain) == pytest.approx(0.125)


def test_entropy_of_a_known_distribution():
    # probabilities 1/2, 1/4, 1/4: 0.5 ln 2 + 2 * 0.25 ln 4 = 1.5 ln 2
    logits = jnp.log(jnp.array([0.5, 0.25, 0.25]))
    assert float(Categorical.entropy(logits)) == pytest.approx(1.5 * np.log(2), rel=1e-6)


def test_weights_leave_samples_out():
    values, weight = jnp.array([1.0, 3.0, 100.0]), jnp.array([1.0, 1.0, 0.0])
    assert float(weighted_mean(values, weight)) == 2.0
    np.testing.assert_allclose(normalise(values, weight)[:2], [-1.0, 1.0], rtol=1e-6)
    assert float(weighted_mean(values, jnp.zeros(3))) == 0.0


def test_every_sample_comes_once_per_epoch():
    index = shuffled_minibatches(jax.random.key(0), 12, epochs=3, minibatches=4)
    assert index.shape == (12, 3)
    for epoch in np.asarray(index).reshape(3, 12):
        assert sorted(epoch) == list(range(12))
    assert not np.array_equal(np.sort(index[0]), np.sort(index[4]))


def test_minibatches_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match=r"10 samples .* do not divide into 4 minibatches"):
        shuffled_minibatches(jax.random.key(0), 10, 1, 4)


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0},
        {"minibatches": -1},
        {"shaping_steps": 0.0},
        {"gamma": 1.5},
        {"clip": float("nan")},
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueError, match="it must be"):
        PPOConfig(**settings)


@pytest.fixture(scope="module")
def rollout():
    env, sequence = example()
    learner = make_learner(env)
    source = DeviceSource(env, Players(learner.policy), NUM_ENVS, NUM_STEPS)
    state = learner.init(jax.random.key(0))
    loop = source.start(jax.random.key(1), sequence[0])
    _, traj = jax.jit(source.next)(loop, Acting(state.params), sequence[0], jax.random.key(2))
    return env, state, traj


def recorded(traj, last):
    """What a policy with a memory would have recorded: values 0, then `last`."""
    nothing = jnp.zeros(traj.action.shape)
    return {
        "extras": {"value": nothing, "log_prob": nothing},
        "last": {"value": jnp.full(traj.action.shape[1:], last)},
    }


@pytest.mark.slow
def test_what_was_not_recorded_is_worked_out(rollout):
    """Step by step with the whole observation, as the policy saw it."""
    env, state, traj = rollout
    learner = make_learner(env)
    _, data, _ = learner.prepare(state, traj, jax.random.key(0))
    values, log_probs = [], []
    for step in range(NUM_STEPS):
        view = jax.tree.map(lambda x, step=step: x[step], traj.view)
        out = learner.policy.outputs(state.params, view.obs, view.task_id, view.avail)
        chosen = jnp.take_along_axis(
            jax.nn.log_softmax(out.logits), traj.action[step][..., None], axis=-1
        )
        values.append(out.value)
        log_probs.append(chosen[..., 0])
    np.testing.assert_allclose(data.value, jnp.stack(values).reshape(-1), atol=1e-5)
    np.testing.assert_allclose(data.log_prob, jnp.stack(log_probs).reshape(-1), atol=1e-5)


@pytest.mark.slow
def test_the_loss_is_the_weighted_sum_of_its_terms(rollout):
    """Policy loss plus half the value loss, less the entropy: undecided policies are rewarded."""
    env, state, traj = rollout
    learner = make_learner(env, entropy_coef=0.3, value_coef=0.5)
    _, data, index = learner.prepare(state, traj, jax.random.key(0))
    batch = learner.take(data, index[0])
    total, terms = learner.loss(state.params, state, batch, jax.random.key(1))
    assert terms["entropy"] > 1.0  # of six actions, freshly initialised: nearly log 6
    expected = terms["policy_loss"] + 0.5 * terms["value_loss"] - 0.3 * terms["entropy"]
    np.testing.assert_allclose(total, expected, rtol=1e-5)

    # The policy term by itself: one step up its gradient makes actions of positive advantage
    # likelier, whatever the signs in between.
    def log_prob(params):
        out = learner.outputs(params, batch)
        return jax.nn.log_softmax(out.logits)[jnp.arange(len(batch.action)), batch.action]

    plain = make_learner(env, entropy_coef=0.0, value_coef=0.0)
    grads = jax.grad(lambda p: plain.loss(p, state, batch, jax.random.key(1))[0])(state.params)
    stepped = jax.tree.map(lambda p, g: p - 1e-2 * g, state.params, grads)
    advantage = (batch.advantage - batch.advantage.mean()) / batch.advantage.std()
    gain = (log_prob(stepped) - log_prob(state.params)) * advantage
    assert float(gain.mean()) > 0.0


@pytest.mark.slow
def test_leaving_out_what_never_changes_changes_nothing(rollout):
    """Loss and gradient of the reduced observations are those of the whole ones."""
    env, state, traj = rollout
    kept = make_learner(env)
    fewer = dataclasses.replace(kept, changing_inputs=192)

    def loss_and_gradient(learner, standalone):
        _, data, index = learner.prepare(state, traj, jax.random.key(0))
        batch = learner.take(data, index[0])
        batch = learner.standalone(batch) if standalone else batch
        loss_of = jax.value_and_grad(lambda p: learner.loss(p, state, batch, jax.random.key(1))[0])
        return batch, loss_of(state.params)

    whole, expected = loss_and_gradient(kept, standalone=False)
    reduced, result = loss_and_gradient(fewer, standalone=False)
    again, from_memory = loss_and_gradient(fewer, standalone=True)
    assert whole.inputs.obs[0].size == 650
    assert reduced.inputs.obs.shape[1:] == (192,)
    np.testing.assert_array_equal(again.inputs.obs, whole.inputs.obs)
    for other in (result, from_memory):
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_rehearsal_clones_what_was_done_and_its_value(rollout):
    env, state, traj = rollout
    learner = make_learner(env)
    _, data, index = learner.prepare(state, traj, jax.random.key(0))
    batch = learner.standalone(learner.take(data, index[0]))
    weight = jnp.ones_like(batch.weight).at[0].set(0.0)  # not the learner's own move
    batch = batch.replace(weight=weight)
    out = learner.outputs(state.params, batch)
    logits = np.asarray(out.logits, np.float64)
    chosen = np.take_along_axis(logits, np.asarray(batch.action)[:, None], axis=1)[:, 0]
    unlikely = (np.log(np.exp(logits).sum(1)) - chosen)[1:].mean()
    error = 0.5 * np.square(np.asarray(out.value) - np.asarray(batch.target)).mean()
    loss, _ = learner.rehearse(state.params, state, batch)
    np.testing.assert_allclose(loss, unlikely + learner.config.value_coef * error, rtol=1e-5)

    # An action that has become unlikely still pulls; in PPO's own loss its ratio is 0.
    far = batch.replace(log_prob=batch.log_prob + 50.0, advantage=jnp.ones_like(batch.advantage))
    raw = dataclasses.replace(
        learner, config=dataclasses.replace(learner.config, normalise_advantage=False)
    )
    heads = [
        jax.grad(lambda p, of=of: of(p)[0])(state.params)["actor_head"]["kernel"]
        for of in (
            lambda p: raw.rehearse(p, state, far),
            lambda p: raw.loss(p, state, far, jax.random.key(1)),
        )
    ]
    assert jnp.abs(heads[0]).max() > 1e-3
    assert jnp.abs(heads[1]).max() < 1e-3  # the entropy bonus alone


@pytest.mark.slow
def test_too_few_kept_entries_cannot_go_unnoticed(rollout):
    env, state, traj = rollout
    learner = dataclasses.replace(make_learner(env), changing_inputs=8)
    _, data, index = learner.prepare(state, traj, jax.random.key(0))
    loss, _ = learner.loss(state.params, state, learner.take(data, index[0]), jax.random.key(1))
    assert bool(jnp.isnan(loss))


@pytest.mark.slow
def test_shaping_is_summed_over_seats_or_kept_apart(rollout):
    _, _, traj = rollout
    shaped = jnp.zeros_like(traj.reward).at[0, 0].set(jnp.array([3.0, 5.0]))
    traj = traj.replace(info=traj.info | {"shaped_reward": shaped}, reward=traj.reward * 0)
    assert total_reward(traj, jnp.float32(0.5), share=True)[0, 0].tolist() == [4.0, 4.0]
    assert total_reward(traj, jnp.float32(0.5), share=False)[0, 0].tolist() == [1.5, 2.5]


@pytest.mark.slow
def test_shaping_fades_over_the_steps_of_a_task(rollout):
    env, state, traj = rollout
    steps = NUM_ENVS * NUM_STEPS
    learner = make_learner(env, shaping_steps=4.0 * steps)
    traj = traj.replace(
        info=traj.info | {"shaped_reward": jnp.ones_like(traj.reward)},
        reward=traj.reward * 0,
        **recorded(traj, last=0.0),
    )

    def last_advantage(updates):
        """At the last step the advantage is the reward: two seats' shaping."""
        _, data, _ = learner.prepare(
            state.replace(updates=jnp.int32(updates)), traj, jax.random.key(0)
        )
        return float(data.advantage[-1])

    assert [last_advantage(u) for u in (0, 1, 2, 4, 9)] == [2.0, 1.5, 1.0, 0.0, 0.0]


@pytest.mark.slow
def test_the_learning_rate_falls_to_its_end_within_a_task(rollout):
    env, state, _ = rollout
    learner = make_learner(env, learning_rate=1.0, final_learning_rate=0.0)  # 4 updates per task
    ones = jax.tree.map(jnp.ones_like, state.params)

    def step_size(updates):
        after = learner.apply_gradients(state.replace(updates=jnp.int32(updates)), ones)
        moved = jax.tree.map(lambda a, b: jnp.abs(a - b).max(), state.params, after.params)
        return float(max(jax.tree.leaves(moved)))

    first = step_size(1)
    assert first > 0
    assert [step_size(u) / first for u in (2, 3, 4, 5)] == pytest.approx([0.75, 0.5, 0.25, 0.0])


@pytest.mark.slow
def test_the_gradient_is_clipped_by_its_norm(rollout):
    """Adam forgets scale, so two gradients beyond the limit give the same step."""
    env, state, _ = rollout
    learner = make_learner(env)
    big = jax.tree.map(lambda p: jnp.full_like(p, 1e3), state.params)
    bigger = jax.tree.map(lambda p: jnp.full_like(p, 1e4), state.params)
    a = learner.apply_gradients(state.replace(updates=jnp.int32(1)), big)
    b = learner.apply_gradients(state.replace(updates=jnp.int32(1)), bigger)
    moments = [jax.tree.leaves(s.opt_state) for s in (a, b)]
    for x, y in zip(*moments, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4)


@pytest.mark.slow
def test_the_optimiser_is_carried_over_a_boundary_unless_asked(rollout):
    env, state, _ = rollout
    ones = jax.tree.map(jnp.ones_like, state.params)
    for reset, steps_counted in ((False, 1), (True, 0)):
        learner = make_learner(env, reset_optimizer=reset)
        stepped = learner.apply_gradients(state.replace(updates=jnp.int32(1)), ones)
        begun = learner.begin_task(stepped)
        assert int(begun.opt_state[1].count) == steps_counted


@pytest.mark.slow
def test_the_time_limit_can_count_as_the_end(rollout):
    env, state, traj = rollout
    bootstrap, terminal = make_learner(env), make_learner(env, time_limit="terminal")
    assert bool(traj.truncated[-1].all())  # the rollout is as long as a game
    traj = traj.replace(**recorded(traj, last=100.0))
    key = jax.random.key(0)
    a = bootstrap.prepare(state, traj, key)[1].advantage[-1]
    b = terminal.prepare(state, traj, key)[1].advantage[-1]
    assert float(a - b) == pytest.approx(0.99 * 100.0, rel=1e-5)


def test_returns_are_scaled_by_their_running_mean_and_deviation():
    # 1 and 3: mean 2, variance 1. Then 5 and 7 (99 does not count): mean 4, squares 21, variance 5.
    scale = ReturnScale.initial()
    np.testing.assert_array_equal(scale.values(column(1, 3)), column(1, 3))
    scale = scale.updated(column(1, 3), jnp.ones((2, 1, 1)))
    np.testing.assert_allclose(scale.values(column(1, 3)), column(-1, 1), rtol=1e-3)
    scale = scale.updated(column(5, 7, 99), column(1, 1, 0))
    np.testing.assert_allclose(scale.values(column(4 + 5**0.5)), column(1), rtol=1e-3)
    np.testing.assert_allclose(scale.returns(scale.values(column(1, 99))), column(1, 99), rtol=1e-4)


@pytest.mark.slow
def test_normalised_values_are_returns_in_advantages_and_normalised_again_in_targets(rollout):
    env, _, traj = rollout
    learner = make_learner(env, normalise_value=True, gae_lambda=1.0, gamma=1.0)
    state = learner.init(jax.random.key(0))
    assert state.aux == ReturnScale.initial()
    known = ReturnScale.initial().updated(column(10, 14), jnp.ones((2, 1, 1)))  # 12, and 2
    traj = traj.replace(
        **recorded(traj, 0.5),  # outputs 0 are returns of 12, and 0.5 of 13
        reward=jnp.ones_like(traj.reward),
        terminated=jnp.zeros_like(traj.terminated),
        truncated=jnp.zeros_like(traj.truncated),
        info={name: jnp.zeros_like(x) for name, x in traj.info.items()},
    )
    after, samples, _ = learner.prepare(state.replace(aux=known), traj, jax.random.key(1))
    to_come = np.arange(NUM_STEPS, 0, -1.0) + 13  # every reward is 1, then 13 is expected
    shape = traj.action.shape
    np.testing.assert_allclose(samples.advantage.reshape(shape)[:, 0, 0], to_come - 12, rtol=1e-3)
    np.testing.assert_allclose(samples.value, 0.0)
    target = after.aux.values(jnp.asarray(to_come))
    np.testing.assert_allclose(samples.target.reshape(shape)[:, 0, 0], target, rtol=1e-3)
    mean = (12 + to_come.mean()) / 2  # of what was known and of this rollout
    np.testing.assert_allclose(after.aux.returns(0.0), mean, rtol=1e-3)

"""Recurrent Q-learning: returns, replay and losses against plain twins, and runs like any other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.parts import SMALL_Q, make_trainer

import brigade
from brigade.core import Acting
from brigade.envs.hanabi import Hanabi
from brigade.envs.overcooked import Overcooked
from brigade.errors import UserError
from brigade.learners import prioritised
from brigade.learners.pqn import PQN, PQNConfig, lambda_returns
from brigade.learners.q_sequences import outputs_of, prediction_loss
from brigade.learners.q_settings import Additions, QConfig, QNetworkConfig
from brigade.learners.r2d2 import IQL, VDN, n_step_returns
from brigade.nets.q_network import GreedyValue
from brigade.nets.q_policy import EXPLORATION_VALUES, NO_MOVE, Seen, observed_move
from brigade.partners.files import load_policies
from brigade.runs.checkpoints import read_state
from brigade.runs.config import from_dict
from brigade.runs.export import policies_of
from brigade.runs.run import load, resume, run
from brigade.testing import check_method, check_own_moves
from brigade.train import DeviceSource, Players

KEY = jax.random.key(0)
ENV, SEQUENCE = Hanabi.example()
NUM_ENVS, NUM_STEPS = 3, 12


# --- returns ---


def test_returns_by_hand():
    """Two steps, discount 1/2. The episode ends after step 1; step 3 is the last one stored."""
    reward = jnp.array([1.0, 2.0, 4.0, 8.0])
    value = jnp.array([100.0, 10.0, 20.0, 30.0, 40.0])
    no = jnp.zeros(4, bool)
    ends = no.at[1].set(True)
    got = n_step_returns(reward, value, ends, no, 0.5, 2)
    # 1 + 2/2; 2; 4 + 8/2 + 40/4; 8 + 40/2
    np.testing.assert_allclose(got, [2.0, 2.0, 18.0, 28.0])
    got = n_step_returns(reward, value, no, ends, 0.5, 2)
    # 1 + 2/2 + 20/4: the value of the state the time limit cut off; 2 + 20/2
    np.testing.assert_allclose(got, [7.0, 12.0, 18.0, 28.0])
    got = n_step_returns(reward, value, no, no, 0.5, 1)
    np.testing.assert_allclose(got, [6.0, 12.0, 19.0, 28.0])


def plain_return(reward, value, terminated, truncated, gamma, steps, t):
    total, factor = 0.0, 1.0
    for k in range(steps):
        total += factor * reward[t + k]
        factor *= gamma
        if terminated[t + k]:
            return total
        if truncated[t + k] or t + k + 1 == len(reward) or k + 1 == steps:
            return total + factor * value[t + k + 1]
    raise AssertionError


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_returns_are_those_of_a_plain_loop(steps):
    rng = np.random.default_rng(steps)
    reward, value = rng.normal(size=(6, 9)), rng.normal(size=(6, 10))
    terminated = rng.random((6, 9)) < 0.2
    truncated = (rng.random((6, 9)) < 0.2) & ~terminated
    got = n_step_returns(*map(jnp.asarray, (reward, value, terminated, truncated)), 0.9, steps)
    for row in range(6):
        for t in range(9):
            twin = plain_return(
                reward[row], value[row], terminated[row], truncated[row], 0.9, steps, t
            )
            np.testing.assert_allclose(got[row, t], twin, rtol=1e-4, atol=1e-5)


# --- replay ---


def test_the_oldest_entries_are_overwritten():
    buffer = prioritised.empty(jnp.zeros((1, 2)), 5)
    assert int(buffer.filled) == 0
    for start in (0, 3, 6):
        entries = jnp.arange(start, start + 3.0)[:, None] * jnp.ones((1, 2))
        buffer = prioritised.add(buffer, entries)
    assert int(buffer.filled) == 5
    assert buffer.entries[:, 0].tolist() == [5.0, 6.0, 7.0, 8.0, 4.0]
    assert int(prioritised.cleared(buffer).filled) == 0


def test_entries_are_sampled_by_their_priorities():
    buffer = prioritised.add(prioritised.empty(jnp.zeros((1, 1)), 6), jnp.ones((4, 1)))
    priority = jnp.array([1.0, 4.0, 9.0, 16.0])
    buffer = prioritised.reprioritise(buffer, jnp.arange(4), priority)
    expected = np.sqrt([1.0, 4.0, 9.0, 16.0]) / 10
    slots, probability = prioritised.sample(buffer, 4000, 0.5, KEY)
    np.testing.assert_allclose(np.bincount(slots, minlength=4) / 4000, expected, atol=2e-3)
    np.testing.assert_allclose(probability, expected[np.asarray(slots)], rtol=1e-5)
    weights = prioritised.importance_weights(jnp.asarray(expected), jnp.int32(4), 1.0)
    np.testing.assert_allclose(weights, [1.0, 1 / 2, 1 / 3, 1 / 4], rtol=1e-5)
    # New entries are as urgent as the most urgent one.
    added = prioritised.add(buffer, jnp.ones((1, 1)))
    assert float(added.priority[4]) == 16.0


def test_uniform_sampling_ignores_priorities_but_not_empty_slots():
    buffer = prioritised.add(prioritised.empty(jnp.zeros((1, 1)), 8), jnp.ones((4, 1)))
    buffer = prioritised.reprioritise(buffer, jnp.arange(4), jnp.array([1.0, 1e-3, 9.0, 100.0]))
    slots, _ = prioritised.sample(buffer, 400, 0.0, KEY)
    assert np.bincount(slots, minlength=8).tolist() == [100, 100, 100, 100, 0, 0, 0, 0]


# --- losses ---


def build(kind=IQL, memory="lstm", layers=2, add=None, dropout=0.0, **settings):
    small = {"buffer_size": 64, "warm_up": 0, "batch_size": 4, "gradient_steps": 2, "gamma": 0.9}
    network = QNetworkConfig(
        hidden=(8,), memory=memory, memory_size=8, memory_layers=layers, dropout=dropout
    )
    learner = kind(QConfig(**small | settings), network, add or Additions())
    return learner.build(ENV, num_tasks=3, updates_per_task=4)


def rollout(learner):
    source = DeviceSource(ENV, Players(learner.policy), NUM_ENVS, NUM_STEPS)
    state = jax.jit(learner.init)(KEY)

    @jax.jit
    def play(params, key):
        start = source.start(key, SEQUENCE[0])
        return source.next(start, Acting(params), SEQUENCE[0], key)[1]

    traj = play(state.params, jax.random.key(5))
    return jax.jit(learner.allocate)(state, traj), traj


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "memory", "burn_in", "length"),
    [(IQL, "lstm", 0, 6), (VDN, "gru", 0, None), (IQL, "gru", 2, 6), (VDN, "none", 0, 4)],
)
def test_errors_are_those_of_a_plain_loop(kind, memory, burn_in, length):
    """Every stored step, valued as the policy would by acting through the sequence."""
    learner = build(kind, memory, layers=1, burn_in=burn_in, sequence_length=length)
    state, traj = rollout(learner)
    target = jax.tree.map(lambda x: x + 0.1, state.params)
    state = state.replace(aux=state.aux.replace(target=target))
    sequences = jax.jit(learner.sequences)(state, traj)
    errors = np.asarray(jax.jit(learner._errors)(state.params, target, sequences)[0])
    length = length or NUM_STEPS
    seats = ENV.num_agents if kind is VDN else 1
    assert errors.shape == (NUM_STEPS // length * NUM_ENVS * ENV.num_agents // seats, length)

    step = jax.jit(lambda p, o, a, f, c: learner.policy.values(p, Seen(o, a, None), f, c))

    def walk(params, start, env, own):
        """Values of all actions [length + 1, own seats, actions]."""
        carry = jax.tree.map(lambda x: x[start, env, own], traj.carry)
        values = []
        for t in range(start, start + length + 1):
            view = jax.tree.map(lambda x, t=t: x[t], traj.view) if t < NUM_STEPS else traj.last_view
            obs, avail, first = (x[env, own][None] for x in (view.obs, view.avail, view.first))
            out, carry, _ = step(params, obs, avail, first, carry)
            values.append(np.asarray(out[0]))
        return np.stack(values)

    row = 0
    for start in range(0, NUM_STEPS, length):
        for env in range(NUM_ENVS):
            for own in [np.array([0, 1])] if kind is VDN else [np.array([0]), np.array([1])]:
                online, old = (walk(p, start, env, own) for p in (state.params, target))
                best = online.argmax(-1)
                value = np.take_along_axis(old, best[..., None], -1)[..., 0].sum(-1)
                part = slice(start, start + length)
                action = np.asarray(traj.action[part, env][:, own])
                chosen = np.take_along_axis(online[:-1], action[..., None], -1)[..., 0].sum(-1)
                reward, terminated, truncated = (
                    np.asarray(x)
                    for x in (
                        traj.reward[part, env, 0],
                        traj.terminated[part, env],
                        traj.truncated[part, env],
                    )
                )
                for t in range(length):
                    wanted = plain_return(reward, value, terminated, truncated, 0.9, 3, t)
                    counts = t >= burn_in and bool(traj.valid[start + t, env])
                    np.testing.assert_allclose(
                        errors[row, t], (wanted - chosen[t]) * counts, atol=2e-4
                    )
                row += 1
    assert row == len(errors)


@pytest.mark.slow
def test_the_loss_weighs_sequences_and_measures_their_surprise():
    learner = build()
    state, traj = rollout(learner)
    state, data, index = jax.jit(learner.prepare)(state, traj, KEY)
    batch = learner.take(data, jax.tree.map(lambda x: x[0], index))
    batch = batch.replace(importance=jnp.array([1.0, 0.5, 0.0, 0.25]))
    loss, metrics = jax.jit(learner.loss)(state.params, state, batch, KEY)
    errors, _ = jax.jit(learner._errors)(state.params, state.aux.target, batch.sequences)
    error = np.abs(errors)
    huber = np.where(error <= 1, 0.5 * error**2, error - 0.5).sum(1)
    np.testing.assert_allclose(loss, (huber * [1.0, 0.5, 0.0, 0.25]).mean(), rtol=1e-5)
    counted = np.asarray(batch.sequences.valid).sum(1)
    wanted = 0.9 * error.max(1) + 0.1 * error.sum(1) / counted
    np.testing.assert_allclose(metrics["priority"], wanted, rtol=1e-5)


@pytest.mark.slow
def test_methods_keep_different_sequences_of_the_buffer_with_their_priorities():
    learner = build()
    state, traj = rollout(learner)
    state, _, _ = jax.jit(learner.prepare)(state, traj, KEY)
    buffer = state.aux.buffer
    filled = int(buffer.filled)
    priority = jnp.where(buffer.priority > 0, 1.0 + jnp.arange(buffer.size), 0.0)
    state = state.replace(aux=state.aux.replace(buffer=buffer.replace(priority=priority)))
    kept, weight = jax.jit(learner.keep, static_argnums=1)(state, filled - 2, KEY)
    places = np.round(np.asarray(weight) ** (1 / learner.config.priority_exponent) - 1).astype(int)
    assert len(set(places.tolist())) == filled - 2 == len(kept.importance)
    assert places.max() < filled
    assert sorted(places.tolist()) != places.tolist()  # any of them, not the first
    np.testing.assert_array_equal(kept.sequences.reward, np.asarray(buffer.entries.reward)[places])
    assert (kept.importance == 1.0).all()
    even = build(priority="uniform")
    assert (even.keep(state, 3, KEY)[1] == 1.0).all()
    many, weight = learner.keep(state, 1000, KEY)  # no more than the buffer has places
    assert len(many.importance) == buffer.size
    assert int((weight > 0).sum()) == filled
    assert not weight[filled:].any()


@pytest.mark.slow
def test_replayed_sequences_are_weighted_against_their_probabilities():
    learner = build()
    state, traj = rollout(learner)
    state, data, index = jax.jit(learner.prepare)(state, traj, KEY)
    batch = learner.take(data, jax.tree.map(lambda x: x[0], index))
    errors, _ = jax.jit(learner._errors)(state.params, state.aux.target, batch.sequences)
    error = np.abs(errors)
    huber = np.where(error <= 1, 0.5 * error**2, error - 0.5).sum(1)
    rehearse = jax.jit(learner.rehearse)
    np.testing.assert_allclose(rehearse(state.params, state, batch)[0], huber.mean(), rtol=1e-5)
    probability = np.array([0.5, 1.0, 2.0, 4.0])
    weights = (probability / 0.5) ** -learner.config.importance_exponent
    loss, _ = rehearse(state.params, state, batch, jnp.asarray(probability))
    np.testing.assert_allclose(loss, (weights * huber).mean(), rtol=1e-5)


@pytest.mark.slow
def test_priorities_follow_and_the_target_network_is_renewed():
    learner = build(target_every=2)
    state, traj = rollout(learner)
    state, _, index = jax.jit(learner.prepare)(state, traj, KEY)
    changed = state.replace(params=jax.tree.map(lambda x: x + 1.0, state.params))
    first, second = (jax.tree.map(lambda x, n=n: x[n], index) for n in (0, 1))
    priority = jnp.array([5.0, 6.0, 7.0, 8.0])
    once = learner.after_update(changed, first, {"priority": priority})
    for slot in np.unique(first.slot):
        kept = float(once.aux.buffer.priority[slot])
        assert kept in priority[np.asarray(first.slot) == slot]
    old, new = (jax.tree.leaves(s.aux.target)[0] for s in (state, once))
    np.testing.assert_array_equal(old, new)
    twice = learner.after_update(once, second, {"priority": priority})
    np.testing.assert_array_equal(
        jax.tree.leaves(twice.aux.target)[0], jax.tree.leaves(changed.params)[0]
    )


@pytest.mark.slow
def test_nothing_is_learned_in_the_warm_up():
    learner = build(warm_up=20)  # a rollout has 6 sequences
    state, traj = rollout(learner)
    state, data, index = jax.jit(learner.prepare)(state, traj, KEY)
    assert float(index.importance.max()) == 0.0
    batch = learner.take(data, jax.tree.map(lambda x: x[0], index))
    loss_of = jax.jit(jax.grad(lambda p, state: learner.loss(p, state, batch, KEY)[0]))
    after = learner.apply_gradients(state, loss_of(state.params, state))
    for a, b in zip(jax.tree.leaves(after.params), jax.tree.leaves(state.params), strict=True):
        np.testing.assert_array_equal(a, b)
    begun = learner.begin_task(state)
    assert int(begun.aux.buffer.filled) == 0


@pytest.mark.slow
def test_the_warm_up_is_a_pause_for_momentum_and_methods_too():
    learner = build(warm_up=20, layers=1)  # a rollout has 6 sequences
    state, _ = rollout(learner)
    grads = jax.tree.map(jnp.ones_like, state.params)  # of a method: the loss has none now
    ready = state.replace(
        aux=state.aux.replace(buffer=state.aux.buffer.replace(written=jnp.int32(20)))
    )
    moving = learner.apply_gradients(ready, grads)  # with momentum
    paused = learner.apply_gradients(moving.replace(aux=state.aux), grads)
    for a, b in zip(
        jax.tree.leaves((paused.params, paused.opt_state)),
        jax.tree.leaves((moving.params, moving.opt_state)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    on = learner.apply_gradients(moving, grads)
    assert (jax.tree.leaves(on.params)[0] != jax.tree.leaves(moving.params)[0]).any()


@pytest.mark.slow
def test_a_task_begins_with_the_parameters_as_the_target():
    learner = build(layers=1)
    state, _ = rollout(learner)
    given = state.replace(params=jax.tree.map(lambda x: x + 1.0, state.params))
    begun = learner.begin_task(given)
    for a, b in zip(*map(jax.tree.leaves, (begun.aux.target, given.params)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_clones_follow_their_target_and_keep_the_last_rate():
    learner = build(layers=1, warm_up=60, final_learning_rate=1e-6, few_shot_buffer=32)
    clone = learner.for_few_shot().config
    assert (clone.buffer_size, clone.warm_up, clone.target_every) == (32, 4, 5)
    assert (clone.learning_rate, clone.final_learning_rate) == (1e-6, None)


def test_advantages_of_legal_actions_average_to_the_value():
    learner = build(memory="none", layers=1)
    params, network = learner.policy.init(KEY), learner.policy.network
    obs = jax.random.bernoulli(KEY, 0.5, (3, 2, *ENV.obs_shape)).astype(jnp.uint8)
    avail = jax.random.bernoulli(jax.random.key(1), 0.5, (3, 2, ENV.num_actions))
    avail = avail.at[..., 0].set(True)
    first = jnp.zeros((3, 2), bool)
    values = np.asarray(network.apply({"params": params}, obs, avail, first, ()).values)
    features = network.apply(
        {"params": params}, obs, method=lambda m, o: m.trunk(o, jnp.int32(0), o.shape[:-1])
    )

    def head(name):
        return np.asarray(features @ params[name]["kernel"] + params[name]["bias"])

    advantage, state_value = head("advantage_head"), head("value_head")[..., 0]
    for t in range(3):
        for seat in range(2):
            legal = np.asarray(avail[t, seat])
            wanted = state_value[t, seat] + advantage[t, seat] - advantage[t, seat, legal].mean()
            np.testing.assert_allclose(values[t, seat, legal], wanted[legal], rtol=1e-4, atol=1e-5)
            assert (values[t, seat, ~legal] < -1e8).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "wanted"), [("surprise", [1.0, 1.0]), ("reward", [3.001, 0.501])]
)
def test_what_makes_a_sequence_worth_replaying(strategy, wanted):
    learner = build(priority=strategy, layers=1)
    state, traj = rollout(learner)
    reward = jnp.zeros_like(traj.reward).at[2, 0].set(-2.0).at[5, 0].set(1.0).at[0, 1].set(0.5)
    state, _, index = jax.jit(learner.prepare)(state, traj.replace(reward=reward), KEY)
    rows = [0, ENV.num_agents]  # environments 0 and 1, seat 0
    np.testing.assert_allclose(state.aux.buffer.priority[np.array(rows)], wanted, rtol=1e-5)
    first = jax.tree.map(lambda x: x[0], index)
    after = learner.after_update(state, first, {"priority": jnp.full(4, 7.0)})
    changed = np.asarray(after.aux.buffer.priority)[np.asarray(first.slot)]
    assert (changed == 7.0).all() == (strategy == "surprise")


@pytest.mark.slow
def test_uniform_replay_gives_every_sequence_the_same_weight():
    learner = build(priority="uniform", layers=1)
    state, traj = rollout(learner)
    buffer = prioritised.add(state.aux.buffer, learner.sequences(state, traj))
    skewed = buffer.replace(priority=buffer.priority.at[0].set(1e6))
    state = state.replace(aux=state.aux.replace(buffer=skewed))
    _, _, index = jax.jit(learner.prepare)(state, traj, KEY)
    np.testing.assert_allclose(index.importance, 1.0)
    assert len(np.unique(index.slot)) > 2


@pytest.mark.slow
def test_dropout_is_only_in_the_loss():
    learner = build(dropout=0.5, layers=1)
    state, traj = rollout(learner)
    state, data, index = jax.jit(learner.prepare)(state, traj, KEY)
    batch = learner.take(data, jax.tree.map(lambda x: x[0], index))
    losses = [learner.loss(state.params, state, batch, jax.random.key(n))[0] for n in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]
    view = jax.tree.map(lambda x: x[0], traj.view)
    carry = learner.policy.initial_carry(view.active.shape)
    one, other = (
        learner.policy.act(state.params, carry, view, jax.random.key(n), greedy=True)[0]
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one, other)


# --- additions: other-play, greedy moves, the auxiliary loss ---


def test_the_auxiliary_loss_by_hand():
    """Two cards, three classes; the third slot is empty."""
    logits = jnp.log(jnp.array([0.5, 0.25, 0.25, 0.1, 0.1, 0.8, 0.3, 0.3, 0.4]))
    loss = prediction_loss(logits, jnp.array([0, 2, -1], jnp.int8))
    np.testing.assert_allclose(loss, -(np.log(0.5) + np.log(0.8)) / 2, rtol=1e-6)
    assert float(prediction_loss(logits, jnp.full(3, -1, jnp.int8))) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [IQL, VDN])
def test_the_auxiliary_loss_is_added_with_its_weight(kind):
    learner = build(kind, layers=1, add=Additions(aux=0.25))
    state, traj = rollout(learner)
    sequences = jax.jit(learner.sequences)(state, traj)
    out = outputs_of(learner.policy, state.params, sequences)
    _, added = learner._errors(state.params, state.params, sequences)
    logits = np.asarray(out.predictions)[:, :-1].reshape(*sequences.target.shape, 3)
    target, valid = np.asarray(sequences.target), np.asarray(sequences.valid)
    for row in range(0, len(target), 2):
        total = 0.0
        for t in range(NUM_STEPS):
            for seat in range(target.shape[2]):
                labels = [(c, k) for c, k in enumerate(target[row, t, seat]) if k >= 0]
                each = [
                    np.log(np.exp(logits[row, t, seat, c]).sum()) - logits[row, t, seat, c, k]
                    for c, k in labels
                ]
                total += valid[row, t] * np.mean(each) / target.shape[2]
        np.testing.assert_allclose(added[row], 0.25 * total, rtol=1e-4)


@pytest.mark.slow
def test_other_play_renames_the_game_for_all_seats_but_the_first():
    learner = build(layers=1, add=Additions(op=True))
    state, traj = rollout(learner)
    tables, symmetry = ENV.conventions.symmetries, np.asarray(traj.extras["symmetry"])
    assert (symmetry[:, :, 0] == 0).all()
    assert {0, 1} == set(symmetry[:, :, 1].ravel().tolist())  # two colours
    first = np.asarray(traj.view.first[:, :, 1])
    assert (symmetry[1:, :, 1] == symmetry[:-1, :, 1])[~first[1:]].all()  # for a whole episode
    sequences = jax.jit(learner.sequences)(state, traj)
    obs, avail = np.asarray(traj.view.obs), np.asarray(traj.view.avail)
    for env in range(NUM_ENVS):
        for seat in (0, 1):
            row = env * 2 + seat
            for t in range(NUM_STEPS):
                k = symmetry[t, env, seat]
                seen = obs[t, env, seat][tables.observation[k]]
                np.testing.assert_array_equal(sequences.obs[row, t, 0], seen)
                choice = int(sequences.action[row, t, 0])
                assert int(traj.action[t, env, seat]) == tables.action[k, choice]
                assert avail[t, env, seat][tables.action[k]][choice]


@pytest.mark.slow
def test_other_play_ends_with_training():
    learner = build(layers=1, add=Additions(op=True), exploration=0.0)
    state, traj = rollout(learner)
    view = jax.tree.map(lambda x: x[0], traj.view)
    plain, params = learner.policy.actor(state.params, None)
    assert plain.symmetries is None
    for key in (1, 2):
        here, _, _ = learner.policy.act(
            params, learner.policy.initial_carry((NUM_ENVS, 2)), view, jax.random.key(key), True
        )
        there, _, _ = plain.act(params, plain.initial_carry((NUM_ENVS, 2)), view, KEY)
        np.testing.assert_array_equal(here, there)


@pytest.mark.slow
@pytest.mark.parametrize("op", [False, True])
def test_seats_see_the_greedy_move_beside_the_one_played(op):
    """With exploration both differ; the sequences hold what was seen, renamed like the rest."""
    learner = build(VDN, layers=1, add=Additions(sad=True, op=op), exploration=1.0)
    state, traj = rollout(learner)
    policy, tables = learner.policy, ENV.conventions.symmetries
    symmetry = np.zeros(traj.action.shape, int)
    if op:
        symmetry = np.asarray(traj.extras["symmetry"])
    move, active = np.asarray(traj.extras["move"]), np.asarray(traj.view.active)
    differs = 0
    for t in range(NUM_STEPS - 1):
        view = jax.tree.map(lambda x, t=t: x[t], traj.view)
        seen = policy.seen(view.obs, view.avail, jnp.asarray(symmetry[t]) if op else None, None)
        seen = seen._replace(move=jnp.asarray(move[t]))
        core = jax.tree.map(lambda x, t=t: x[t], traj.carry)
        now, first = jax.tree.map(lambda x: x[None], (seen, view.first))
        best = np.asarray(policy.values(state.params, now, first, core).values[0].argmax(-1))
        for env in range(NUM_ENVS):
            if bool(traj.terminated[t, env]) or bool(traj.view.first[t + 1, env, 0]):
                assert (move[t + 1, env] == NO_MOVE).all()
                continue
            mover = int(active[t, env].argmax())
            greedy = tables.action[symmetry[t, env, mover], best[env, mover]]
            differs += greedy != int(traj.action[t, env, mover])
            for seat in (0, 1):
                k = symmetry[t + 1, env, seat]
                assert tables.action[k, move[t + 1, env, seat]] == greedy
    assert differs > 0
    sequences = jax.jit(learner.sequences)(state, traj)
    np.testing.assert_array_equal(sequences.move[:, :-1], np.moveaxis(move, 0, 1))


def test_a_partners_move_counts_as_its_greedy_one():
    policy = build(layers=1, add=Additions(sad=True)).policy
    state, now = ENV.reset(KEY, SEQUENCE[0])
    legal = int(np.flatnonzero(now.view.avail[0])[0])
    _, then = ENV.step(KEY, state, jnp.array([legal, ENV.variant.wait]), SEQUENCE[0])
    own = jax.tree.map(lambda x: x[None, 1:], then.view.replace(state=None))  # seat 1 alone
    assert int(policy.last_move(policy.initial_carry((1, 1)), own)[0, 0]) == legal
    # Then seat 1 moves itself, and its partner: what it did before is not the last move any more.
    params = policy.init(KEY)
    action, carry, _ = policy.act(params, policy.initial_carry((1, 1)), own, KEY, greedy=True)
    assert int(carry.greedy[0, 0]) == int(action[0, 0])
    waits = own.replace(active=jnp.zeros((1, 1), bool))
    _, carry, _ = policy.act(params, carry, waits, KEY, greedy=True)
    assert int(policy.last_move(carry, own)[0, 0]) == legal
    assert int(observed_move(now.view.obs, ENV.conventions.shown_moves)[0]) == NO_MOVE


def test_additions_need_a_game_that_offers_them():
    kitchen = Overcooked(2, 5, 5)
    for name, value in (("op", True), ("sad", True), ("aux", 0.25)):
        with pytest.raises(ValueError, match=f"^{name} .*Overcooked"):
            IQL(add=Additions(**{name: value})).build(kitchen, num_tasks=1, updates_per_task=1)


# --- parallel Q-learning ---


def test_lambda_returns_by_hand():
    """Discount 1/2, weight 1/2. The episode ends after step 1."""
    reward, value = jnp.array([1.0, 2.0, 4.0]), jnp.array([9.0, 10.0, 20.0, 30.0])
    no = jnp.zeros(3, bool)
    ends = no.at[1].set(True)
    # 4 + 30/2 = 19; 2; 1 + (10/2 + 2/2) / 2 = 4
    np.testing.assert_allclose(lambda_returns(reward, value, ends, no, 0.5, 0.5), [4, 2, 19])
    # 2 + 20/2 = 12: the value of the state the time limit cut off; 1 + (5 + 6) / 2
    np.testing.assert_allclose(lambda_returns(reward, value, no, ends, 0.5, 0.5), [6.5, 12, 19])
    # weight 0 is one step, weight 1 looks to the end
    np.testing.assert_allclose(lambda_returns(reward, value, no, no, 0.5, 0.0), [6, 12, 19])
    np.testing.assert_allclose(lambda_returns(reward, value, no, no, 0.5, 1.0), [6.75, 11.5, 19])


def parallel(**settings):
    network = QNetworkConfig(hidden=(8,), memory="gru", memory_size=8, layer_norm=True)
    config = PQNConfig(**{"minibatches": 3, "epochs": 2} | settings)
    return PQN(config, network).build(ENV, num_tasks=3, updates_per_task=4)


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
def test_parallel_q_learning_uses_every_sequence_once_per_pass(together):
    learner = parallel(sum_seats=together, gamma=0.9, td_lambda=0.5)
    state, traj = rollout(learner)
    after, data, index = jax.jit(learner.prepare)(state, traj, KEY)
    number = NUM_ENVS * (1 if together else 2)
    assert index.shape == (6, number // 3)
    for one_pass in np.split(np.asarray(index), 2):
        assert sorted(one_pass.ravel()) == list(range(number))
    batch = learner.take(data, index[0])
    loss, _ = jax.jit(learner.loss)(state.params, after, batch, KEY)
    values = outputs_of(learner.policy, state.params, batch.sequences).values
    chosen = np.take_along_axis(
        np.asarray(values)[:, :-1], np.asarray(batch.sequences.action)[..., None], -1
    )[..., 0].sum(-1)
    played = np.asarray(batch.sequences.valid)
    error = (np.asarray(batch.returns) - chosen) * played
    np.testing.assert_allclose(loss, 0.5 * (error**2).sum() / played.sum(), rtol=1e-5)


# --- acting ---


def test_every_environment_has_its_rate_of_random_actions():
    policy = build().policy
    rates = np.asarray(policy.rates((EXPLORATION_VALUES + 1, 2)))[:, 0]
    np.testing.assert_allclose(rates[[0, 79, 80]], [0.1, 0.1**8, 0.1], rtol=1e-4)
    assert (np.diff(rates[:80]) < 0).all()
    assert policy.actor({}, None)[0].exploration == 0.0


def test_the_greedy_value_has_the_gradient_of_its_likelihood():
    values = jnp.array([[1.0, 3.0, -1e9]])
    sample = GreedyValue.sample(KEY, values)
    assert (np.asarray(sample) != 0).tolist() == [[False, True, False]]
    gradient = jax.grad(lambda v: GreedyValue.log_prob(v, sample).sum())(values)
    np.testing.assert_array_equal(gradient, sample)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [IQL, VDN])
def test_no_gradient_comes_from_foreign_moves(kind):
    small = QConfig(**SMALL_Q["q"])
    check_own_moves(
        lambda env, tasks: kind(small, QNetworkConfig(hidden=(8,), memory_size=8)).build(
            env, num_tasks=tasks, updates_per_task=4
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "learner"),
    [
        ("agem", lambda: build(layers=1)),
        ("ewc", lambda: build(layers=1, add=Additions(op=True, sad=True, aux=0.25))),
        ("packnet", lambda: parallel(minibatches=2)),
    ],
)
def test_continual_methods_work_with_it(method, learner):
    learner = learner()
    method = brigade.get("methods", method)()
    trainer, evaluator = make_trainer(ENV, learner, method)
    check_method(method, trainer, evaluator, SEQUENCE)


# --- runs ---

RUN = {
    "benchmark": "hanabi/standard",
    "learner": "iql",
    "preset": "laptop",
    "tasks": 2,
    "num_envs": 4,
    "num_steps": 12,
    "steps_per_task": 192,
    "eval_every": 2,
    "eval_episodes": 2,
    "env": {"colors": 2, "ranks": 3, "hand_size": 2, "hint_tokens": 3, "life_tokens": 2},
    **SMALL_Q,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(RUN, tmp_path_factory.mktemp("q") / "whole")


@pytest.mark.slow
def test_a_stopped_run_ends_the_same_with_its_buffer(whole, tmp_path):
    seen = []

    def interrupt(progress, *_):
        seen.append(progress)
        if len(seen) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(RUN, tmp_path / "stopped", watch=interrupt)
    resume(tmp_path / "stopped")
    parts = load(whole.path).parts
    one, other = (
        read_state(max((path / "checkpoints").iterdir()), parts).learner
        for path in (whole.path, tmp_path / "stopped")
    )
    pairs = zip(
        *map(jax.tree.leaves, ((one.params, one.aux), (other.params, other.aux))), strict=True
    )
    assert all(np.array_equal(a, b) for a, b in pairs)
    assert (one.aux.buffer.written > 0).all()


@pytest.mark.slow
def test_its_policy_travels_in_a_file(whole, tmp_path):
    loaded = load(whole.path)
    policies = policies_of(loaded)
    (tmp_path / "q.safetensors").write_bytes(policies.as_bytes())
    read = load_policies(tmp_path / "q.safetensors")
    assert read.policy == policies.policy
    experiment = from_dict(RUN | {"partners": [str(tmp_path / "q.safetensors")]})
    assert experiment.config.partners


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buffer_size": 16}, "buffer_size is 16; it must hold a batch of 32"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"priority_exponent": 1.5}, "priority_exponent is 1.5"),
        ({"burn_in": -1}, "burn_in is -1"),
        ({"sequence_length": 0}, "sequence_length is 0"),
        ({"few_shot_buffer": 16}, "few_shot_buffer is 16; it must hold a batch of 32"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        QConfig(**settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sequence_length": 5}, "sequence_length is 5 and num_steps 12; it must divide"),
        ({"burn_in": 12}, "burn_in is 12; it must be below 12"),
        ({"buffer_size": 4, "batch_size": 2}, "but a rollout has 8 sequences"),
        ({"warm_up": 50}, "warm_up is 50, but a task has 32 sequences"),
    ],
)
def test_settings_that_do_not_fit_a_rollout_are_refused(settings, message, tmp_path):
    tree = RUN | {"q": SMALL_Q["q"] | settings}
    with pytest.raises(UserError, match=message):
        run(tree, tmp_path / "run")
    assert not (tmp_path / "run").exists()

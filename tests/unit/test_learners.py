"""Learners beside ippo: a central critic, memory, one agent, Gaussian actions."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.parts import NUM_ENVS, NUM_STEPS, example

from brigade.core import Acting
from brigade.core.distributions import Categorical, Gaussian
from brigade.envs.overcooked import Overcooked, task_from_grid
from brigade.learners import IPPO, MAPPO, NetworkConfig, PPOConfig, SinglePPO
from brigade.learners.recurrent import sequence_length
from brigade.testing import check_learner, check_policy
from brigade.train import DeviceSource, Players

pytestmark = pytest.mark.slow

SMALL = PPOConfig(epochs=2, minibatches=2, shaping_steps=None)


def build(kind, **network):
    env, sequence = example()
    settings = kind(SMALL, NetworkConfig(hidden=(16, 16), memory_size=8, **network))
    return env, sequence, settings.build(env, num_tasks=3, updates_per_task=4)


def roll(env, sequence, learner, steps=NUM_STEPS, rollouts=1):
    source = DeviceSource(env, Players(learner.policy), NUM_ENVS, steps)
    state = learner.init(jax.random.key(0))
    loop, play = source.start(jax.random.key(1), sequence[1]), jax.jit(source.next)
    for number in range(rollouts):
        loop, traj = play(loop, Acting(state.params), sequence[1], jax.random.key(2 + number))
    return state, traj


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        (MAPPO, {}),
        (MAPPO, {"memory": "gru"}),
        (IPPO, {"memory": "lstm", "shared_trunk": True}),
    ],
    ids=["mappo", "mappo-gru", "shared-lstm"],
)
def test_learners_keep_their_promises(kind, network):
    env, sequence, learner = build(kind, **network)
    source = DeviceSource(env, Players(learner.policy), NUM_ENVS, NUM_STEPS)
    check_learner(learner, source, sequence[0])
    view = env.reset(jax.random.key(0), sequence[0])[1].view
    check_policy(learner.policy, view, env.num_actions)


def test_a_central_critic_sees_all_seats_and_knows_whom_it_judges():
    """Samples are judged as one would by hand, seat by seat, from the joint observation."""
    env, sequence, learner = build(MAPPO)
    state, traj = roll(env, sequence, learner)
    _, data, index = learner.prepare(state, traj, jax.random.key(3))
    batch = learner.take(data, index[0])
    values = learner.outputs(state.params, batch).value
    network = learner.policy.network
    for place, sample in enumerate(np.asarray(index[0][:6]).tolist()):
        moment, seat = divmod(sample, 2)
        step, kitchen = divmod(moment, NUM_ENVS)
        seen = traj.view.obs[step, kitchen]
        assert int(batch.inputs.joint.seat[place]) == seat
        np.testing.assert_array_equal(batch.inputs.joint.obs[place], seen.reshape(-1))
        judged = network.apply(
            {"params": state.params},
            seen[seat][None],
            traj.view.task_id[step, kitchen, seat][None],
            batch.inputs.joint.replace(obs=seen.reshape(1, -1), seat=jnp.array([seat])),
        )
        assert float(judged.value[0]) == pytest.approx(float(values[place]), abs=1e-5)
        assert float(data.value[sample]) == pytest.approx(float(values[place]), abs=1e-5)


def test_a_central_critic_depends_on_the_seat_and_on_the_others():
    env, sequence, learner = build(MAPPO)
    state, traj = roll(env, sequence, learner)
    _, data, index = learner.prepare(state, traj, jax.random.key(3))
    batch = learner.take(data, index[0])
    joint = batch.inputs.joint

    def value(**changes):
        seen = batch.inputs.replace(joint=joint.replace(**changes))
        return learner.outputs(state.params, batch.replace(inputs=seen)).value

    assert not np.allclose(value(), value(seat=1 - joint.seat))
    assert not np.allclose(value(), value(obs=joint.obs * 0))


def test_a_central_critic_is_told_the_task_as_the_actor_is():
    env, sequence, learner = build(MAPPO, task_one_hot="input", multi_head=False)
    state, traj = roll(env, sequence, learner)
    _, data, index = learner.prepare(state, traj, jax.random.key(3))
    batch = learner.take(data, index[0])
    values = []
    for task in range(3):
        seen = batch.inputs.replace(task_id=jnp.full_like(batch.inputs.task_id, task))
        for seat in range(2):
            joint = seen.joint.replace(seat=jnp.full_like(seen.joint.seat, seat))
            other = batch.replace(inputs=seen.replace(joint=joint))
            values.append(np.asarray(learner.outputs(state.params, other).value))
    for one, value in enumerate(values):
        assert not any(np.allclose(value, other) for other in values[:one])


@pytest.mark.parametrize(
    ("kind", "network"), [(MAPPO, {}), (IPPO, {"memory": "gru"})], ids=["mappo", "gru"]
)
def test_leaving_out_what_never_changes_changes_nothing(kind, network):
    env, sequence, learner = build(kind, **network)
    fewer = replace(learner, changing_inputs=192)
    state, traj = roll(env, sequence, learner)

    def loss(learner, keep):
        _, data, index = learner.prepare(state, traj, jax.random.key(3))
        batch = learner.take(data, index[0])
        batch = learner.standalone(batch) if keep else batch
        return jax.value_and_grad(lambda p: learner.loss(p, state, batch, jax.random.key(4))[0])(
            state.params
        )

    expected = loss(learner, keep=False)
    for found in (loss(fewer, keep=False), loss(fewer, keep=True)):
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "memory", "length"), [(IPPO, "gru", 9), (IPPO, "lstm", 3), (MAPPO, "gru", 9)]
)
def test_sequences_are_valued_as_they_were_played(kind, memory, length):
    """The learner's pass over sequences gives what the policy recorded step by step."""
    env, sequence, learner = build(kind, memory=memory)
    learner = replace(learner, config=replace(SMALL, sequence_length=length))
    # Begins and ends amid games: what is remembered comes along, and restarts with the next game.
    state, traj = roll(env, sequence, learner, steps=env.horizon + 7, rollouts=2)
    first = np.asarray(traj.view.first)
    assert first[1:-1].any()
    assert not first[0].any()
    _, data, index = learner.prepare(state, traj, jax.random.key(3))
    batch = learner.take(data, index[0])
    out = learner.outputs(state.params, batch)
    np.testing.assert_allclose(out.value, batch.value, atol=1e-4)
    log_prob = Categorical.log_prob(out.logits, batch.action)
    np.testing.assert_allclose(log_prob, batch.log_prob, atol=1e-4)
    # Every timestep of the rollout is in one sequence.
    assert batch.value.shape[1] == length
    np.testing.assert_array_equal(np.sort(data.value.ravel()), np.sort(value_of(traj)))


def value_of(traj):
    return np.asarray(traj.extras["value"]).ravel()


@pytest.mark.parametrize(
    ("asked", "num_steps", "length"),
    [(None, 400, 50), (None, 128, 64), (None, 24, 24), (None, 401, 401), (25, 400, 25)],
)
def test_the_length_of_sequences(asked, num_steps, length):
    assert sequence_length(asked, num_steps) == length


def test_a_length_that_does_not_divide_a_rollout_is_refused():
    with pytest.raises(ValueError, match="sequence_length is 30 and num_steps 400"):
        sequence_length(30, 400)


def test_a_length_is_refused_where_there_is_no_memory():
    ppo, env = replace(SMALL, sequence_length=7), example()[0]
    with pytest.raises(ValueError, match="sequence_length is 7, but the network has no memory"):
        IPPO(ppo).build(env, num_tasks=1, updates_per_task=1)
    IPPO(ppo, NetworkConfig(memory="gru")).build(env, num_tasks=1, updates_per_task=1)


def test_memory_matters_and_restarts_with_the_game():
    _, sequence, learner = build(IPPO, memory="gru")
    env, _ = example()
    policy, params = learner.policy, learner.init(jax.random.key(0)).params
    view = env.reset(jax.random.key(0), sequence[0])[1].view
    later = view.replace(first=jnp.zeros(2, bool))
    full = jax.tree.map(jnp.ones_like, policy.initial_carry((2,)))
    empty = policy.initial_carry((2,))

    def value(carry, view):
        return policy.act(params, carry, view, jax.random.key(1))[2]["value"]

    assert not np.allclose(value(full, later), value(empty, later))
    np.testing.assert_array_equal(value(full, view), value(empty, view))


def test_ppo_plays_alone():
    alone = Overcooked(num_agents=1, height=4, width=5)
    SinglePPO().build(alone, num_tasks=1, updates_per_task=1)
    with pytest.raises(ValueError, match="has 2; use ippo or mappo"):
        SinglePPO().build(Overcooked(), num_tasks=1, updates_per_task=1)


def test_a_central_critic_refuses_what_it_cannot_share():
    for network in ({"shared_trunk": True}, {"encoder": "cnn"}):
        with pytest.raises(ValueError, match="a central critic"):
            build(MAPPO, **network)


def test_gaussian_actions_by_hand():
    """Two components, means 1 and -1, standard deviations 1 and 2; action (1, 1)."""
    outputs = jnp.array([1.0, -1.0, 0.0, math.log(2.0)])
    expected = -0.5 * math.log(2 * math.pi) - (
        0.5 * 1.0**2 + math.log(2.0) + 0.5 * math.log(2 * math.pi)
    )
    assert float(Gaussian.log_prob(outputs, jnp.array([1.0, 1.0]))) == pytest.approx(expected)
    assert Gaussian.mode(outputs).tolist() == [1.0, -1.0]
    entropy = math.log(2 * math.pi * math.e) + math.log(2.0)
    assert float(Gaussian.entropy(outputs)) == pytest.approx(entropy)
    sampled = jax.vmap(lambda key: Gaussian.sample(key, outputs))(
        jax.random.split(jax.random.key(0), 4000)
    )
    np.testing.assert_allclose(sampled.mean(0), [1.0, -1.0], atol=0.15)
    np.testing.assert_allclose(sampled.std(0), [1.0, 2.0], rtol=0.1)


def test_one_seat_alone_can_have_a_central_critic():
    env = Overcooked(num_agents=1, height=4, width=5, horizon=20)
    task = task_from_grid(("XXPXX", "O1..X", "X...X", "XDXSX"), num_agents=1)
    learner = MAPPO(SMALL, NetworkConfig(hidden=(8,))).build(env, num_tasks=1, updates_per_task=1)
    check_learner(learner, DeviceSource(env, Players(learner.policy), 4, 20), task)

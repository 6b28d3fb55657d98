"""The continual methods on problems small enough to be worked by hand."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support.parts import example, make_learner, make_trainer

from brigade import registry
from brigade.core import Acting, Batch, Learner, LearnerState, Outputs, Policy
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.methods import replay
from brigade.methods.agem import AGEM, projected, projected_separately
from brigade.methods.cbp import CBP, Units
from brigade.methods.er import ER
from brigade.methods.ewc import EWC, with_anchor
from brigade.methods.ft import FineTuning
from brigade.methods.importance import QuadraticPenalty, fisher, regularised, sensitivity
from brigade.methods.l2 import L2
from brigade.methods.mas import MAS
from brigade.methods.online_ewc import OnlineEWC
from brigade.methods.packnet import PackNet
from brigade.methods.si import SI
from brigade.nets import ActorCritic
from brigade.partners.files import load_policies
from brigade.runs.config import from_dict
from brigade.runs.run import load, run
from brigade.train import DeviceSource, Players
from brigade.train.trainer import stack_sequences

KEY = jax.random.key(0)
RELEASED = Path(__file__).parents[2] / "docs" / "results" / "released_mas.py"


def assert_close(found, expected, rtol=1e-6, atol=0.0):
    """Equal in float32."""
    np.testing.assert_allclose(found, expected, rtol, atol)


def at(*weights, head=0.0, critic=0.0):
    """Parameters of a network whose trunk is two weights."""
    return {
        "actor_trunk": {"kernel": jnp.array(weights, jnp.float32)},
        "actor_head": {"bias": jnp.float32(head)},
        "critic_trunk": {"bias": jnp.float32(critic)},
        "critic_head": {"bias": jnp.float32(head)},
    }


def weights(tree):
    return np.asarray(tree["actor_trunk"]["kernel"])


NETWORK = ActorCritic(num_actions=2)  # declares the groups of the parameters used here


def start(method, params):
    """The method's state before the first task."""
    return method.start(Scales(), params, None)


def held(method, params):
    """The parameters that a method regularises."""
    return regularised(params, NETWORK.groups(params), method.heads, method.critic)


def state_at(params):
    return LearnerState(params, (), jnp.int32(0))


class Numbers(Batch):
    """Samples that are numbers [samples, ...]."""

    numbers: jax.Array
    counts: jax.Array | None = None

    @property
    def weights(self):
        return self.counts

    @property
    def timesteps(self):
        return self.numbers[0].size


class Scales(Learner):
    """Logits are the two weights, and the value the critic's bias, times a number per sample."""

    policy = Policy()

    def groups(self, params):
        return NETWORK.groups(params)

    def outputs(self, params, batch):
        x = batch.numbers
        logits = x[:, None] * params["actor_trunk"]["kernel"] + params["actor_head"]["bias"]
        return Outputs(logits, x * params["critic_trunk"]["bias"])


def end(method, mem, params, batch=(1.0,), key=KEY):
    """End a task at `params`; the batch is one number per sample."""
    numbers = Numbers(jnp.array(batch))
    return method.end_phase(mem, "train", state_at(params), Scales(), numbers, key)[0]


def penalty_and_slope(method, mem, params):
    def loss(params):
        return method.loss(mem, lambda p: (jnp.float32(10.0), {}), params, None, KEY)[0] - 10.0

    return jax.value_and_grad(loss)(params)


# Which parameters are held


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, {"actor_trunk"}),
        ({"heads": True}, {"actor_trunk", "actor_head"}),
        ({"critic": True}, {"actor_trunk", "critic_trunk"}),
        ({"heads": True, "critic": True}, set(at(1.0, 2.0))),
    ],
)
def test_heads_and_critic_are_spared_unless_asked_for(settings, names):
    assert set(held(L2(**settings), at(1.0, 2.0))) == names
    assert set(start(L2(**settings), at(1.0, 2.0)).anchor) == names


def test_a_shared_trunk_and_unknown_names_are_held():
    params = {"trunk": 1, "torso": 2, "actor_head": 3, "critic_head": 4, "critic_core": 5}
    assert set(held(EWC(), params)) == {"trunk", "torso"}


def test_a_network_of_heads_alone_is_refused():
    with pytest.raises(ValueError, match="nothing is left to regularise"):
        start(EWC(), {"actor_head": jnp.zeros(2)})


# Fine-tuning


def test_fine_tuning_changes_nothing_by_hand():
    """loss = a^2 + 3 b at (2, 1): 7, slope (4, 3); the step is the optimiser's alone."""
    method, params = FineTuning(), at(2.0, 1.0)
    mem = start(method, params)

    def base(params):
        a, b = params["actor_trunk"]["kernel"]
        return a**2 + 3 * b, {}

    (loss, metrics), slope = jax.value_and_grad(
        lambda p: method.loss(mem, base, p, None, KEY), has_aux=True
    )(params)
    assert (loss, metrics) == (7.0, {})
    assert weights(method.edit_grads(mem, slope, params, None, KEY)).tolist() == [4.0, 3.0]
    mem, after = method.after_update(mem, params, at(1.6, 0.7), slope)
    assert weights(after).tolist() == weights(at(1.6, 0.7)).tolist()
    mem, state = method.end_phase(mem, "train", state_at(after), None, None, KEY)
    assert method.loss(mem, base, state.params, None, KEY)[0] == base(state.params)[0]


# L2


def test_the_penalty_of_l2_by_hand():
    begun, now = at(1.0, 2.0), at(4.0, 6.0, head=9.0, critic=9.0)
    method = L2(coefficient=2.0, first_task=True)
    penalty, slope = penalty_and_slope(method, start(method, begun), now)
    # 1/2 * 2 / (2 parameters) * (3 * 3 + 4 * 4)
    assert penalty == 12.5
    assert weights(slope).tolist() == [3.0, 4.0]
    assert slope["actor_head"]["bias"] == slope["critic_trunk"]["bias"] == 0.0
    whole = L2(coefficient=2.0, first_task=True, per_parameter=False)
    assert penalty_and_slope(whole, start(whole, begun), now)[0] == 25.0


def test_l2_leaves_the_first_task_free():
    begun, now = at(1.0, 2.0), at(4.0, 6.0)
    method = L2(coefficient=2.0)
    mem = start(method, begun)
    assert penalty_and_slope(method, mem, now)[0] == 0.0
    assert penalty_and_slope(method, end(method, mem, now), begun)[0] == 12.5


# EWC


def test_fisher_information_by_hand():
    params = at(0.0, 0.0)
    # Both actions have probability 1/2, so the slope of either log-probability is +-x/2:
    # the mean of its square over x = 1, 3 is (1/4 + 9/4) / 2.
    batch, part = Numbers(jnp.array([1.0, 3.0])), held(EWC(), params)
    found = fisher(Scales(), params, part, batch, 2500, False, jax.random.key(3))
    assert weights(found).tolist() == [1.25, 1.25]


def test_fisher_information_uses_no_more_samples_than_asked_for():
    params = at(0.0, 0.0)
    batch = Numbers(jnp.array([2.0, 9.0]))
    found = fisher(Scales(), params, held(EWC(), params), batch, 1, False, KEY)
    assert weights(found).tolist() == [1.0, 1.0]


def test_moments_that_are_no_moves_have_no_importance():
    batch = Numbers(jnp.array([1.0, 7.0, 3.0, 8.0]), jnp.array([1.0, 0.0, 1.0, 0.0]))
    params = at(0.0, 0.0)
    part = held(EWC(), params)
    found = fisher(Scales(), params, part, batch, 2500, False, jax.random.key(3))
    assert weights(found).tolist() == [1.25, 1.25]  # as for 1 and 3 alone
    params = at(1.0, 0.0)
    slopes = sensitivity(Scales(), params, part | params, batch, 2500, False, KEY)
    assert_close(weights(slopes), [10.0, 0.0])  # 2 x^2, mean over 1 and 3


class InSequence(Scales):
    """The same for rows of several moments, as a learner with memory has them."""

    def outputs(self, params, batch):
        shape = batch.numbers.shape
        out = super().outputs(params, Numbers(batch.numbers.reshape(-1)))
        return Outputs(out.logits.reshape(*shape, 2), out.value.reshape(shape))


def test_importance_of_sequences_is_per_timestep():
    params, timesteps = at(0.0, 0.0), jnp.tile(jnp.array([1.0, 3.0]), 4000).reshape(400, 20)
    part = held(EWC(), params)
    found = fisher(InSequence(), params, part, Numbers(timesteps), 8000, False, KEY)
    assert_close(weights(found), 1.25, rtol=0.05)  # as above, from 8000 random timesteps
    one = fisher(InSequence(), params, part, Numbers(jnp.array([[2.0], [9.0]])), 1, False, KEY)
    assert weights(one).tolist() == [1.0, 1.0]
    # A gradient's absolute value is taken per timestep, so that none cancels another: 2 |x| = 2.
    rows = Numbers(jnp.stack([jnp.tile(jnp.array([1.0, -1.0]), 10)] * 2))
    params = at(1.0, 0.0)

    class Signed(InSequence):
        def outputs(self, params, batch):
            out = super().outputs(params, batch)
            return Outputs(jnp.sqrt(2.0 + jnp.sign(batch.numbers)[..., None] * out.logits), None)

    slopes = sensitivity(Signed(), params, held(EWC(), params), rows, 40, False, KEY)
    assert_close(weights(slopes), [1.0, 1.0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", "gru"])
def test_importance_is_a_property_of_the_task_and_not_of_the_samples(memory):
    """Two estimates from other experience of the same size agree, with and without memory."""
    env, sequence = example()
    settings = IPPO(
        PPOConfig(epochs=1, minibatches=1, sequence_length=5 if memory == "gru" else None),
        NetworkConfig(hidden=(16,), memory=memory, memory_size=8),
    )
    learner = settings.build(env, num_tasks=3, updates_per_task=4)
    source = DeviceSource(env, Players(learner.policy), 16, 20)
    state = learner.init(KEY)

    @jax.jit
    def estimate(key):
        start_key, play_key, prepare_key, method_key = jax.random.split(key, 4)
        begun = source.start(start_key, sequence[0])
        _, traj = source.next(begun, Acting(state.params), sequence[0], play_key)
        _, data, index = learner.prepare(state, traj, prepare_key)
        batch = learner.standalone(learner.take(data, index[0]))
        part = regularised(state.params, learner.groups(state.params), heads=False, critic=False)
        found = fisher(learner, state.params, part, batch, 640, False, method_key)
        return ravel_pytree(found)[0]

    one, other = (np.asarray(estimate(jax.random.key(seed))) for seed in (1, 2))
    assert np.corrcoef(one, other)[0, 1] > 0.95


def test_exploration_noise_is_never_regularised():
    """With continuous actions a later task could not be explored."""
    params = at(1.0, 2.0) | {"actor_log_deviation": jnp.zeros(2)}
    everything = {"heads": True, "critic": True}
    for method in (L2(**everything), EWC(**everything), SI(**everything), MAS(**everything)):
        mem = start(method, params)
        assert "actor_log_deviation" not in mem.anchor
        moved = params | {"actor_log_deviation": jnp.ones(2)}
        mem = end(method, mem, params)
        assert not penalty_and_slope(method, mem, moved)[1]["actor_log_deviation"].any()


class Rows(Batch):
    """Sequences of ten timesteps."""

    x: jax.Array

    @property
    def timesteps(self):
        return 10


def test_a_replay_buffer_counts_timesteps_not_sequences():
    method = AGEM(memory_size=60, sample_size=25)
    mem = method.init(None, Rows(jnp.zeros((4, 10))))
    assert mem.size == 6
    seen = []
    mem = method.end_phase(mem, "train", None, None, None, KEY)[0]

    def loss(p, b, probability):
        seen.append(b.x.shape)
        return p.sum(), {}

    method.replay_gradient(mem, jnp.zeros(1), loss, KEY)
    assert seen[0] == (3, 10)  # 25 samples are 3 sequences


def test_agem_can_project_actor_and_critic_apart_by_hand():
    """The buffer's gradient is (1, 0) for the actor and -10 for the critic."""
    grads, reference = at(-2.0, 1.0, critic=5.0), at(1.0, 0.0, critic=-10.0)
    # As one vector: g.r = -2 - 50, r.r = 101, and the critic decides what the actor loses.
    together = projected(grads, reference)
    assert_close(weights(together), [-2.0 + 52.0 / 101.0, 1.0])
    apart = projected_separately(grads, reference, ("critic_trunk", "critic_head"))
    assert_close(weights(apart), [0.0, 1.0])
    assert apart["critic_trunk"]["bias"] == 0.0
    assert apart.keys() == grads.keys()
    # An actor that agrees with the buffer is left alone, whatever the critic does.
    agrees = at(2.0, 1.0, critic=5.0)
    assert_close(weights(projected_separately(agrees, reference, ("critic_trunk",))), [2.0, 1.0])


def test_agem_asks_the_learner_which_parameters_are_the_critics():
    batch = Numbers(jnp.zeros(4))
    for separate, names in ((True, ("critic_trunk", "critic_head")), (False, ())):
        method = AGEM(memory_size=8, separate_critic=separate)
        assert method.start(Scales(), at(1.0, 2.0), batch).critic == names


def test_the_critic_has_fisher_information_only_when_asked_for():
    params, batch = at(0.0, 0.0), Numbers(jnp.full(4000, 2.0))
    part = held(EWC(critic=True), params)
    found = fisher(Scales(), params, part, batch, 4000, True, KEY)
    # Noise of deviation 1 times the slope 2, squared: 4 on average.
    assert_close(found["critic_trunk"]["bias"], 4.0, rtol=0.1)
    found = fisher(Scales(), params, part, batch, 4000, False, KEY)
    assert found["critic_trunk"]["bias"] == 0.0


def test_the_penalty_of_ewc_by_hand():
    method = EWC(coefficient=4.0)
    mem = start(method, at(7.0, 7.0))
    assert penalty_and_slope(method, mem, at(2.0, 4.0))[0] == 0.0  # no task has ended
    mem = end(method, mem, at(0.0, 0.0), [1.0, 3.0])
    penalty, slope = penalty_and_slope(method, mem, at(2.0, 4.0))
    # 1/2 * 4 / 2 * 1.25 * (2 * 2 + 4 * 4)
    assert penalty == 25.0
    assert weights(slope).tolist() == [5.0, 10.0]


def test_ewc_is_exactly_the_sum_over_a_list_of_anchors():
    rng = np.random.default_rng(0)
    anchors = [at(*rng.normal(size=6)) for _ in range(3)]
    importances = [at(*rng.exponential(size=6)) for _ in range(3)]
    for importance in importances:  # one weight never mattered, one not to the first task
        kernel = importance["actor_trunk"]["kernel"].at[0].set(0.0)
        importance["actor_trunk"]["kernel"] = kernel
    first = importances[0]["actor_trunk"]
    first["kernel"] = first["kernel"].at[1].set(0.0)
    method = EWC(coefficient=3.0)
    mem = start(method, at(*rng.normal(size=6)))
    for anchor, importance in zip(anchors, importances, strict=True):
        mem = with_anchor(mem, held(method, anchor), held(method, importance))

    def literal(params):
        ways = [
            jnp.sum(f["actor_trunk"]["kernel"] * (weights_of(params) - weights_of(a)) ** 2)
            for a, f in zip(anchors, importances, strict=True)
        ]
        return 3.0 / 2 / 6 * sum(ways)

    def weights_of(params):
        return params["actor_trunk"]["kernel"]

    for _ in range(3):
        now = at(*rng.normal(size=6))
        penalty, slope = penalty_and_slope(method, mem, now)
        expected, expected_slope = jax.value_and_grad(literal)(now)
        assert_close(penalty, expected, rtol=1e-5)
        assert_close(weights(slope), weights(expected_slope), rtol=1e-4, atol=1e-6)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(mem))


# Online EWC and MAS


def test_online_ewc_fades_importance_and_keeps_the_latest_anchor():
    method = OnlineEWC(coefficient=4.0)
    mem = end(method, start(method, at(7.0, 7.0)), at(0.0, 0.0), [1.0, 3.0])
    mem = end(method, mem, at(5.0, 5.0), [2.0])
    # 0.9 * 1.25 + 1
    assert_close(weights(mem.importance), 2.125)
    # 1/2 * 4 / 2 * 2.125 * (1 * 1 + 2 * 2)
    penalty, slope = penalty_and_slope(method, mem, at(6.0, 7.0))
    assert_close(penalty, 10.625)
    assert_close(weights(slope), [4.25, 8.5])


def test_the_importance_of_mas_by_hand():
    method = MAS(coefficient=2.0)
    mem = end(method, start(method, at(7.0, 7.0)), at(1.0, 3.0), [1.0, 2.0])
    # Slopes of x * x * (w0 * w0 + w1 * w1) are as 1 to 3; scaled to mean 1.
    assert_close(weights(mem.importance), [0.5, 1.5])
    mem = end(method, mem, at(-1.0, 1.0), [5.0])
    assert_close(weights(mem.importance), [0.9 * 0.5 + 1, 0.9 * 1.5 + 1])
    # 1/2 * 2 / 2 * (1.45 * 1 * 1 + 2.35 * 2 * 2)
    penalty, slope = penalty_and_slope(method, mem, at(0.0, 3.0))
    assert_close(penalty, 5.425)
    assert_close(weights(slope), [1.45, 4.7])


def test_the_importance_of_mas_stays_finite_where_nothing_matters():
    method = MAS()
    mem = end(method, start(method, at(1.0, 1.0)), at(0.0, 0.0))
    assert weights(mem.importance).tolist() == [0.0, 0.0]


def test_chunks_of_samples_give_the_mean_over_all():
    params, batch = at(1.0, 3.0), Numbers(jnp.linspace(0.0, 2.0, 120))  # 50 + 50 + 20
    found = sensitivity(Scales(), params, held(MAS(), params), batch, 2500, False, KEY)
    expected = 2 * np.mean(np.square(batch.numbers)) * np.array([1.0, 3.0])
    assert_close(weights(found), expected, rtol=1e-5)


# Synaptic intelligence


def test_synaptic_intelligence_by_hand():
    method = SI(coefficient=2.0, damping=0.1)
    mem = start(method, at(1.0, 1.0))
    mem, _ = method.after_update(mem, at(1.0, 1.0), at(0.0, 1.5), at(2.0, -1.0))
    assert_close(weights(mem.gain), [2.0, 0.5])
    mem, _ = method.after_update(mem, at(0.0, 1.5), at(0.0, 2.5), at(5.0, 1.0))
    assert_close(weights(mem.gain), [2.0, -0.5])
    mem = end(method, mem, at(0.0, 2.5))
    # 2 / (1 * 1 + 0.1); what raised the loss counts as nothing.
    assert_close(weights(mem.importance), [2 / 1.1, 0.0])
    assert weights(mem.gain).tolist() == [0.0, 0.0]
    # 1/2 * 2 * 2 / 1.1 * 3 * 3
    penalty, slope = penalty_and_slope(method, mem, at(3.0, 9.0))
    assert_close(penalty, 18 / 1.1)
    assert_close(weights(slope), [12 / 1.1, 0.0])
    # The pull 2 * 2 / 1.1 * (1 - 0) at (1, 2.5) is no part of the next task's gain.
    total = at(3.0 + 4 / 1.1, 1.0)
    mem, _ = method.after_update(mem, at(1.0, 2.5), at(0.5, 2.5), total)
    assert_close(weights(mem.gain), [1.5, 0.0], rtol=1e-5)


# The memory of samples


class Labelled(Batch):
    obs: jax.Array
    place: jax.Array


def labelled(label, number, start=0):
    """Samples that know their task and their place in it."""
    place = jnp.arange(start, start + number)
    return Labelled(jnp.full((number, 2, 3), label, jnp.uint8), place.astype(jnp.int32))


def remembered(mem):
    """[tasks, share] labels and places of finished tasks."""
    share, done = int(mem.share), int(mem.done)
    obs = np.asarray(mem.samples.obs)[: done * share].reshape(done, share, -1)
    assert (obs == obs[..., :1]).all()
    return obs[..., 0], np.asarray(mem.samples.place)[: done * share].reshape(done, share)


def after_tasks(size, counts, batch=5):
    mem = replay.empty(labelled(0, batch), size)
    add, finish = jax.jit(replay.add), jax.jit(replay.finish_task)
    for task, batches in enumerate(counts, 1):
        for number in range(batches):
            mem = add(mem, labelled(task, batch, batch * number))
        mem = finish(mem, jax.random.key(task))
    return mem


def test_every_finished_task_has_an_equal_share_of_the_buffer():
    for tasks in range(1, 6):
        labels, places = remembered(after_tasks(60, [20] * tasks))
        assert labels.shape == (tasks, 60 // (tasks + 1))
        assert (labels == np.arange(1, tasks + 1)[:, None]).all()
        for row in places:  # all different, of the latest 60 of the task's 100 samples
            assert len(set(row.tolist())) == row.size
            assert row.min() >= 40


def test_what_a_task_gives_up_later_is_any_of_its_samples():
    _, places = remembered(after_tasks(60, [12, 12, 12, 12, 12]))  # all 60 of the first task fit
    assert places[0].max() - places[0].min() > 30  # ten of them, from everywhere


def test_a_short_task_repeats_its_samples():
    labels, places = remembered(after_tasks(60, [20, 1, 20]))
    assert (labels == np.array([[1], [2], [3]])).all()
    assert sorted(places[1].tolist()) == sorted([0, 1, 2, 3, 4] * 3)


def test_batches_larger_than_a_share_fill_it():
    labels, places = remembered(after_tasks(12, [1, 1, 1], batch=50))
    assert (labels == np.array([[1], [2], [3]])).all()
    assert places.max() < 12


def test_the_buffer_keeps_the_types_of_its_samples():
    mem = AGEM(memory_size=7).init(None, labelled(0, 3))
    assert mem.samples.obs.shape == (7, 2, 3)
    assert mem.samples.obs.dtype == jnp.uint8
    mem = AGEM(memory_size=7).observe(mem, labelled(200, 3), KEY)
    assert mem.samples.obs.dtype == jnp.uint8
    assert mem.samples.obs[:4, 0, 0].tolist() == [200, 200, 200, 0]


def test_replay_samples_every_finished_task_equally():
    mem = after_tasks(60, [20, 20, 20])
    mem = replay.add(mem, labelled(4, 5))  # the current task is not replayed
    slots, probability = jax.jit(replay.choose, static_argnums=1)(mem, 300, KEY)
    assert probability is None
    batch = replay.gather(mem.samples, slots)
    assert np.bincount(np.asarray(batch.obs)[:, 0, 0]).tolist() == [0, 100, 100, 100]
    assert len(set(batch.place.tolist())) > 20


class Keeper(Learner):
    """A learner with a replay buffer of its own: samples n from 0 to 9, which weigh n + 1."""

    keeps_samples = True

    def __init__(self, label, different=10):
        self.label, self.different = label, different

    def keep(self, state, number, key):
        number = jnp.arange(min(number, 10))
        weight = jnp.where(number < self.different, 1.0 + number, 0.0)
        batch = labelled(self.label, len(number))
        return batch.replace(place=(number % self.different).astype(jnp.int32)), weight


def test_samples_of_a_learner_that_keeps_them_are_replayed_by_their_weights():
    method = ER(memory_size=30, sample_size=4)
    mem = method.start(Keeper(0), None, labelled(0, 3))
    unchanged = method.observe(mem, labelled(9, 3), KEY)  # it is asked at the end of the task
    assert not unchanged.samples.place.any()
    for label in (1, 2):
        mem, _ = method.end_phase(mem, "train", None, Keeper(label), None, jax.random.key(label))
    labels, places = remembered(mem)
    assert labels.tolist() == [[1] * 10, [2] * 10]
    assert [sorted(row) for row in places.tolist()] == [list(range(10))] * 2
    slots, probability = jax.jit(replay.choose, static_argnums=1)(mem, 9000, KEY)
    batch = replay.gather(mem.samples, slots)
    label, place = np.asarray(batch.obs)[:, 0, 0], np.asarray(batch.place)
    assert np.bincount(label).tolist() == [0, 4500, 4500]
    for each in (1, 2):
        share = np.bincount(place[label == each], minlength=10) / 4500
        np.testing.assert_allclose(share, np.arange(1, 11) / 55, atol=0.015)
    np.testing.assert_allclose(probability, (place + 1) / 55 * 10, rtol=1e-5)


def test_samples_that_a_learner_repeats_do_not_push_out_others():
    method = ER(memory_size=30, sample_size=4)
    mem = method.start(Keeper(0), None, labelled(0, 3))
    for label in (1, 2):
        learner = Keeper(label, different=5)
        mem, _ = method.end_phase(mem, "train", None, learner, None, jax.random.key(label))
    _, places = remembered(mem)
    assert [sorted(row) for row in places.tolist()] == [sorted([*range(5), *range(5)])] * 2
    weight = np.asarray(mem.weight)[:20].reshape(2, 10)
    np.testing.assert_array_equal(weight, places + 1.0)


# A-GEM and ER


class Slopes(Batch):
    each: jax.Array


def linear_loss(params, batch, probability=None):
    """Its gradient is the mean of the samples."""
    return jnp.sum(params["actor_trunk"]["kernel"] * batch.each.mean(0)), {}


def rehearsed(method, slope):
    """A buffer in which every sample of the finished task has this gradient."""
    batch = Slopes(jnp.tile(jnp.array(slope, jnp.float32), (4, 1)))
    mem = method.observe(method.init(at(0.0, 0.0), batch), batch, KEY)
    return mem, end(method, mem, at(0.0, 0.0))


def test_the_projection_of_agem_by_hand():
    method, params = AGEM(memory_size=8, sample_size=4), at(0.0, 0.0)
    learning, finished = rehearsed(method, [-1.0, 1.0])

    def edit(mem, *grads):
        return weights(method.edit_grads(mem, at(*grads), params, linear_loss, KEY)).tolist()

    assert edit(learning, 1.0, 0.0) == [1.0, 0.0]  # no task has ended
    # (1, 0) . (-1, 1) = -1 and (-1, 1) . (-1, 1) = 2: half of (-1, 1) is added.
    assert edit(finished, 1.0, 0.0) == [0.5, 0.5]
    assert edit(finished, 1.0, 3.0) == [1.0, 3.0]  # they agree


def test_agem_sees_all_parameters_as_one_vector():
    method, params = AGEM(memory_size=8, sample_size=4), at(0.0, 0.0)
    _, finished = rehearsed(method, [-1.0, 1.0])

    def loss(params, batch, probability):
        return linear_loss(params, batch)[0] + params["actor_head"]["bias"], {}

    edited = method.edit_grads(finished, at(1.0, 0.0, head=5.0), params, loss, KEY)
    assert weights(edited).tolist() == [1.0, 0.0]  # -1 in the trunk, 5 in the head


def test_agem_survives_a_buffer_without_gradient():
    method = AGEM(memory_size=8, sample_size=4)
    _, finished = rehearsed(method, [0.0, 0.0])
    edited = method.edit_grads(finished, at(1.0, 2.0), at(0.0, 0.0), linear_loss, KEY)
    assert weights(edited).tolist() == [1.0, 2.0]


def test_the_gradient_of_er_by_hand():
    method, params = ER(memory_size=8, sample_size=4, coefficient=0.5), at(0.0, 0.0)
    learning, finished = rehearsed(method, [-1.0, 3.0])
    edited = method.edit_grads(learning, at(1.0, 1.0), params, linear_loss, KEY)
    assert weights(edited).tolist() == [1.0, 1.0]
    edited = method.edit_grads(finished, at(1.0, 1.0), params, linear_loss, KEY)
    assert weights(edited).tolist() == [0.5, 2.5]  # (1, 1) + 0.5 * (-1, 3)


# PackNet


def layer(kernel, bias, head=0.0):
    return {
        "actor_trunk": {"kernel": jnp.array([kernel]), "bias": jnp.float32(bias)},
        "actor_head": {"bias": jnp.float32(head)},
    }


def flat(params):
    trunk = params["actor_trunk"]
    return [*trunk["kernel"][0].tolist(), float(trunk["bias"])]


def test_two_weights_are_packed_for_two_tasks_by_hand():
    method = PackNet(keep=0.5)
    mem = start(method, layer([0.0, 0.0], 0.0))
    ones, nine = layer([1.0, 1.0], 1.0, head=1.0), layer([9.0, 9.0], 9.0, head=9.0)

    def slopes_and_step(params):
        grads = method.edit_grads(mem, ones, params, None, KEY)
        _, stepped = method.after_update(mem, params, nine, grads)
        assert stepped["actor_head"]["bias"] == 9.0
        return flat(grads), flat(stepped)

    def finish(phase, params):
        return method.end_phase(mem, phase, state_at(params), None, None, KEY)

    # Task 1 learns everything and keeps the larger of two weights, and the bias.
    first = layer([3.0, -4.0], 2.0, head=7.0)
    assert slopes_and_step(first) == ([1.0, 1.0, 1.0], [9.0, 9.0, 9.0])
    mem, state = finish("train", first)
    assert flat(state.params) == [0.0, -4.0, 2.0]
    assert flat(mem.owner) == [0, 1, 1]
    assert slopes_and_step(state.params) == ([0.0, 1.0, 1.0], [0.0, 9.0, 9.0])
    mem, state = finish("retrain", layer([0.0, -5.0], 3.0))
    assert flat(state.params) == [0.0, -5.0, 3.0]
    # Task 2 has the other weight. While it learns, task 1 is played without it.
    assert slopes_and_step(state.params) == ([1.0, 0.0, 0.0], [9.0, -5.0, 3.0])
    second = layer([0.5, -5.0], 3.0)
    assert flat(method.acting_params(mem, second, jnp.int32(0))) == [0.0, -5.0, 3.0]
    assert flat(method.acting_params(mem, second, jnp.int32(1))) == [0.5, -5.0, 3.0]
    assert flat(method.acting_params(mem, second, jnp.int32(2))) == [0.5, -5.0, 3.0]
    method = PackNet(keep=1.0)
    mem, state = finish("train", second)
    assert flat(mem.owner) == [2, 1, 1]
    assert slopes_and_step(state.params) == ([1.0, 0.0, 0.0], [9.0, -5.0, 3.0])
    mem, state = finish("retrain", state.params)
    assert flat(method.acting_params(mem, state.params, jnp.int32(0))) == [0.0, -5.0, 3.0]
    assert flat(method.acting_params(mem, state.params, jnp.int32(1))) == [0.5, -5.0, 3.0]
    # Nothing is left for task 3.
    assert slopes_and_step(state.params) == ([0.0, 0.0, 0.0], [0.5, -5.0, 3.0])


@pytest.mark.slow
def test_every_layer_keeps_its_share_of_the_free_weights():
    method = PackNet(keep=0.25)
    env, _ = example()
    state = make_learner(env).init(KEY)
    mem = start(method, state.params)
    for task, share in ((1, 0.25), (2, 0.75 * 0.25), (3, 0.75**2 * 0.25)):
        mem, state = method.end_phase(mem, "train", state, None, None, KEY)
        for owner in jax.tree.leaves(mem.owner):
            if owner.ndim == 2:
                assert_close(float((owner == task).mean()), share, atol=0.005)
        mem, state = method.end_phase(mem, "retrain", state, None, None, KEY)


def learner_of(num_tasks):
    """Stands in for a learner that knows how many tasks there are."""

    class Told(Learner):
        pass

    Told.num_tasks = num_tasks
    return Told()


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        (16, [4, 4, 4, 4]),
        # 10 / 4 and 5 / 2 are rounded to even, 8 / 3 up; the last task takes what is left.
        (10, [2, 3, 2, 3]),
    ],
)
def test_left_to_itself_packnet_gives_equal_shares_of_the_tasks_left(weights, shares):
    method, learner = PackNet(), learner_of(len(shares))
    state = state_at(layer([float(n) for n in range(1, weights + 1)], 1.0))
    mem = start(method, state.params)
    ends = {
        phase: jax.jit(lambda m, s, p=phase: method.end_phase(m, p, s, learner, None, KEY))
        for phase, _ in method.phases
    }
    largest = state.params
    for task, share in enumerate(shares, 1):
        mem, state = ends["train"](mem, state)
        assert int((mem.owner["actor_trunk"]["kernel"] == task).sum()) == share
        mem, state = ends["retrain"](mem, state.replace(params=largest))
    owner = mem.owner["actor_trunk"]["kernel"][0].tolist()
    assert owner == sorted(owner, reverse=True)  # the first task took the largest
    assert 0 not in owner


def test_packnet_asks_for_its_share_where_the_number_of_tasks_is_unknown():
    learner, state = Learner(), state_at(layer([1.0, 2.0], 1.0))
    mem = start(PackNet(), state.params)
    with pytest.raises(ValueError, match=r"^PackNet .* how many tasks .*; give keep, .*$"):
        PackNet().check(learner, 1)
    with pytest.raises(ValueError, match=r"^PackNet .* how many tasks .*; give keep, .*$"):
        PackNet().end_phase(mem, "train", state, learner, None, KEY)
    PackNet(keep=0.5).check(learner, 1)
    mem, _ = PackNet(keep=0.5).end_phase(mem, "train", state, learner, None, KEY)
    assert flat(mem.owner) == [0, 1, 1]


def test_packnet_refuses_a_network_without_kernels():
    with pytest.raises(ValueError, match="no kernel to divide in actor_trunk"):
        start(PackNet(), at(1.0, 2.0))


@pytest.mark.slow
def test_packnet_acts_on_a_finished_task_as_when_it_ended():
    env, sequence = example()
    method, tasks = PackNet(), stack_sequences([sequence])
    trainer, _ = make_trainer(env, make_learner(env), method)
    state, acting = trainer.init([0], tasks), []
    for task in (0, 1):
        state = trainer.begin_task(state, tasks, task)
        for phase, _ in method.phases:
            state, _ = trainer.step(state, tasks, task)
            state = trainer.end_phase(state, tasks, task, phase)
        mem, params = (
            jax.tree.map(lambda x: x[0], t) for t in (state.memory, state.learner.params)
        )
        acting.append([method.acting_params(mem, params, jnp.int32(i)) for i in range(task + 1)])
    then, now, second = (x["actor_trunk"] for x in (acting[0][0], acting[1][0], acting[1][1]))
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, then, now)))
    assert not all(jax.tree.leaves(jax.tree.map(np.array_equal, now, second)))
    heads = [x["actor_head"]["kernel"].reshape(-1, 3, 6) for x in (acting[0][0], acting[1][0])]
    assert np.array_equal(heads[0][:, 0], heads[1][:, 0])  # momentum would move it
    assert not np.array_equal(heads[0][:, 1], heads[1][:, 1])  # the second task's own learned


# Continual backprop


def two_units(incoming, outgoing, head_bias=0.0):
    """One input, two hidden units, one output beside a one-hot of one task."""
    return {
        "trunk": {
            "Hidden_0": {
                "Linear_0": {"kernel": jnp.array([incoming]), "bias": jnp.array([0.5, 0.5])},
                "LayerNorm_0": {"scale": jnp.array([2.0, 2.0]), "bias": jnp.array([0.3, 0.3])},
            }
        },
        "actor_head": {
            "kernel": jnp.array([[outgoing[0]], [outgoing[1]], [7.0]]),
            "bias": jnp.array([head_bias]),
        },
    }


def test_the_least_useful_of_two_units_is_born_again_by_hand():
    method = CBP(replacement_rate=0.5, maturity=1, decay=0.5)
    params, slopes = two_units([1.0, 3.0], [2.0, -3.0]), two_units([0.0, 0.0], [-3.0, 1.0])
    mem = start(method, params)
    mem, same = method.after_update(mem, params, params, slopes)
    # Activity 3 and 1 over their mean 2, times the reach 2 and 3, half of it counts so far.
    assert mem.layers[0].utility.tolist() == [1.5, 0.75]
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, params, same)))  # none is mature
    mem, after = method.after_update(mem, params, params, slopes)
    # 0.5 * 1.5 + 0.5 * 3; two mature units at a rate of 0.5 are one to replace: the second.
    assert mem.layers[0].utility.tolist() == [2.25, 0.0]
    assert mem.layers[0].age.tolist() == [2, 0]
    assert mem.layers[0].due == 0.0
    assert after["actor_head"]["kernel"][:, 0].tolist() == [2.0, 0.0, 7.0]
    hidden = after["trunk"]["Hidden_0"]
    assert hidden["Linear_0"]["bias"].tolist() == [0.5, 0.0]
    assert hidden["LayerNorm_0"]["scale"].tolist() == [2.0, 1.0]
    assert hidden["LayerNorm_0"]["bias"].tolist() == [np.float32(0.3), 0.0]
    assert hidden["Linear_0"]["kernel"][0, 0] == 1.0
    assert hidden["Linear_0"]["kernel"][0, 1] != 3.0


def test_a_young_unit_is_judged_by_a_fair_mean():
    """One that is twice as useful as another ten times as old is not taken for the lesser."""
    method = CBP(replacement_rate=0.5, maturity=1, decay=0.9)
    utility = jnp.array([2 * (1 - 0.9**2), 1 - 0.9**20])  # as means that began at 0 have it
    units = Units(utility, jnp.array([2, 20]), jnp.float32(1.0), jnp.float32(1.0))
    assert method.chosen(units).tolist() == [False, True]


def test_replacements_add_up_in_fractions():
    method = CBP(replacement_rate=0.2, maturity=0, decay=0.0)
    params = two_units([1.0, 3.0], [2.0, -3.0])
    mem, births = start(method, params), []
    update = jax.jit(method.after_update)
    for _ in range(10):  # 0.4 units per update
        mem, _ = update(mem, params, params, params)
        births.append(int((mem.layers[0].age == 0).sum()))
    assert sum(births) in (3, 4)  # 0.4 * 10 in floating point
    assert max(births) == 1


@pytest.mark.slow
def test_new_units_of_a_network_have_the_layers_first_scale():
    env, _ = example()
    params = make_learner(env).init(KEY).params
    method = CBP(replacement_rate=1.0, maturity=0)
    mem = method.observe(start(method, params), None, jax.random.key(5))
    mem, after = jax.jit(method.after_update)(mem, params, params, params)
    for trunk, head in (("actor_trunk", "actor_head"), ("critic_trunk", "critic_head")):
        for name in ("Hidden_0", "Hidden_1"):
            old, new = (p[trunk][name]["Linear_0"]["kernel"] for p in (params, after))
            # The first layer's births zero rows of the second, whose own births draw them anew.
            assert (old != new).all(), name
        assert_close(
            after[trunk]["Hidden_0"]["Linear_0"]["kernel"].std(),
            params[trunk]["Hidden_0"]["Linear_0"]["kernel"].std(),
            rtol=0.05,
        )
        assert (after[head]["kernel"][:16] == 0.0).all()
        assert (after[head]["kernel"][16:] == params[head]["kernel"][16:]).all()


def test_a_layer_that_feeds_a_recurrent_core_is_left_alone():
    params = two_units([1.0, 3.0], [2.0, -3.0])
    params["trunk"]["Hidden_1"] = params["trunk"]["Hidden_0"]

    def layers(params):
        return [layer.kernel[:2] for layer in NETWORK.groups(params).layers]

    assert layers(params) == [("trunk", "Hidden_0"), ("trunk", "Hidden_1")]
    assert layers(params | {"core": {}}) == [("trunk", "Hidden_0")]


def test_continual_backprop_refuses_a_network_without_hidden_layers():
    with pytest.raises(ValueError, match="there is no fully connected layer"):
        start(CBP(), at(1.0, 2.0))


# Methods of the documents


@pytest.mark.parametrize(
    ("name", "after_one", "after_two"),
    # Logits (2, 1) and value 3 for x = 1: gradients (2, 1) of the trunk, 3 of the actor's head and
    # 3 of the critic, 0 of its head. Their squares have the mean (4 + 1 + 9 + 9 + 0) / 5 = 4.6.
    [("EarlierMAS", [4.0, 1.0], [4.0, 1.0]), ("ReleasedMAS", [0.4 / 4.6, 0.1 / 4.6], None)],
)
def test_the_mas_of_the_release_runs_by_hand(name, after_one, after_two):
    released = registry.get("methods", str(RELEASED) + ":" + name)
    method, params = released(decay=0.9), at(2.0, 1.0, critic=3.0)
    mem = end(method, start(method, params), params)
    assert_close(weights(mem.importance), after_one, rtol=1e-5)
    assert set(mem.importance) == {"actor_trunk"}
    if after_two is not None:
        assert_close(weights(end(method, mem, params).importance), after_two, rtol=1e-5)


# Settings


@pytest.mark.parametrize("method", [L2, EWC, OnlineEWC, MAS, SI, ER, QuadraticPenalty])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_bad_coefficients_are_refused(method, value):
    with pytest.raises(
        ValueError, match=r"^coefficient is .*; it must be a number of at least 0\.0$"
    ):
        method(coefficient=value)


@pytest.mark.parametrize(
    ("method", "setting", "value"),
    [
        (EWC, "samples", 0),
        (OnlineEWC, "samples", 0),
        (OnlineEWC, "decay", 1.5),
        (OnlineEWC, "decay", float("nan")),
        (MAS, "samples", 0),
        (MAS, "decay", -0.1),
        (SI, "damping", 0.0),
        (AGEM, "memory_size", 1),
        (AGEM, "sample_size", 0),
        (ER, "memory_size", 1),
        (ER, "sample_size", 0),
        (PackNet, "keep", 0.0),
        (PackNet, "keep", 1.5),
        (CBP, "replacement_rate", 2.0),
        (CBP, "replacement_rate", float("nan")),
        (CBP, "maturity", -1),
        (CBP, "decay", 1.1),
    ],
)
def test_bad_settings_are_refused(method, setting, value):
    with pytest.raises(ValueError, match=f"^{setting} is .*; it must be "):
        method(**{setting: value})


# --- networks ---

WIDER = '''
"""A method that works with a wider network than the run asks for."""

from dataclasses import dataclass, replace

from brigade.core import ContinualMethod


@dataclass(frozen=True)
class Wider(ContinualMethod):
    more: int = 4

    def equip(self, learner):
        network = learner.policy.network
        sizes = tuple(size + self.more for size in network.hidden)
        return replace(learner, policy=replace(learner.policy, network=network.clone(hidden=sizes)))
'''


@pytest.mark.slow
def test_a_method_may_change_the_network_before_training(tmp_path):
    """Parts, parameters, checkpoints and exports are those of the changed network."""
    file = tmp_path / "wider.py"
    file.write_text(WIDER)
    settings = {"benchmark": "overcooked/layout", "preset": "laptop", "env": {"horizon": 20}}
    settings |= {"method": f"{file}:Wider", "network": {"hidden": [8]}, "num_envs": 4}
    settings |= {"num_steps": 20, "steps_per_task": 80, "eval_episodes": 2}
    settings |= {"ppo": {"minibatches": 2}}
    done = run(from_dict(settings), tmp_path / "run")
    loaded = load(done.path, trust=True)
    kernel = loaded.params["actor_trunk"]["Hidden_0"]["Linear_0"]["kernel"]
    assert kernel.shape[-1] == 12
    exported = load_policies(loaded.export(tmp_path / "wider.safetensors"))
    assert exported.policy.network.hidden == (12,)

"""Collecting, updating, the loop over tasks, seats and evaluation."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from support.parts import EPISODES, NUM_ENVS, NUM_STEPS, example, make_learner, make_trainer

from brigade.core import (
    Acting,
    ContinualMethod,
    Environment,
    Policy,
    Round,
    TaskSequence,
    TimeStep,
    View,
)
from brigade.core.streams import AFTER_ROLLOUT, EVALUATION, SEATS
from brigade.envs.overcooked import EVENTS, Overcooked, sequence_from_grids
from brigade.envs.overcooked.generate import generate_sequence
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.methods.ft import FineTuning
from brigade.methods.packnet import PackNet
from brigade.nets import memory as memory_module
from brigade.testing import check_method
from brigade.train import DeviceSource, Evaluator, Players, Trainer, programs
from brigade.train import collect as collect_module
from brigade.train import update as update_module
from brigade.train.seeds import over_seeds
from brigade.train.trainer import phase_ends, stack_sequences
from brigade.train.update import update

pytestmark = pytest.mark.slow

KEY = jax.random.key(0)


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_unrolled_loops_compute_the_same(memory, monkeypatch):
    """A GPU's programs have several steps of each loop in a row; a CPU's have one."""
    env, sequence = example()
    settings = IPPO(
        PPOConfig(epochs=2, minibatches=3, shaping_steps=None),
        NetworkConfig(hidden=(8,), memory=memory, memory_size=8),
    )
    learner = settings.build(env, num_tasks=3, updates_per_task=4)
    source = DeviceSource(env, Players(learner.policy), 3, NUM_STEPS)

    def one_update():
        state = learner.init(jax.random.key(0))
        begun = source.start(jax.random.key(1), sequence[0])
        _, traj = source.next(begun, Acting(state.params), sequence[0], jax.random.key(2))
        return update(learner, FineTuning(), jax.random.key(3), state, (), traj)[0].params

    plain = jax.jit(one_update)()
    for module in (collect_module, update_module, memory_module):
        monkeypatch.setattr(module, "unroll", lambda steps: steps)
    unrolled = jax.jit(lambda: one_update())()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), plain, unrolled)


def test_batched_seeds_compute_what_each_does_alone(monkeypatch):
    """An accelerator trains seeds in one batch, or in turn where a policy asks for that."""

    def one_seed(shared, x, key):
        return shared + jnp.tanh(x @ x.T) + jax.random.normal(key, (3, 3))

    arguments = (jax.random.normal(jax.random.key(0), (4, 3, 3)), jax.random.split(KEY, 4))
    alone = jnp.stack([one_seed(2.0, x, key) for x, key in zip(*arguments, strict=True)])

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for in_turn in (False, True):
        found = over_seeds(one_seed, 2.0, *arguments, devices=1, in_turn=in_turn)
        np.testing.assert_allclose(found, alone, atol=1e-6)
    one = over_seeds(one_seed, 2.0, *(leaf[:1] for leaf in arguments), devices=1)
    np.testing.assert_allclose(one, alone[:1], atol=1e-6)


def test_seeds_of_a_cnn_are_trained_in_turn():
    env, _ = example()
    for encoder, in_turn in (("cnn", True), ("mlp", False)):
        settings = IPPO(network=NetworkConfig(hidden=(8,), encoder=encoder))
        learner = settings.build(env, num_tasks=3, updates_per_task=4)
        trainer, _ = make_trainer(env, learner)
        assert trainer.in_turn == in_turn


def test_streams_of_random_numbers_do_not_meet():
    """fold_in(key, n) is split(key)[n]: the number of a stream must be out of reach of splits."""
    split = {tuple(jax.random.key_data(key).tolist()) for key in jax.random.split(KEY, 1000)}
    for stream in (EVALUATION, SEATS, AFTER_ROLLOUT):
        assert tuple(jax.random.key_data(jax.random.fold_in(KEY, stream)).tolist()) not in split
    assert len({EVALUATION, SEATS, AFTER_ROLLOUT}) == 3


class CountTask(struct.PyTreeNode):
    id: jax.Array


@dataclass(frozen=True)
class Counter(Environment):
    """Counts its steps; the observation is the count. Ends or is cut after `length`."""

    length: int
    cut: bool
    num_agents: ClassVar[int] = 1
    num_actions: ClassVar[int] = 2
    obs_shape: ClassVar[tuple[int, ...]] = (1,)
    horizon: ClassVar[int] = 7

    def reset(self, key, task):
        return jnp.int32(0), self._now(jnp.int32(0), task)

    def step(self, key, state, action, task):
        return state + 1, self._now(state + 1, task)

    def _now(self, count, task):
        done = count >= self.length
        view = View(
            obs=count[None, None],
            avail=jnp.ones((1, 2), bool),
            prev_action=jnp.full(1, -1, jnp.int32),
            prev_reward=jnp.zeros(1),
            first=count[None] == 0,
            active=jnp.ones(1, bool),
            task_id=task.id[None],
        )
        reward = count[None].astype(jnp.float32)
        return TimeStep(view, reward, done & (not self.cut), done & self.cut, {"score": count / 10})


@dataclass(frozen=True)
class Watcher(Policy):
    """A policy whose recorded value is what it sees."""

    def init(self, key):
        return ()

    def initial_carry(self, batch):
        return jnp.zeros(batch, jnp.int32)

    def act(self, params, carry, view, key, greedy=False):
        return view.obs[..., 0] * 0, carry + 1, {"value": view.obs[..., 0].astype(jnp.float32)}


def play(env, num_steps, rollouts=1):
    source = DeviceSource(env, Players(Watcher()), 2, num_steps)
    task = CountTask(jnp.int32(0))
    loop = source.start(jax.random.key(0), task)
    out = []
    for number in range(rollouts):
        loop, traj = source.next(loop, Acting(()), task, jax.random.key(number))
        out.append(traj)
    return out


def seen(traj):
    return traj.view.obs[:, 0, 0, 0].tolist()


def test_a_game_that_is_over_starts_again_at_once():
    (traj,) = play(Counter(3, cut=False), 7)
    assert seen(traj) == [0, 1, 2, 0, 1, 2, 0]
    assert traj.terminated[:, 0].tolist() == [False, False, True] * 2 + [False]
    assert traj.valid.all()


def test_a_game_cut_inside_a_rollout_is_looked_at_once_more():
    """The slot after the cut shows the last view, for its value, and is not counted."""
    (traj,) = play(Counter(3, cut=True), 7)
    assert seen(traj) == [0, 1, 2, 3, 0, 1, 2]
    assert traj.valid[:, 0].tolist() == [True, True, True, False, True, True, True]
    assert traj.truncated[:, 0].tolist() == [False, False, True, False, False, False, True]
    assert traj.extras["value"][3, 0, 0] == 3.0
    assert traj.last["value"][0, 0] == 3.0


def test_rollouts_as_long_as_games_waste_nothing():
    first, second = play(Counter(4, cut=True), 4, rollouts=2)
    assert seen(first) == seen(second) == [0, 1, 2, 3]
    assert first.valid.all()
    assert second.valid.all()
    assert first.last["value"][0, 0] == 4.0


def test_games_go_on_over_the_end_of_a_rollout():
    first, second = play(Counter(5, cut=True), 3, rollouts=2)
    assert seen(first) == [0, 1, 2]
    assert seen(second) == [3, 4, 5]
    assert second.valid[:, 0].tolist() == [True, True, False]


@pytest.fixture(scope="module")
def parts():
    env, sequence = example()
    learner = make_learner(env)
    trainer, evaluator = make_trainer(env, learner)
    return env, sequence, learner, trainer, evaluator


def finish(trainer, sequences, evaluator, seeds, updates=2, eval_every=1):
    run = trainer.run(
        sequences, evaluator, seeds=seeds, updates_per_task=updates, eval_every=eval_every
    )
    *_, (_, position) = run
    return position.state, position.record.arrays()


@dataclass(frozen=True)
class Traced(Overcooked):
    """Counts how often its step is traced."""

    count: ClassVar[list[int]] = []

    def step(self, key, state, action, task):
        self.count.append(1)
        return super().step(key, state, action, task)


@pytest.mark.parametrize("num_tasks", [3, 12])
def test_any_number_of_tasks_is_traced_once(num_tasks):
    env = Traced(height=7, width=7, horizon=4)
    grids = generate_sequence("1", num_tasks, 0)
    sequence = sequence_from_grids(
        grids, [str(n) for n in range(num_tasks)], steps=1, height=7, width=7
    )
    trainer, _ = make_trainer(env, make_learner(env, num_tasks))
    tasks = stack_sequences([sequence])
    state = trainer.init([0], tasks)
    state, _ = trainer.step(trainer.begin_task(state, tasks, 0), tasks, 0)
    Traced.count.clear()
    compiled = programs.step._cache_size()
    for task in range(num_tasks):
        state = trainer.begin_task(state, tasks, task)
        for _ in range(2):  # a step after a step is no other program than one after a reset
            state, _ = trainer.step(state, tasks, task)
    assert Traced.count == []
    assert programs.step._cache_size() == compiled


def test_the_record_has_its_axes(parts):
    _, sequence, _, trainer, evaluator = parts
    _, arrays = finish(trainer, [sequence] * 2, evaluator, seeds=[3, 4])
    steps = NUM_ENVS * NUM_STEPS
    assert arrays["steps"].tolist() == [steps * n for n in range(7)]
    assert arrays["task_ends"].tolist() == [2 * steps, 4 * steps, 6 * steps]
    assert arrays["score"].shape == (7, 3, 1, 1, 2, EPISODES)
    assert arrays["axes"].tolist() == ["eval", "task", "partner", "seat", "seed", "episode"]


def test_a_seed_runs_the_same_alone_and_beside_others(parts):
    _, sequence, _, trainer, evaluator = parts
    together, _ = finish(trainer, [sequence] * 2, evaluator, seeds=[3, 4])
    alone, _ = finish(trainer, [sequence], evaluator, seeds=[4])
    for a, b in zip(
        jax.tree.leaves(together.learner.params), jax.tree.leaves(alone.learner.params), strict=True
    ):
        # Only nearly: with other shapes XLA may add up in another order.
        np.testing.assert_allclose(a[1], b[0], atol=1e-6)


def test_seeds_differ(parts):
    _, sequence, _, trainer, evaluator = parts
    state, _ = finish(trainer, [sequence] * 2, evaluator, seeds=[3, 4])
    kernel = state.learner.params["actor_trunk"]["Hidden_0"]["Linear_0"]["kernel"]
    assert not np.allclose(kernel[0], kernel[1])


def test_evaluating_more_often_changes_no_training(parts):
    _, sequence, _, trainer, evaluator = parts
    often, _ = finish(trainer, [sequence], evaluator, seeds=[0], eval_every=1)
    rarely, arrays = finish(trainer, [sequence], evaluator, seeds=[0], eval_every=5)
    for a, b in zip(
        jax.tree.leaves(often.learner.params), jax.tree.leaves(rarely.learner.params), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert len(arrays["steps"]) == 1 + 3  # the start, and the end of every task


def test_a_run_of_no_updates_is_refused(parts):
    _, sequence, _, trainer, evaluator = parts
    with pytest.raises(ValueError, match="at least 1"):
        next(trainer.run([sequence], evaluator, seeds=[0], updates_per_task=0, eval_every=1))


def test_a_run_taken_up_in_the_middle_ends_the_same(parts):
    _, sequence, _, trainer, evaluator = parts
    plan = {"seeds": [0], "updates_per_task": 2, "eval_every": 1}
    whole, arrays = finish(trainer, [sequence], evaluator, seeds=[0])
    for stop in (1, 2, 3, 5):
        started = trainer.run([sequence], evaluator, **plan)
        _, position = next(itertools.islice(started, stop, None))
        *_, (_, end) = trainer.run([sequence], evaluator, position=position, **plan)
        again = end.record.arrays()
        assert all(np.array_equal(arrays[name], again[name]) for name in arrays)
        for a, b in zip(
            jax.tree.leaves(whole.learner), jax.tree.leaves(end.state.learner), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_evaluation_costs_in_proportion_to_the_tasks(parts):
    env, _, learner, _, evaluator = parts
    params = learner.init(jax.random.key(0)).params

    def flops(num_tasks):
        sequence = sequence_from_grids(
            [("XXPXX", "O1.2O", "XDXSX")] * num_tasks,
            [""] * num_tasks,
            steps=1,
            height=env.height,
            width=env.width,
        )
        lowered = jax.jit(evaluator).lower(params, (), Round(sequence.tasks), jax.random.key(0))
        return lowered.compile().cost_analysis()["flops"]

    assert flops(12) / flops(3) == pytest.approx(4.0, rel=0.02)


def test_greedy_evaluation_repeats_itself(parts):
    env, sequence, learner, _, _ = parts
    params = learner.init(jax.random.key(0)).params
    calm = Overcooked(height=env.height, width=env.width, horizon=env.horizon, start_facing="up")
    greedy = Evaluator(calm, Players(learner.policy), ContinualMethod(), 2, greedy=True)
    results = [greedy(params, (), Round(sequence.tasks), jax.random.key(k)) for k in (0, 1)]
    np.testing.assert_array_equal(results[0].events, results[1].events)
    sampled = Evaluator(calm, Players(learner.policy), ContinualMethod(), 2)
    one, other = (sampled(params, (), Round(sequence.tasks), jax.random.key(k)) for k in (0, 1))
    assert (one.events != other.events).any()


def test_evaluation_stops_counting_when_the_game_is_over():
    evaluator = Evaluator(Counter(3, cut=False), Players(Watcher()), ContinualMethod(), episodes=2)
    tasks = CountTask(jnp.arange(2, dtype=jnp.int32))
    result = evaluator((), (), Round(tasks), jax.random.key(0))
    assert result.returns.tolist() == [[[[6.0, 6.0]]]] * 2  # 1 + 2 + 3
    np.testing.assert_allclose(result.score, 0.3)


class Calls(struct.PyTreeNode):
    """How often each hook was called, as a method's memory."""

    loss: jax.Array
    observed: jax.Array
    ended: jax.Array
    anchor: dict


@dataclass(frozen=True)
class Everything(ContinualMethod):
    """Uses every hook in a way that leaves a mark that can be computed."""

    phases: ClassVar = (("first", 0.5), ("second", 0.5))
    frozen: str = "critic_head"

    def init(self, params, batch):
        zero = jnp.int32(0)
        return Calls(zero, zero, zero, params)

    def loss(self, mem, base, params, learner, key):
        loss, metrics = base(params)
        return 0.0 * loss, metrics | {"half": 0.5 * loss}

    def edit_grads(self, mem, grads, params, loss_on, key):
        return jax.tree.map(jnp.ones_like, grads)

    def after_update(self, mem, old, new, grads):
        total = sum(jnp.sum(g) for g in jax.tree.leaves(grads))
        size = sum(g.size for g in jax.tree.leaves(grads))
        mem = mem.replace(loss=mem.loss + (total == size))
        return mem, new | {self.frozen: old[self.frozen]}

    def observe(self, mem, batch, key):
        return mem.replace(observed=mem.observed + 1)

    def end_phase(self, mem, phase, state, learner, batch, key):
        return mem.replace(ended=mem.ended + (10 if phase == "second" else 1)), state

    def acting_params(self, mem, params, task_id):
        return jax.tree.map(lambda a, p: jnp.where(task_id == 0, a, p), mem.anchor, params)


def test_every_hook_of_a_method_is_called_where_it_should(parts):
    env, sequence, learner, _, _ = parts
    trainer, evaluator = make_trainer(env, learner, Everything())
    tasks = stack_sequences([sequence])
    start = jax.device_get(trainer.init([0], tasks).learner.params)
    state, _ = finish(trainer, [sequence], evaluator, seeds=[0], updates=2, eval_every=2)
    updates, gradient_steps = 2 * 3, 2 * 2  # per task x tasks; epochs x minibatches
    assert int(state.memory.loss[0]) == updates * gradient_steps
    assert int(state.memory.observed[0]) == updates
    assert int(state.memory.ended[0]) == 3 * (1 + 10)
    after = state.learner.params
    np.testing.assert_array_equal(after["critic_head"]["kernel"], start["critic_head"]["kernel"])
    assert (after["actor_head"]["kernel"] < start["actor_head"]["kernel"]).all()


def test_a_task_is_evaluated_with_the_parameters_the_method_acts_with(parts):
    env, sequence, learner, _, _ = parts
    _, evaluator = make_trainer(env, learner, Everything())
    anchor = learner.init(jax.random.key(0)).params
    stay_bias = anchor["actor_head"]["bias"].at[:].set(0).at[jnp.array([4, 10, 16])].set(1e6)
    lazy = anchor | {"actor_head": anchor["actor_head"] | {"bias": stay_bias}}
    zero = jnp.int32(0)
    same = TaskSequence.from_tasks([sequence[0]] * 2, ("a", "b"), 1)
    for memory, params in ((lazy, anchor), (anchor, lazy)):
        mem = Calls(zero, zero, zero, memory)
        acting = [evaluator.method.acting_params(mem, params, i) for i in same.tasks.id]
        for task, expected in enumerate(acting):
            key = jax.random.split(jax.random.key(0), 2)[task]
            alone = evaluator.play(Acting(expected), Round(same[task]), key)
            both = evaluator(params, mem, Round(same.tasks), jax.random.key(0))
            np.testing.assert_array_equal(both.events[task], alone.events)
            lazes = alone.events[..., EVENTS.index("stay")].mean() == env.horizon
            assert bool(lazes) == bool(expected["actor_head"]["bias"].max() > 1)


@dataclass(frozen=True)
class Forgetful(ContinualMethod):
    """Moves all parameters when a task ends, or when the next one begins."""

    at: str = "end"

    def moved(self, state):
        return state.replace(params=jax.tree.map(lambda p: p + 0.5, state.params))

    def begin_task(self, mem, state, learner, task_id, key):
        return mem, self.moved(state) if self.at == "begin" else state

    def end_phase(self, mem, phase, state, learner, batch, key):
        return mem, self.moved(state) if self.at == "end" else state


@dataclass(frozen=True)
class Others(ContinualMethod):
    """Changes the heads of other tasks than the one that has just ended."""

    def init(self, params, batch):
        return jnp.int32(0)

    def end_phase(self, mem, phase, state, learner, batch, key):
        head = state.params["actor_head"]
        task = jnp.arange(head["bias"].size) // 6
        bias = jnp.where(task == mem, head["bias"], head["bias"] + jnp.arange(task.size))
        params = state.params | {"actor_head": head | {"bias": bias}}
        return mem + 1, state.replace(params=params)


def test_the_score_after_training_is_that_of_the_trained_policy(parts):
    """Whatever a method does to prepare the next task comes after the evaluation."""
    env, sequence, learner, _, _ = parts

    def events(method):
        trainer, evaluator = make_trainer(env, learner, method)
        return finish(trainer, [sequence], evaluator, seeds=[0], updates=2, eval_every=2)[1][
            "events"
        ]

    plain, spoiled = events(FineTuning()), events(Forgetful())
    np.testing.assert_array_equal(plain[:2], spoiled[:2])  # before, and after the first task
    assert (plain[2] != spoiled[2]).any()


def test_the_contract_refuses_to_change_the_policy_after_its_evaluation(parts):
    env, sequence, learner, _, _ = parts
    with pytest.raises(AssertionError, match="does not change the policy"):
        check_method(Forgetful(), *make_trainer(env, learner, Forgetful()), sequence)
    with pytest.raises(AssertionError, match="does not change the policy"):
        check_method(Others(), *make_trainer(env, learner, Others()), sequence)
    begins = Forgetful("begin")
    check_method(begins, *make_trainer(env, learner, begins), sequence)


def test_a_method_knows_which_task_begins(parts):
    @dataclass(frozen=True)
    class Noting(ContinualMethod):
        def init(self, params, batch):
            return jnp.int32(-1)

        def begin_task(self, mem, state, learner, task_id, key):
            return mem + 10 * (task_id + 1), state

    env, sequence, learner, _, _ = parts
    trainer, evaluator = make_trainer(env, learner, Noting())
    state, _ = finish(trainer, [sequence], evaluator, seeds=[0], updates=1)
    assert int(state.memory[0]) == -1 + 10 + 20 + 30


def test_a_loss_can_use_the_current_minibatch(parts):
    """Its own loss on the minibatch it is shown equals the learner's."""

    @dataclass(frozen=True)
    class Seeing(ContinualMethod):
        def loss(self, mem, base, params, learner, key):
            loss, metrics = base(params)
            again, _ = learner.loss(params, base.state, base.batch, base.key)
            logits = learner.outputs(params, base.batch).logits
            return loss, metrics | {"gap": loss - again, "samples": jnp.float32(len(logits))}

    env, sequence, learner, _, _ = parts
    trainer, _ = make_trainer(env, learner, Seeing())
    rounds = stack_sequences([sequence])
    state = trainer.begin_task(trainer.init([0], rounds), rounds, 0)
    _, metrics = trainer.step(state, rounds, 0)
    np.testing.assert_allclose(metrics["gap"], 0.0, atol=1e-5)
    assert metrics["samples"] * learner.config.minibatches == NUM_ENVS * NUM_STEPS * 2


def test_phases_end_where_their_shares_say():
    class Merging(ContinualMethod):
        phases: ClassVar = (("train", 1.0), ("done", 0.0))

    assert phase_ends(Merging(), 10) == {10: ["train", "done"]}
    assert phase_ends(Everything(), 10) == {5: ["first"], 10: ["second"]}
    assert phase_ends(Everything(), 1) == {1: ["first", "second"]}
    assert phase_ends(ContinualMethod(), 7) == {7: ["train"]}
    assert phase_ends(PackNet(), 2) == {1: ["train"], 2: ["retrain"]}  # 1.5 rounds to 2
    assert phase_ends(PackNet(), 8) == {6: ["train"], 8: ["retrain"]}


def test_training_state_is_all_arrays(parts):
    """What is checkpointed must be a pytree of arrays."""
    _, sequence, _, trainer, _ = parts
    state = trainer.init([0], stack_sequences([sequence]))
    assert isinstance(trainer, Trainer)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))

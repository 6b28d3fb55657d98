"""The contracts, for everything in the registries."""

import json

import jax
import jax.numpy as jnp
import pytest
from support.parts import (
    NUM_ENVS,
    NUM_STEPS,
    example,
    example_for,
    make_learner,
    make_trainer,
    small_settings,
    source_for,
)

import brigade
from brigade.core import Acting, Benchmark, Environment
from brigade.envs.overcooked_v2 import OvercookedV2
from brigade.envs.overcooked_v2.teammates import Teammate
from brigade.testing import (
    check_avail,
    check_environment,
    check_learner,
    check_method,
    check_policy,
    check_trajectory,
)
from brigade.train import DeviceSource, Players


@pytest.mark.slow
@pytest.mark.parametrize("name", brigade.names("envs"))
def test_environments_keep_their_promises(name):
    check_environment(*brigade.get("envs", name).example())


@pytest.mark.slow
@pytest.mark.parametrize("name", brigade.names("learners"))
def test_learners_keep_their_promises(name):
    env, sequence = example_for(name)
    settings = small_settings(name)
    learner = settings.build(env, num_tasks=len(sequence), updates_per_task=4)
    check_learner(learner, source_for(settings, env, learner), sequence[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", brigade.names("learners"))
def test_policies_of_learners_keep_their_promises(name):
    env, sequence = example_for(name)
    learner = small_settings(name).build(env, num_tasks=len(sequence), updates_per_task=4)
    view = env.reset(jax.random.key(0), sequence[0])[1].view
    check_policy(learner.policy, view, env.num_actions)
    check_avail(learner.policy, view, env.num_actions)


@pytest.mark.slow
@pytest.mark.parametrize("name", brigade.names("partners"))
def test_partners_keep_their_promises(name):
    kind = brigade.get("partners", name)
    env, sequence = OvercookedV2.example() if issubclass(kind, Teammate) else example()
    view = env.reset(jax.random.key(0), sequence[0])[1].view
    check_policy(kind.for_game(env), view, env.num_actions)


@pytest.mark.parametrize("name", brigade.names("envs"))
def test_states_are_described_as_plain_data(name):
    """For viewers: everything, and what each seat may see, which is no more."""
    env, sequence = brigade.get("envs", name).example()
    assert len(set(env.action_names)) == env.num_actions
    state, _ = env.reset(jax.random.key(0), sequence[0])
    everything = json.dumps(env.describe(state, sequence[0]))
    assert len(everything) > 50
    for seat in range(env.num_agents):
        assert len(json.dumps(env.describe(state, sequence[0], seat))) <= len(everything)


@pytest.mark.slow
@pytest.mark.parametrize("name", brigade.names("methods"))
def test_methods_keep_their_promises(name):
    env, sequence = example()
    method = brigade.get("methods", name)()
    trainer, evaluator = make_trainer(env, make_learner(env), method)
    check_method(method, trainer, evaluator, sequence)


@pytest.mark.parametrize("name", brigade.names("benchmarks"))
def test_benchmarks_describe_a_stream_their_environment_can_play(name):
    benchmark = brigade.get("benchmarks", name)()
    assert isinstance(benchmark, Benchmark)
    assert benchmark.id == name
    number = min(benchmark.num_tasks, 3)
    sequence = benchmark.sequence(0, number, 1000)
    assert len(sequence) == number
    assert sequence.steps == 1000
    if not benchmark.env.traced:
        return
    _, now = jax.eval_shape(benchmark.env.reset, jax.random.key(0), sequence[0])
    assert now.view.obs.shape == (benchmark.env.num_agents, *benchmark.env.obs_shape)


@pytest.mark.slow
def test_rollouts_keep_their_promises():
    env, sequence = example()
    learner = make_learner(env)
    source = DeviceSource(env, Players(learner.policy), NUM_ENVS, NUM_STEPS + 7)
    state = learner.init(jax.random.key(0))
    loop = source.start(jax.random.key(1), sequence[0])
    _, traj = jax.jit(source.next)(loop, Acting(state.params), sequence[0], jax.random.key(2))
    check_trajectory(traj, NUM_STEPS + 7, NUM_ENVS)


class ForgetfulGame(Environment):
    """An environment that breaks a promise: it resets itself."""

    def __init__(self, env):
        self.env = env
        self.num_agents, self.num_actions = env.num_agents, env.num_actions
        self.obs_shape, self.horizon = env.obs_shape, env.horizon

    def reset(self, key, task):
        return self.env.reset(key, task)

    def step(self, key, state, action, task):
        state, now = self.env.step(key, state, action, task)
        first = jnp.broadcast_to(now.truncated, now.view.first.shape)
        return state, now.replace(view=now.view.replace(first=first))


@pytest.mark.slow
def test_a_broken_promise_is_found():
    env, sequence = example()
    with pytest.raises(AssertionError, match="never resets itself"):
        check_environment(ForgetfulGame(env), sequence)

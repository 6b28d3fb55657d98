"""What makes training fast: compact rollouts, one program, seeds shared out over devices."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.parts import NUM_ENVS, NUM_STEPS, example, make_learner, make_trainer

from brigade.benchmarks.meal import KitchenSettings, MixedSettings, curriculum, kitchens
from brigade.core import Acting
from brigade.envs.overcooked import LAYOUTS, Overcooked, sequence_from_grids, task_from_grid
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.methods.ft import FineTuning
from brigade.train import DeviceSource, Players, Trainer, programs
from brigade.train.collect import ends_with_rollouts
from brigade.train.play import reset_all, step_all
from brigade.train.trainer import stack_sequences

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def parts():
    env, sequence = example()
    learner = make_learner(env)
    trainer, evaluator = make_trainer(env, learner)
    tasks = stack_sequences([sequence])
    return env, trainer, evaluator, tasks, trainer.init([0], tasks)


def test_rollouts_hold_a_byte_per_entry(parts):
    env, trainer, _, tasks, state = parts
    one = jax.tree.map(lambda leaf: leaf[0], state)
    task = jax.tree.map(lambda leaf: leaf[0, 0], tasks.task)
    _, traj = jax.eval_shape(
        trainer.source.next, one.source, Acting(one.learner.params), task, one.key
    )
    assert traj.view.obs.dtype == jnp.uint8
    assert traj.view.obs.shape == (NUM_STEPS, NUM_ENVS, env.num_agents, *env.obs_shape)
    learner = dataclasses.replace(trainer.learner, changing_inputs=192)
    _, data, _ = jax.eval_shape(learner.prepare, one.learner, traj, one.key)
    assert data.inputs.obs.dtype == jnp.uint8
    assert data.inputs.obs.shape == (NUM_STEPS * NUM_ENVS * env.num_agents, 192)


def test_the_programs_never_call_the_host(parts):
    _, trainer, evaluator, tasks, state = parts
    keys = jnp.stack([jax.random.key(0)])
    step = programs.step.lower(trainer, state, tasks, jnp.int32(0), ()).as_text()
    play = programs.evaluate_compiled.lower(
        trainer, evaluator, (state.learner.params, state.memory, state.matches), tasks, keys, ()
    ).as_text()
    for text in (step, play):
        assert "while" in text
        for word in ("callback", "outfeed", "infeed", "host_execute"):
            assert word not in text


def play_at_random(env, task, steps, num_envs=64):
    """Observations [steps, num_envs, seats, entries] of cooks that interact a lot."""

    @jax.jit
    def play(key):
        def step(state, key):
            action = jax.random.choice(
                key,
                env.num_actions,
                (num_envs, env.num_agents),
                p=jnp.array([0.15, 0.15, 0.15, 0.15, 0.0, 0.4]),
            )
            state, then = step_all(env, key, state, action, task)
            return state, then.view.obs.reshape(num_envs, env.num_agents, -1)

        start, _ = reset_all(env, key, task, num_envs)
        return jax.lax.scan(step, start, jax.random.split(key, steps))[1]

    return np.asarray(play(jax.random.key(0)))


@pytest.mark.parametrize("agents", [1, 2, 3])
def test_no_more_entries_change_than_the_environment_promises(agents):
    benchmark = kitchens("1", num_agents=agents)
    sequence = benchmark.sequence(0, 3, 1)
    for index in range(3):
        seen = play_at_random(benchmark.env, sequence[index], 400)
        changed = (seen != seen[0, 0, 0]).any((0, 1, 2)).sum()
        promised = benchmark.env.changing_inputs(sequence[index])
        assert 0.4 * promised < changed <= promised


@pytest.mark.parametrize(
    "changes",
    [
        {"view": "level"},
        {"view": (3, 2, 1), "num_agents": 3},
        {"random_starts": True, "roles": True, "random_pot_sizes": True},
        {"sticky_actions": 0.2, "slippery": 0.5, "random_cook_times": True},
        {"require_handoff": True, "view": "level", "random_starts": True},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_the_promise_holds_under_every_setting(changes):
    benchmark = kitchens("1", settings=KitchenSettings(**changes))
    sequence = benchmark.sequence(0, 3, 1)
    for index in range(3):
        seen = play_at_random(benchmark.env, sequence[index], 400)
        changed = (seen != seen[0, 0, 0]).any((0, 1, 2)).sum()
        promised = benchmark.env.changing_inputs(sequence[index])
        assert 0.3 * promised < changed <= promised


def test_the_promise_holds_in_a_padded_curriculum_with_a_window():
    benchmark = curriculum(MixedSettings(view=(3, 2, 1)))
    sequence = benchmark.sequence(0, 3, 1)
    promised = benchmark.env.changing_inputs(sequence.tasks)
    for index in range(3):
        seen = play_at_random(benchmark.env, sequence[index], 200, num_envs=32)
        assert (seen != seen[0, 0, 0]).any((0, 1, 2)).sum() <= promised


def test_the_promise_for_many_kitchens_is_that_of_the_worst():
    sequence = kitchens("1").sequence(0, 5, 1)
    env = kitchens("1").env
    each = [env.changing_inputs(sequence[index]) for index in range(5)]
    assert len(set(each)) > 1
    assert env.changing_inputs(sequence.tasks) == max(each)


def test_the_promise_worked_by_hand():
    """cramped_room: 6 floor, 9 counters of which 6 beside floor, a pot, 20 tiles."""
    task = task_from_grid(LAYOUTS["cramped_room"])
    env = Overcooked(height=4, width=5)
    tile = np.asarray(task.tile)
    assert (tile.size, (tile == 0).sum()) == (20, 6)
    # floor: 2 positions, 8 facings, 4 kinds of things; counter: bare or 4 kinds; pot: 4; urgency
    assert env.changing_inputs(task) == 6 * 14 + beside_floor(tile) * 5 + 1 * 4 + 20
    # In a window all 14 solid tiles come and go; counters beside floor are counted already.
    partial = dataclasses.replace(env, view=(1, 1, 0))
    assert partial.changing_inputs(task) == env.changing_inputs(task) + 14 - beside_floor(tile)


def beside_floor(tile):
    """Counters with a floor tile on one of four sides, counted one by one."""
    count = 0
    for row, column in np.argwhere(tile == 1):
        for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            near = (row + down, column + right)
            inside = 0 <= near[0] < tile.shape[0] and 0 <= near[1] < tile.shape[1]
            if inside and tile[near] == 0:
                count += 1
                break
    return count


def test_games_of_fixed_length_that_fit_need_no_restarts_inside_a_rollout():
    env = Overcooked(horizon=20)
    assert ends_with_rollouts(env, 20)
    assert ends_with_rollouts(env, 10)
    assert not ends_with_rollouts(env, 15)


PROGRAM = """
import jax, numpy as np
from support.parts import example, make_learner, make_trainer
from brigade.train.programs import evaluate
from brigade.train.trainer import Trainer, stack_sequences
assert jax.device_count() == 4
env, sequence = example()
results = []
for devices in (1, 2, 4):
    trainer, evaluator = make_trainer(env, make_learner(env))
    trainer = Trainer(trainer.source, trainer.learner, trainer.method, devices=devices)
    tasks = stack_sequences([sequence] * 4)
    state = trainer.begin_task(trainer.init(range(4), tasks), tasks, 0)
    state, metrics = trainer.step(state, tasks, 0)
    state = trainer.end_phase(state, tasks, 0, "train")
    keys = jax.random.split(jax.random.key(0), 4)
    played = evaluate(trainer, evaluator, state, tasks, keys)
    used = jax.tree.leaves(state.learner.params)[0].sharding.device_set
    assert len(used) == devices, (used, devices)
    results.append(jax.device_get((state.learner, metrics, played)))
for other in results[1:]:
    for a, b in zip(jax.tree.leaves(results[0]), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
print("same on 1, 2 and 4 devices")
"""


def test_seeds_are_shared_out_over_devices_and_compute_the_same():
    tests = Path(__file__).parents[1]
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": str(tests),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "same on 1, 2 and 4 devices" in done.stdout


def test_bfloat16_learns_like_float32():
    """Two seeds each in cramped_room: what the cooks do right rises alike, far above chance."""
    env = Overcooked(height=4, width=5, horizon=40)
    sequence = sequence_from_grids([LAYOUTS["cramped_room"]], ["cramped room"], steps=1)
    tasks = stack_sequences([sequence] * 2)
    ppo = PPOConfig(epochs=4, minibatches=4, shaping_steps=None, learning_rate=2e-3)
    reached = {}
    for precision in ("float32", "bfloat16"):
        learner = IPPO(ppo, NetworkConfig(hidden=(32, 32), precision=precision)).build(
            env,
            num_tasks=1,
            updates_per_task=30,
            changing_inputs=env.changing_inputs(sequence.tasks),
        )
        assert learner.policy.network.dtype == jnp.dtype(precision)
        trainer = Trainer(DeviceSource(env, Players(learner.policy), 32, 40), learner, FineTuning())
        state = trainer.begin_task(trainer.init([0, 1], tasks), tasks, 0)
        play = jax.jit(trainer.source.next)

        def shaped_reward(state, play=play):
            """Per step, over both seeds."""
            rewards = []
            for seed in range(2):
                one = jax.tree.map(lambda leaf, seed=seed: leaf[seed], state)
                _, traj = play(one.source, Acting(one.learner.params), sequence[0], one.key)
                rewards.append(traj.info["shaped_reward"].sum(-1).mean())
            return float(np.mean(rewards))

        untrained = shaped_reward(state)
        for _ in range(30):
            state, _ = trainer.step(state, tasks, 0)
        reached[precision] = shaped_reward(state)
        assert reached[precision] > 2 * untrained
    assert reached["bfloat16"] == pytest.approx(reached["float32"], rel=0.35)

"""Every kind of learner learns, also in games it was not made for: rewards rise above chance."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from brigade.core import Acting, TaskSequence
from brigade.core.trees import pick
from brigade.envs.hanabi import Hanabi
from brigade.envs.overcooked import LAYOUTS, Overcooked, sequence_from_grids
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.learners.pqn import PQN, PQNConfig
from brigade.learners.q_settings import Additions, QConfig, QNetworkConfig
from brigade.learners.r2d2 import IQL, VDN
from brigade.methods.ft import FineTuning
from brigade.train import DeviceSource, Players, Trainer
from brigade.train.trainer import stack_sequences

pytestmark = pytest.mark.slow

KEY = jax.random.key(0)
SMALL_NET = {"hidden": (32,), "memory_size": 32}
REPLAY = QConfig(
    learning_rate=2e-3,
    batch_size=32,
    gradient_steps=8,
    buffer_size=1024,
    warm_up=32,
    target_every=50,
    exploration=0.4,
    shaping_steps=None,
)
HANABI = Hanabi(colors=1, ranks=3, hand_size=2, hint_tokens=3, life_tokens=2)


def hanabi_stream():
    return TaskSequence.from_tasks([HANABI.task()], ["hanabi"], 1)


def kitchen_stream():
    return sequence_from_grids([LAYOUTS["cramped_room"]], ["cramped room"], steps=1)


LEARNERS = {
    "ppo in hanabi": (
        HANABI,
        hanabi_stream,
        IPPO(PPOConfig(epochs=4, minibatches=4, learning_rate=3e-3), NetworkConfig(hidden=(32,))),
    ),
    "vdn in hanabi": (
        HANABI,
        hanabi_stream,
        VDN(REPLAY, QNetworkConfig(**SMALL_NET, memory="gru"), Additions(op=True, aux=0.25)),
    ),
    "pqn in hanabi": (
        HANABI,
        hanabi_stream,
        PQN(
            PQNConfig(epochs=4, minibatches=4, learning_rate=3e-3),
            QNetworkConfig(**SMALL_NET, memory="none", layer_norm=True),
        ),
    ),
    "iql in a kitchen": (
        Overcooked(height=4, width=5, horizon=40),
        kitchen_stream,
        IQL(
            replace(REPLAY, gamma=0.9, gradient_steps=16, learning_rate=1e-3),
            QNetworkConfig(hidden=(64,), memory="none"),
        ),
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_it_learns(name):
    env, stream, settings = LEARNERS[name]
    tasks = stack_sequences([stream()])
    updates = 120 if isinstance(env, Overcooked) else 60
    learner = settings.build(env, num_tasks=1, updates_per_task=updates)
    source = DeviceSource(env, Players(learner.policy), num_envs=32, num_steps=20)
    trainer = Trainer(source, learner, FineTuning())
    state = trainer.begin_task(trainer.init([0], tasks), tasks, 0)

    @jax.jit
    def earned(params):
        """Reward per step, with what counts as progress in a kitchen."""
        task = pick(pick(tasks.task, 0), 0)
        _, traj = source.next(source.start(KEY, task), Acting(pick(params, 0)), task, KEY)
        return traj.reward.mean() + traj.info.get("shaped_reward", jnp.zeros(1)).mean()

    before = float(earned(state.learner.params))
    for _ in range(updates):
        state, _ = trainer.step(state, tasks, 0)
    after = float(earned(state.learner.params))
    # Untrained networks earn 0 to 0.2.
    assert after > before + 0.1, (before, after)

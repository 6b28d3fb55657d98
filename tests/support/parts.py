"""Small parts that many tests share, so that they compile once."""

import numpy as np

import brigade
from brigade.core import ContinualMethod
from brigade.core.histories import (
    ACTIONS,
    DONES,
    EXPERT_ACTIONS,
    OBS,
    REWARDS,
    TEAMMATE_ACTIONS,
)
from brigade.envs.overcooked import LAYOUTS, Overcooked, sequence_from_grids
from brigade.histories import ArrayHistories, Batches, RecordedSource
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.learners.in_context import AD, ContextNetworkConfig
from brigade.learners.pqn import PQN
from brigade.learners.q_settings import QConfig, QNetworkConfig
from brigade.learners.r2d2 import IQL
from brigade.methods.ft import FineTuning
from brigade.train import DeviceSource, Evaluator, Players, Trainer

NUM_ENVS, NUM_STEPS, EPISODES = 4, 20, 3

# Q-learning with a small buffer.
SMALL_Q = {
    "q": {"buffer_size": 64, "warm_up": 4, "batch_size": 4, "gradient_steps": 2},
    "network": {"hidden": [8], "memory_size": 8},
}


def example():
    """The environment (5 x 5, horizon 20) and its three kitchens."""
    return Overcooked.example()


def example_for(learner):
    """The same with one cook for what plays alone."""
    if learner != "ppo":
        return example()
    env = Overcooked(num_agents=1, height=5, width=5, horizon=20)
    grids = [LAYOUTS[name] for name in ("cramped_room", "coordination_ring")]
    names = ["cramped room", "coordination ring"]
    return env, sequence_from_grids(grids, names, steps=1, num_agents=1, height=5, width=5)


def small_settings(learner):
    """The settings of a learner by its name: its defaults, with a small buffer if it has one."""
    kind = brigade.get("learners", learner)
    if issubclass(kind, AD):
        return kind(network=ContextNetworkConfig("small", context=8, hidden=(8,)))
    network = QNetworkConfig(hidden=(8,), memory_size=8)
    if issubclass(kind, PQN):
        return kind(network=network)
    return kind(QConfig(**SMALL_Q["q"]), network) if issubclass(kind, IQL) else kind()


def source_for(settings, env, learner):
    """Games for a learner that plays, and histories of nonsense for one that does not."""
    if settings.windows is None:
        return DeviceSource(env, Players(learner.policy), NUM_ENVS, NUM_STEPS)
    histories = nonsense(env.obs_shape, env.num_actions)
    return RecordedSource(
        Batches(histories, NUM_STEPS, NUM_ENVS, settings.windows), env.num_actions
    )


def nonsense(obs_shape=(2,), num_actions=4, lengths=(40, 30, 35), episode=10):
    """Histories of random numbers, with every field."""
    numbers = np.random.default_rng(0)

    def history(length):
        actions = (ACTIONS, TEAMMATE_ACTIONS, EXPERT_ACTIONS)
        return {
            OBS: numbers.integers(0, 2, (length, *obs_shape)).astype(np.uint8),
            REWARDS: numbers.random(length).astype(np.float32),
            DONES: np.arange(1, length + 1) % episode == 0,
            **{name: numbers.integers(0, num_actions, length).astype(np.int32) for name in actions},
        }

    return ArrayHistories([history(length) for length in lengths], range(len(lengths)))


def make_learner(env, num_tasks=3, **settings):
    small = {"epochs": 2, "minibatches": 2, "shaping_steps": None} | settings
    settings = IPPO(PPOConfig(**small), NetworkConfig(hidden=(16, 16)))
    return settings.build(env, num_tasks=num_tasks, updates_per_task=4)


def make_trainer(env, learner, method: ContinualMethod | None = None):
    method = method or FineTuning()
    players = Players(learner.policy)
    source = DeviceSource(env, players, NUM_ENVS, NUM_STEPS)
    evaluator = Evaluator(env, players, method, EPISODES)
    return Trainer(source, learner, method), evaluator

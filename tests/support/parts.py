"""Small parts that many tests share, so that they compile once."""

import brigade
from brigade.core import ContinualMethod
from brigade.envs.overcooked import LAYOUTS, Overcooked, sequence_from_grids
from brigade.learners import IPPO, NetworkConfig, PPOConfig
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
    network = QNetworkConfig(hidden=(8,), memory_size=8)
    if issubclass(kind, PQN):
        return kind(network=network)
    return kind(QConfig(**SMALL_Q["q"]), network) if issubclass(kind, IQL) else kind()


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

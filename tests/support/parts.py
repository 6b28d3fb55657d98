"""Small parts that many tests share, so that they compile once."""

from brigade.core import ContinualMethod
from brigade.envs.overcooked import Overcooked
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.methods.ft import FineTuning
from brigade.train import DeviceSource, Evaluator, Trainer

NUM_ENVS, NUM_STEPS, EPISODES = 4, 20, 3


def example():
    """The environment (5 x 5, horizon 20) and its three kitchens."""
    return Overcooked.example()


def make_learner(env, num_tasks=3, **settings):
    small = {"epochs": 2, "minibatches": 2, "shaping_steps": None} | settings
    settings = IPPO(PPOConfig(**small), NetworkConfig(hidden=(16, 16)))
    return settings.build(env, num_tasks=num_tasks, updates_per_task=4)


def make_trainer(env, learner, method: ContinualMethod | None = None, policy=None):
    method = method or FineTuning()
    policy = method.wrap_policy(policy or learner.policy)
    source = DeviceSource(env, policy, NUM_ENVS, NUM_STEPS)
    evaluator = Evaluator(env, policy, method, EPISODES)
    return Trainer(source, learner, method), evaluator

"""Learning algorithms."""

from brigade.learners.ppo_settings import NetworkConfig, PPOConfig
from brigade.learners.settings import IPPO, MAPPO, SinglePPO

__all__ = ["IPPO", "MAPPO", "NetworkConfig", "PPOConfig", "SinglePPO"]

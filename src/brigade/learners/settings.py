"""The registered learners: their settings, and how they are built for an environment.

Reference: J. Schulman and others, *Proximal policy optimization algorithms*, 2017; C. Yu and
others, *The surprising effectiveness of PPO in cooperative multi-agent games*, NeurIPS 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from brigade.core import Environment, LearnerSettings
from brigade.learners.ppo import PPO, kept_inputs
from brigade.learners.ppo_settings import NetworkConfig, PPOConfig
from brigade.learners.recurrent import RecurrentPPO
from brigade.nets import ActorCriticPolicy, RecurrentPolicy


@dataclass(frozen=True)
class IPPO(LearnerSettings):
    """Independent PPO: the critic sees the seat's own observation."""

    ppo: PPOConfig = field(default_factory=PPOConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)

    central_critic: ClassVar[bool] = False
    plays_alone: ClassVar[bool] = False

    @property
    def epochs(self) -> int:
        return self.ppo.epochs

    def build(
        self,
        env: Environment,
        *,
        num_tasks: int,
        updates_per_task: int,
        changing_inputs: int | None = None,
        critic_ids: int = 0,
    ) -> PPO:
        """The learner for an environment and a stream of tasks."""
        if self.plays_alone and env.num_agents != 1:
            raise ValueError(
                f"ppo is for one seat and this environment has {env.num_agents}; use ippo or mappo"
            )
        length = self.ppo.sequence_length
        if length is not None and self.network.memory == "none":
            raise ValueError(
                f"sequence_length is {length}, but the network has no memory; "
                "use --network.memory gru or lstm, or leave it out"
            )
        network = self.network.build(env, num_tasks, self.central_critic, critic_ids)
        kept = kept_inputs(changing_inputs, math.prod(env.obs_shape))
        if network.memory != "none":
            recurrent = RecurrentPolicy(network, env.obs_shape)
            return RecurrentPPO(recurrent, self.ppo, updates_per_task, kept)
        return PPO(ActorCriticPolicy(network, env.obs_shape), self.ppo, updates_per_task, kept)


@dataclass(frozen=True)
class MAPPO(IPPO):
    """PPO with a central critic, which sees the observations of all seats."""

    central_critic: ClassVar[bool] = True


@dataclass(frozen=True)
class SinglePPO(IPPO):
    """PPO for environments with one seat."""

    plays_alone: ClassVar[bool] = True

"""A learner in one file: REINFORCE, the policy gradient with discounted returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import optax

from brigade.core import (
    Array,
    Batch,
    Environment,
    Key,
    LearnerSettings,
    LearnerState,
    Metrics,
    Outputs,
    Trajectory,
)
from brigade.learners import NetworkConfig
from brigade.learners.losses import normalise, total_reward, weighted_mean
from brigade.learners.scheduled import ScheduledLearner
from brigade.nets import ActorCriticPolicy


@dataclass(frozen=True)
class ReinforceConfig:
    """Settings of REINFORCE; the names are those that `ScheduledLearner` reads."""

    learning_rate: float = 3e-3
    final_learning_rate: float = 1e-3
    gamma: float = 0.99
    entropy_coef: float = 0.01
    shaping_steps: float | None = None
    reset_optimizer: bool = False


class Moves(Batch):
    """Leaves [samples, ...]: one entry per timestep, environment and seat."""

    obs: Array
    avail: Array
    task_id: Array
    action: Array
    returns: Array  # normalised
    weight: Array  # 0 where the seat was not active

    @property
    def weights(self) -> Array:
        return self.weight


@dataclass(frozen=True)
class ReinforceLearner(ScheduledLearner):
    """One gradient step per rollout, with all of its samples."""

    def optimizer(self) -> optax.GradientTransformation:
        return optax.scale_by_adam()

    def prepare(
        self, state: LearnerState, traj: Trajectory, key: Key
    ) -> tuple[LearnerState, Moves, Array]:
        reward = total_reward(traj, self.shaping_weight(state.updates, traj.steps), share=True)
        ends = (traj.terminated | traj.truncated)[..., None]

        def backwards(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
            reward, end = step
            now = reward + self.config.gamma * jnp.where(end, 0.0, later)
            return now, now

        start = jnp.zeros_like(reward[0])
        _, returns = jax.lax.scan(backwards, start, (reward, ends), reverse=True)
        active = (traj.view.active & traj.valid[..., None]).astype(jnp.float32)
        moves = Moves(
            obs=traj.view.obs,
            avail=traj.view.avail,
            task_id=traj.view.task_id,
            action=traj.action,
            returns=normalise(returns, active),
            weight=active,
        )
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), moves)
        return state.replace(updates=state.updates + 1), flat, jnp.arange(active.size)[None]

    def loss(
        self, params: Any, state: LearnerState, batch: Moves, key: Key
    ) -> tuple[Array, Metrics]:
        distribution = self.policy.distribution
        logits = self.outputs(params, batch).logits
        gain = distribution.log_prob(logits, batch.action) * batch.returns
        entropy = weighted_mean(distribution.entropy(logits), batch.weight)
        loss = -weighted_mean(gain, batch.weight) - self.config.entropy_coef * entropy
        return loss, {"loss": loss, "entropy": entropy}

    def rehearse(
        self, params: Any, state: LearnerState, batch: Moves, probability: Array | None = None
    ) -> tuple[Array, Metrics]:
        """On samples of earlier tasks: do as was done there."""
        logits = self.outputs(params, batch).logits
        log_prob = self.policy.distribution.log_prob(logits, batch.action)
        return -weighted_mean(log_prob, batch.weight), {}

    def outputs(self, params: Any, batch: Moves) -> Outputs:
        found: Outputs = self.policy.outputs(params, batch.obs, batch.task_id, batch.avail)
        return found


@dataclass(frozen=True)
class Reinforce(LearnerSettings):
    """REINFORCE with a network like PPO's; its critic is not trained."""

    reinforce: ReinforceConfig = field(default_factory=ReinforceConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)

    def build(
        self,
        env: Environment,
        *,
        num_tasks: int,
        updates_per_task: int,
        changing_inputs: int | None = None,
        critic_ids: int = 0,
    ) -> ReinforceLearner:
        network = self.network.build(env, num_tasks)
        policy = ActorCriticPolicy(network, env.obs_shape)
        return ReinforceLearner(policy, self.reinforce, updates_per_task)

"""What generators compute from a rollout by table, partner and policy."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from brigade.core import Array, Environment, Learner, Trajectory, View
from brigade.populations.fcp import FCP
from brigade.train.members import over_members


def by_environment(by_table: Array, traj: Trajectory) -> Array:
    """Leaves [tables, ...] -> [B, ...]: every environment has its table's value."""
    return jnp.repeat(by_table, traj.valid.shape[1] // len(by_table), axis=0)


def weighted(traj: Trajectory, by_table: Array) -> Trajectory:
    """The rollout with every reward times the weight of its table; `by_table` [tables]."""
    by_env = by_environment(by_table, traj)[:, None]
    info = dict(traj.info)
    if "shaped_reward" in info:
        info["shaped_reward"] = by_env * info["shaped_reward"]
    return traj.replace(reward=by_env * traj.reward, info=info)


def returns_by_table(traj: Trajectory, tables: int) -> Array:
    """[tables]: the mean return of an episode, over the environments of a table.

    With rollouts of parts of episodes, it is the mean reward times the steps of the rollout.
    """
    played = traj.valid.astype(jnp.float32)
    total = (traj.reward.mean(-1) * played).sum(0)  # [B]
    ended = (traj.terminated | traj.truncated).astype(jnp.float32).sum(0)
    per_table = total.reshape(tables, -1).sum(1), ended.reshape(tables, -1).sum(1)
    environments = traj.valid.shape[1] // tables
    return per_table[0] / jnp.maximum(per_table[1], environments)


def log_probs_of_all(learner: Learner, params: object, traj: Trajectory) -> Array:
    """[policies, T, B, seats]: the log-probability of every action under every policy."""
    policy = learner.policy

    def at_timestep(step: tuple[View, Array]) -> Array:
        view, action = step

        def of_one(params: object) -> Array:
            return policy.distribution.log_prob(policy.logits(params, view), action)

        return over_members(of_one)(params)

    view = traj.view.replace(state=None)
    by_time: Array = jax.lax.map(at_timestep, (view, traj.action))
    return by_time.swapaxes(0, 1)


@dataclass(frozen=True)
class Compared(FCP):
    """Policies that are asked about each other's observations."""

    def check(self, env: Environment, learner: Learner) -> None:
        super().check(env, learner)
        if learner.policy.has_memory:
            raise ValueError(
                f"{type(self).__name__.lower()} asks every policy what it would do on the others' "
                "observations, which needs policies without memory; use --network.memory none"
            )


def own_log_prob(log_probs: Array, traj: Trajectory) -> Array:
    """[T, B, seats]: of `log_probs` [policies, ...], that of the policy on the seat."""
    assert traj.seating is not None
    member = by_environment(traj.seating.member, traj)
    return jnp.take_along_axis(log_probs, member[None, None], axis=0)[0]

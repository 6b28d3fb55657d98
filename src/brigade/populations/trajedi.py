"""TrajeDi: trajectory diversity (Lupu and others, ICML 2021).

Reference: A. Lupu and others, *Trajectory diversity for zero-shot coordination*, ICML 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Array, Learner, Trajectory
from brigade.core.checks import at_least, within
from brigade.populations.tables import Compared, log_probs_of_all, own_log_prob

LAG = 10  # timesteps; with the default kernel, later actions have weights below 0.0005


@dataclass(frozen=True)
class TrajeDi(Compared):
    """Self-play policies paid for trajectories unlike those of others.

    The objective is the Jensen-Shannon divergence of the policies' trajectories, in which actions
    count less the further away they are from a timestep. It enters as a reward per timestep, the
    score-function gradient, paid ten steps later: by then almost all actions that it depends on
    were taken, and advantages give credit to earlier actions only. The rest of the gradient is 0 in
    expectation if `kernel` is 1. Each seat has its own trajectory.
    """

    diversity: float = 0.1
    """Weight of the divergence."""
    kernel: float = 0.5
    """How much an action i steps away counts: kernel^(i + 1)."""

    prefix: ClassVar[str] = "trajedi"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("diversity", self.diversity, 0.0)
        within("kernel", self.kernel, 0.0, 1.0)

    def reward(self, state: Any, learner: Learner, params: Any, traj: Trajectory) -> Trajectory:
        log_probs = log_probs_of_all(learner, params, traj) * traj.valid[..., None]
        ends = traj.terminated | traj.truncated
        everyone = jax.vmap(smoothed, in_axes=(0, None, None))(log_probs, ends, self.kernel)
        ratio = log_ratio_to_mean(own_log_prob(everyone, traj), everyone)
        return traj.replace(reward=traj.reward + self.diversity * paid_later(ratio, ends, LAG))


def smoothed(values: Array, ends: Array, kernel: float) -> Array:
    """Sums over an episode, with weight kernel^(|i - j| + 1) for timesteps i and j.

    `values` [T, B, seats]; `ends` [T, B]: the episode ends with this timestep.
    """
    goes_on = 1.0 - ends[..., None].astype(values.dtype)

    def step(total: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        value, linked = now
        total = value + kernel * linked * total
        return total, total

    nothing = jnp.zeros_like(values[0])
    started = jnp.concatenate([jnp.zeros_like(goes_on[:1]), goes_on[:-1]])
    past = jax.lax.scan(step, nothing, (values, started))[1]
    future = jax.lax.scan(step, nothing, (values, goes_on), reverse=True)[1]
    return kernel * (past + future - values)


def paid_later(values: Array, ends: Array, lag: int) -> Array:
    """Every value is paid `lag` timesteps later, or with the last timestep of its episode.

    `values` [T, B, seats]; `ends` [T, B]: the episode ends with this timestep. The end of the
    rollout counts as an end.
    """
    ends = ends.at[-1].set(True)
    episode = jnp.cumsum(ends, axis=0) - ends  # [T, B]: the number of the timestep's episode

    def earlier(by: int) -> Array:
        """The values so many timesteps before, 0 where those are of another episode."""
        same = jnp.pad(episode[: len(episode) - by], ((by, 0), (0, 0)), constant_values=-1)
        moved = jnp.pad(values[: len(values) - by], ((by, 0), (0, 0), (0, 0)))
        return jnp.where((same == episode)[..., None], moved, 0.0)

    rest = sum((earlier(by) for by in range(min(lag, len(values)))), jnp.zeros_like(values))
    late = earlier(lag) if lag < len(values) else jnp.zeros_like(values)
    return late + jnp.where(ends[..., None], rest, 0.0)


def log_ratio_to_mean(own: Array, everyone: Array) -> Array:
    """log of the own probability over the mean of all: own [...], everyone [policies, ...]."""
    mean = jax.nn.logsumexp(everyone, axis=0) - jnp.log(len(everyone))
    return own - mean

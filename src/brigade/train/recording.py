"""What a run keeps of its rollouts, so that learning histories can be made of them."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from brigade.core import Array, Trajectory
from brigade.core.histories import ACTIONS, DONES, OBS, REWARDS, TEAMMATE_ACTIONS

FIRST, VALID, AVAIL = "first", "valid", "avail"
ROLLOUT = "rollout"  # its place among the metrics of an update


@dataclass(frozen=True)
class Recording:
    """The steps of the learner's first seat, and what the others did."""

    streams: int
    """Environments that are recorded: the first of a rollout."""

    def of(self, traj: Trajectory) -> dict[str, Array]:
        """Leaves [T, streams, ...] of a rollout."""
        whole = {
            OBS: traj.view.obs[:, :, 0],
            ACTIONS: traj.action[:, :, 0],
            REWARDS: traj.reward[:, :, 0],
            DONES: traj.terminated | traj.truncated,
            FIRST: traj.view.first[:, :, 0],
            VALID: traj.valid,
            AVAIL: traj.view.avail[:, :, 0],
        }
        joint = traj.extras["joint_action"][:, :, 0]
        if joint.shape[-1] > 1:
            own = jnp.zeros(joint.shape[1], int) if traj.seat is None else traj.seat[:, 0]
            # The next seat's: with two seats, the teammate's.
            other = ((own + 1) % joint.shape[-1])[None, :, None]
            whole[TEAMMATE_ACTIONS] = jnp.take_along_axis(joint, other, axis=-1)[..., 0]
        return {name: x[:, : self.streams] for name, x in whole.items()}

"""An actor and a critic on one trunk or two, with one head for all tasks or one per task."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array, Outputs
from brigade.nets.encoders import ENCODERS, dense

POLICY_GAIN, VALUE_GAIN = 0.01, 1.0


class ActorCritic(nn.Module):
    """Parameters are named `actor_*` and `critic_*` (or `trunk`) and `*_head`.

    Methods that spare the critic or the heads go by these names.
    """

    num_actions: int
    num_tasks: int = 1
    encoder: Literal["mlp", "cnn"] = "mlp"
    hidden: tuple[int, ...] = (128, 128)
    activation: Literal["relu", "tanh"] = "relu"
    layer_norm: bool = True
    shared_trunk: bool = False
    multi_head: bool = True
    task_one_hot: Literal["none", "heads", "input"] = "heads"

    @nn.compact
    def __call__(self, obs: Array, task_id: Array) -> Outputs:
        """[..., *observation], [...] -> logits [..., num_actions], value [...]."""
        one_hot = jax.nn.one_hot(task_id, self.num_tasks)
        nothing = one_hot[..., :0]
        at_input = one_hot if self.task_one_hot == "input" else nothing
        at_heads = one_hot if self.task_one_hot == "heads" else nothing

        def trunk(name: str) -> Array:
            encoder = ENCODERS[self.encoder]
            features = encoder(self.hidden, self.activation, self.layer_norm, name=name)
            return jnp.concatenate([features(obs, at_input), at_heads], axis=-1)

        if self.shared_trunk:
            actor = critic = trunk("trunk")
        else:
            actor, critic = trunk("actor_trunk"), trunk("critic_trunk")
        logits = self._head(actor, task_id, self.num_actions, POLICY_GAIN, "actor_head")
        value = self._head(critic, task_id, 1, VALUE_GAIN, "critic_head")
        return Outputs(logits, value[..., 0])

    def _head(self, x: Array, task_id: Array, size: int, gain: float, name: str) -> Array:
        """One slice of a wide layer per task, or one layer for all."""
        if not self.multi_head:
            return dense(size, gain, name)(x)
        slices = dense(size * self.num_tasks, gain, name)(x)
        slices = slices.reshape(*slices.shape[:-1], self.num_tasks, size)
        return jnp.take_along_axis(slices, task_id[..., None, None], axis=-2)[..., 0, :]

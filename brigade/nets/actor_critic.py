"""An actor and a critic on one trunk or two, with one head for all tasks or one per task."""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array, Outputs
from brigade.nets.encoders import ENCODERS, times
from brigade.nets.inputs import ChangingInputs

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
    dtype: Any = jnp.float32  # of the arithmetic; parameters and outputs are float32

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array) -> Outputs:
        """[..., *observation] -> logits [..., num_actions], value [...].

        `task_id` is [...], or one number where all samples belong to the same task.
        """
        if isinstance(obs, ChangingInputs):
            batch = obs.values.shape[:-1]
        else:
            batch = task_id.shape or obs.shape[:1]
        at_input = self.num_tasks if self.task_one_hot == "input" else 0
        at_heads = self.num_tasks if self.task_one_hot == "heads" else 0

        def trunk(name: str) -> Array:
            encoder: Any = ENCODERS[self.encoder](
                self.hidden, self.activation, self.layer_norm, at_input, self.dtype, name=name
            )
            features: Array = encoder(obs, task_id, batch)
            return features

        def head(features: Array, size: int, gain: float, name: str) -> Array:
            heads = self.num_tasks if self.multi_head else 1
            layer = Head(size, gain, heads, at_heads, self.dtype, name=name)
            answer: Array = layer(features, task_id)
            return answer.astype(jnp.float32)

        if self.shared_trunk:
            actor = critic = trunk("trunk")
        else:
            actor, critic = trunk("actor_trunk"), trunk("critic_trunk")
        logits = head(actor, self.num_actions, POLICY_GAIN, "actor_head")
        value = head(critic, 1, VALUE_GAIN, "critic_head")
        return Outputs(logits, value[..., 0])


class Head(nn.Module):
    """One slice of a wide layer per task, or one for all."""

    size: int
    gain: float
    num_heads: int
    num_tasks: int = 0  # for a one-hot beside the features
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array, task_id: Array) -> Array:
        """[..., features], task ids [...] or one for all -> [..., size]."""
        features, wide = x.shape[-1], self.size * self.num_heads
        kernel_shape = (features + self.num_tasks, wide)
        kernel = self.param("kernel", nn.initializers.orthogonal(self.gain), kernel_shape)
        bias = self.param("bias", nn.initializers.zeros, (wide,))
        head = task_id if self.num_heads > 1 else jnp.zeros_like(task_id)
        if task_id.ndim == 0:  # one task: its slice alone is multiplied
            kernel = kernel.reshape(-1, self.num_heads, self.size)[:, head]
            bias = bias.reshape(self.num_heads, self.size)[head]
        if self.num_tasks:
            bias = bias + kernel[features + task_id]
        answer = times(x, kernel[:features], self.dtype) + bias.astype(self.dtype)
        if task_id.ndim == 0:
            return answer
        slices = answer.reshape(*answer.shape[:-1], self.num_heads, self.size)
        return jnp.take_along_axis(slices, head[..., None, None], axis=-2)[..., 0, :]

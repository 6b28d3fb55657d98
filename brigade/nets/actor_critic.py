"""An actor and a critic on one trunk or two, with one head for all tasks or one per task."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from brigade.core import Array, Outputs
from brigade.nets.encoders import ENCODERS, exact_times
from brigade.nets.inputs import ChangingInputs
from brigade.nets.memory import Memory, carry_size

POLICY_GAIN, VALUE_GAIN = 0.01, 1.0

# Of the recurrent cores: the actor's, and the critic's if it has one of its own; [..., carry_size].
Carries: TypeAlias = tuple[Array, ...]


class Joint(struct.PyTreeNode):
    """What a critic is shown that its actor is not."""

    obs: Any  # [..., seats * observation], or ChangingInputs of such; None: what the actor sees
    seat: Array  # [...] int32: whose value is asked for, or with whom it plays


class ActorCritic(nn.Module):
    """Parameters are named `actor_*` and `critic_*` (or `trunk` and `core`) and `*_head`.

    Methods that spare the critic or the heads go by these names.
    """

    num_actions: int
    num_tasks: int = 1
    encoder: Literal["mlp", "cnn"] = "mlp"
    hidden: tuple[int, ...] = (128, 128)
    activation: Literal["relu", "tanh"] = "relu"
    layer_norm: bool = True
    norm_last: bool = False
    shared_trunk: bool = False
    multi_head: bool = True
    task_one_hot: Literal["none", "heads", "input"] = "heads"
    memory: Literal["none", "gru", "lstm"] = "none"
    memory_size: int = 128
    central_seats: int = 0  # the critic sees the observations of so many seats; 0: its own only
    critic_ids: int = 0  # the critic is told which of so many it plays with; the actor is not
    critic: bool = True  # False for a policy that only acts
    continuous: bool = False
    dtype: Any = jnp.float32  # of the hidden layers; parameters and heads are float32

    def setup(self) -> None:
        at_input = self.num_tasks if self.task_one_hot == "input" else 0
        at_heads = self.num_tasks if self.task_one_hot == "heads" else 0
        heads = self.num_tasks if self.multi_head else 1

        def trunk(one_hot: int) -> Any:
            return ENCODERS[self.encoder](
                self.hidden, self.activation, self.layer_norm, self.norm_last, one_hot, self.dtype
            )

        def head(size: int, gain: float) -> Head:
            return Head(size, gain, heads, at_heads)

        def core() -> Memory:
            return Memory(self.memory, self.memory_size, self.dtype)

        # What a critic alone is told goes in with the number of the task, where the actor is told
        # that: one one-hot of both.
        told = (self.central_seats or self.critic_ids) * max(at_input, 1)
        if self.shared_trunk:
            self.trunk = trunk(at_input)
        else:
            self.actor_trunk = trunk(at_input)
            if self.critic:
                self.critic_trunk = trunk(told or at_input)
        if self.memory != "none" and self.shared_trunk:
            self.core = core()
        elif self.memory != "none":
            self.actor_core = core()
            if self.critic:
                self.critic_core = core()
        self.actor_head = head(self.num_actions, POLICY_GAIN)
        if self.critic:
            self.critic_head = head(1, VALUE_GAIN)
        if self.continuous:
            zeros = nn.initializers.zeros
            self.log_deviation = self.param("actor_log_deviation", zeros, (self.num_actions,))

    def __call__(
        self, obs: Array | ChangingInputs, task_id: Array, joint: Joint | None = None
    ) -> Outputs:
        """[..., *observation] -> logits [..., size], value [...].

        `task_id` is [...], or one number where all samples belong to the same task. Without what a
        central critic needs there is no value.
        """
        actor, critic = self._features(obs, task_id, joint)
        return self._outputs(actor, critic, task_id)

    def remember(
        self,
        obs: Array | ChangingInputs,
        task_id: Array,
        first: Array,
        carry: Carries,
        joint: Joint | None = None,
    ) -> tuple[Outputs, Carries]:
        """The same for sequences [T, ..., *observation]; memory restarts where `first` [T, ...]."""
        actor, critic = self._features(obs, task_id, joint)
        if self.shared_trunk:
            actor, after = self.core(actor, carry[0], first)
            return self._outputs(actor, actor if self.critic else None, task_id), (after,)
        actor, after = self.actor_core(actor, carry[0], first)
        if critic is None:
            return self._outputs(actor, None, task_id), (after, *carry[1:])
        critic, critic_after = self.critic_core(critic, carry[1], first)
        return self._outputs(actor, critic, task_id), (after, critic_after)

    def _features(
        self, obs: Array | ChangingInputs, task_id: Array, joint: Joint | None
    ) -> tuple[Array, Array | None]:
        if isinstance(obs, ChangingInputs):
            batch = obs.values.shape[:-1]
        else:
            batch = task_id.shape or obs.shape[:1]
        if self.shared_trunk:
            features = self.trunk(obs, task_id, batch)
            return features, features if self.critic else None
        actor = self.actor_trunk(obs, task_id, batch)
        told = self.central_seats or self.critic_ids
        if not self.critic or (told and joint is None):
            return actor, None
        if joint is None:
            return actor, self.critic_trunk(obs, task_id, batch)
        whose = joint.seat
        if self.task_one_hot == "input":
            whose = whose + told * task_id
        return actor, self.critic_trunk(obs if joint.obs is None else joint.obs, whose, batch)

    def _outputs(self, actor: Array, critic: Array | None, task_id: Array) -> Outputs:
        logits = self.actor_head(actor, task_id)
        if self.continuous:
            spread = jnp.broadcast_to(self.log_deviation, logits.shape)
            logits = jnp.concatenate([logits, spread], axis=-1)
        if critic is None:
            return Outputs(logits, None)
        return Outputs(logits, self.critic_head(critic, task_id)[..., 0])


class Head(nn.Module):
    """One slice of a wide layer per task, or one for all."""

    size: int
    gain: float
    num_heads: int
    num_tasks: int = 0  # for a one-hot beside the features

    @nn.compact
    def __call__(self, x: Array, task_id: Array) -> Array:
        """[..., features], task ids [...] or one for all -> [..., size], all in float32.

        In bfloat16, values near 64 would be 0.5 apart.
        """
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
        outputs: Array = exact_times(x, kernel[:features]) + bias
        if task_id.ndim == 0:
            return outputs
        slices = outputs.reshape(*outputs.shape[:-1], self.num_heads, self.size)
        return jnp.take_along_axis(slices, head[..., None, None], axis=-2)[..., 0, :]


def no_memory(network: ActorCritic, batch: tuple[int, ...]) -> Carries:
    """Empty memories."""
    cores = 2 if network.critic and not network.shared_trunk else 1
    size = carry_size(network.memory, network.memory_size)
    return (jnp.zeros((*batch, size)),) * cores


__all__ = ["ActorCritic", "Head", "Joint", "no_memory"]

"""An actor and a critic on one trunk or two, with one head for all tasks or one per task."""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from brigade.core import Array, Outputs
from brigade.nets.encoders import ENCODERS, times
from brigade.nets.inputs import ChangingInputs

POLICY_GAIN, VALUE_GAIN = 0.01, 1.0


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
    shared_trunk: bool = False
    multi_head: bool = True
    task_one_hot: Literal["none", "heads", "input"] = "heads"
    memory: Literal["none", "gru"] = "none"
    memory_size: int = 128
    central_seats: int = 0  # the critic sees the observations of so many seats; 0: its own only
    critic_ids: int = 0  # the critic is told which of so many it plays with; the actor is not
    critic: bool = True  # False for a policy that only acts
    continuous: bool = False
    dtype: Any = jnp.float32  # of the arithmetic; parameters and outputs are float32

    def setup(self) -> None:
        at_input = self.num_tasks if self.task_one_hot == "input" else 0
        at_heads = self.num_tasks if self.task_one_hot == "heads" else 0
        heads = self.num_tasks if self.multi_head else 1

        def trunk(one_hot: int) -> Any:
            return ENCODERS[self.encoder](
                self.hidden, self.activation, self.layer_norm, one_hot, self.dtype
            )

        def head(size: int, gain: float) -> Head:
            return Head(size, gain, heads, at_heads, self.dtype)

        # What a critic alone is told goes in with the number of the task, where the actor is told
        # that: one one-hot of both.
        told = (self.central_seats or self.critic_ids) * max(at_input, 1)
        if self.shared_trunk:
            self.trunk = trunk(at_input)
        else:
            self.actor_trunk = trunk(at_input)
            if self.critic:
                self.critic_trunk = trunk(told or at_input)
        if self.memory == "gru" and self.shared_trunk:
            self.core = Memory(self.memory_size)
        elif self.memory == "gru":
            self.actor_core = Memory(self.memory_size)
            if self.critic:
                self.critic_core = Memory(self.memory_size)
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
        return self._answer(actor, critic, task_id)

    def remember(
        self, obs: Array, task_id: Array, first: Array, carry: Any, joint: Joint | None = None
    ) -> tuple[Outputs, Any]:
        """The same for sequences [T, ..., *observation]; memory restarts where `first` [T, ...].

        `carry` is (actor's, critic's), each [..., memory_size].
        """
        actor, critic = self._features(obs, task_id, joint)
        if self.shared_trunk:
            actor, actor_carry = self.core(actor, carry[0], first)
            answer = self._answer(actor, actor if self.critic else None, task_id)
            return answer, (actor_carry, carry[1])
        actor, actor_carry = self.actor_core(actor, carry[0], first)
        critic_carry = carry[1]
        if critic is not None:
            critic, critic_carry = self.critic_core(critic, carry[1], first)
        return self._answer(actor, critic, task_id), (actor_carry, critic_carry)

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

    def _answer(self, actor: Array, critic: Array | None, task_id: Array) -> Outputs:
        logits = self.actor_head(actor, task_id).astype(jnp.float32)
        if self.continuous:
            spread = jnp.broadcast_to(self.log_deviation, logits.shape)
            logits = jnp.concatenate([logits, spread], axis=-1)
        if critic is None:
            return Outputs(logits, None)
        return Outputs(logits, self.critic_head(critic, task_id)[..., 0].astype(jnp.float32))


class Memory(nn.Module):
    """A gated recurrent unit over time."""

    size: int

    @nn.compact
    def __call__(self, x: Array, carry: Array, first: Array) -> tuple[Array, Array]:
        """[T, ..., features], [..., size], [T, ...] -> [T, ..., size] and the last carry."""

        def step(cell: Any, carry: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            x, first = now
            after: tuple[Array, Array] = cell(jnp.where(first[..., None], 0.0, carry), x)
            return after

        over_time = nn.scan(step, variable_broadcast="params", split_rngs={"params": False})
        carry, outputs = over_time(nn.GRUCell(self.size), carry, (x.astype(jnp.float32), first))
        return outputs, carry


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


def no_memory(batch: tuple[int, ...], size: int, critic: bool = True) -> tuple[Array, Array]:
    """Empty memories of an actor and, if there is one, a critic."""
    return jnp.zeros((*batch, size)), jnp.zeros((*batch, size if critic else 0))


__all__ = ["ActorCritic", "Head", "Joint", "Memory", "no_memory"]

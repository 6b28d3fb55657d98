"""Actor-critic networks with a shared trunk or two, and one head for all tasks or one per task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from brigade.core import Array, HiddenLayer, Outputs, ParameterGroups
from brigade.nets.encoders import encoder_class
from brigade.nets.inputs import ChangingInputs
from brigade.nets.layers import exact_times
from brigade.nets.memory import Memory, carry_size

POLICY_GAIN, VALUE_GAIN = 0.01, 1.0
EXPLORATION = "actor_log_deviation"

# Recurrent states [..., carry_size]: the actor's, and the critic's if it has its own core.
Carries: TypeAlias = tuple[Array, ...]


class Joint(struct.PyTreeNode):
    """Extra input of the critic that the actor does not get."""

    obs: Any  # [..., seats * observation] or ChangingInputs; None: the actor's observation
    seat: Array  # [...] int32: the seat whose value is estimated, or the partner's id


class ActorCritic(nn.Module):
    """Parameters are named `actor_*` and `critic_*` (or `trunk` and `core`) and `*_head`.

    Code outside `brigade.nets` asks `groups` for their roles instead of relying on the names.
    """

    num_actions: int
    num_tasks: int = 1
    encoder: str = "mlp"  # see `encoder_class`
    hidden: tuple[int, ...] = (128, 128)
    activation: Literal["relu", "tanh"] = "relu"
    layer_norm: bool = True
    norm_last: bool = False
    shared_trunk: bool = False
    multi_head: bool = True
    task_one_hot: Literal["none", "heads", "input"] = "heads"
    memory: Literal["none", "gru", "lstm"] = "none"
    memory_size: int = 128
    central_seats: int = 0  # number of seats whose observations the critic gets; 0: its own only
    critic_ids: int = 0  # number of partner ids the critic distinguishes; the actor gets none
    critic: bool = True  # False for a policy that only acts
    continuous: bool = False
    dtype: Any = jnp.float32  # of the hidden layers; parameters and heads are always float32

    def setup(self) -> None:
        at_input = self.num_tasks if self.task_one_hot == "input" else 0
        at_heads = self.num_tasks if self.task_one_hot == "heads" else 0
        heads = self.num_tasks if self.multi_head else 1

        def trunk(one_hot: int) -> Any:
            return encoder_class(self.encoder)(
                self.hidden, self.activation, self.layer_norm, self.norm_last, one_hot, self.dtype
            )

        def head(size: int, gain: float) -> Head:
            return Head(size, gain, heads, at_heads)

        def core() -> Memory:
            return Memory(self.memory, self.memory_size, self.dtype)

        # The critic's seat or partner id is a one-hot input; if the task id is one too, both are
        # combined into a single one-hot.
        critic_one_hot = (self.central_seats or self.critic_ids) * max(at_input, 1)
        if self.shared_trunk:
            self.trunk = trunk(at_input)
        else:
            self.actor_trunk = trunk(at_input)
            if self.critic:
                self.critic_trunk = trunk(critic_one_hot or at_input)
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
            self.log_std = self.param(EXPLORATION, zeros, (self.num_actions,))

    def groups(self, params: Any) -> ParameterGroups:
        """The roles of the parameters."""
        return ParameterGroups(
            critic=tuple(name for name in params if name.startswith("critic_")),
            heads=tuple(name for name in params if name.endswith("_head")),
            exploration=tuple(name for name in params if name == EXPLORATION),
            layers=() if self.norm_last else tuple(hidden_layers(params)),
            why_no_layers="dead units cannot be seen behind a layer norm; leave out "
            "--network.norm-last"
            if self.norm_last
            else "",
            shared_heads=self.num_tasks > 1 and not self.multi_head,
        )

    def __call__(
        self, obs: Array | ChangingInputs, task_id: Array, joint: Joint | None = None
    ) -> Outputs:
        """[..., *observation] -> logits [..., size], value [...].

        `task_id` is [...], or a scalar if all samples are of one task. The value is None if the
        critic needs a `joint` input and there is none.
        """
        actor, critic = self._features(obs, task_id, joint)
        return self._outputs(actor, critic, task_id)

    def over_sequence(
        self,
        obs: Array | ChangingInputs,
        task_id: Array,
        first: Array,
        carry: Carries,
        joint: Joint | None = None,
    ) -> tuple[Outputs, Carries]:
        """The same for sequences [T, ..., *observation]; `first` [T, ...] resets the carry."""
        actor, critic = self._features(obs, task_id, joint)
        if self.shared_trunk:
            actor, after = self.core(actor, carry[0], first)
            return self._outputs(actor, actor if self.critic else None, task_id), (after,)
        actor, after = self.actor_core(actor, carry[0], first)
        if critic is None:
            return self._outputs(actor, None, task_id), (after, *carry[1:])
        critic, critic_after = self.critic_core(critic, carry[1], first)
        return self._outputs(actor, critic, task_id), (after, critic_after)

    def initial_carry(self, batch: tuple[int, ...]) -> Carries:
        """Initial recurrent states: zeros."""
        cores = 2 if self.critic and not self.shared_trunk else 1
        return (jnp.zeros((*batch, carry_size(self.memory, self.memory_size))),) * cores

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
        num_ids = self.central_seats or self.critic_ids
        if not self.critic or (num_ids and joint is None):
            return actor, None
        if joint is None:
            return actor, self.critic_trunk(obs, task_id, batch)
        one_hot = joint.seat
        if self.task_one_hot == "input":
            one_hot = one_hot + num_ids * task_id
        return actor, self.critic_trunk(obs if joint.obs is None else joint.obs, one_hot, batch)

    def _outputs(self, actor: Array, critic: Array | None, task_id: Array) -> Outputs:
        logits = self.actor_head(actor, task_id)
        if self.continuous:
            log_std = jnp.broadcast_to(self.log_std, logits.shape)
            logits = jnp.concatenate([logits, log_std], axis=-1)
        if critic is None:
            return Outputs(logits, None)
        return Outputs(logits, self.critic_head(critic, task_id)[..., 0])


class Head(nn.Module):
    """A linear output layer. With several heads, each is a slice of one wide layer."""

    size: int
    gain: float
    num_heads: int
    num_tasks: int = 0  # size of the task one-hot appended to the features; 0: none

    @nn.compact
    def __call__(self, x: Array, task_id: Array) -> Array:
        """[..., features], task ids [...] or a scalar -> [..., size].

        In float32, because bfloat16 values near 64 are 0.5 apart.
        """
        features, wide = x.shape[-1], self.size * self.num_heads
        kernel_shape = (features + self.num_tasks, wide)
        kernel = self.param("kernel", nn.initializers.orthogonal(self.gain), kernel_shape)
        bias = self.param("bias", nn.initializers.zeros, (wide,))
        head = task_id if self.num_heads > 1 else jnp.zeros_like(task_id)
        if task_id.ndim == 0:  # one task: multiply by its slice only
            kernel = kernel.reshape(-1, self.num_heads, self.size)[:, head]
            bias = bias.reshape(self.num_heads, self.size)[head]
        if self.num_tasks:
            bias = bias + kernel[features + task_id]
        outputs: Array = exact_times(x, kernel[:features]) + bias
        if task_id.ndim == 0:
            return outputs
        slices = outputs.reshape(*outputs.shape[:-1], self.num_heads, self.size)
        return jnp.take_along_axis(slices, head[..., None, None], axis=-2)[..., 0, :]


def hidden_layers(params: Mapping[str, Any]) -> Iterator[HiddenLayer]:
    """The fully connected layers of all trunks that feed another such layer or a head."""
    for trunk, part in params.items():
        if not isinstance(part, Mapping):
            continue
        names = [name for name in part if name.startswith("Hidden_")]
        layers = [(trunk, name) for name in sorted(names, key=lambda name: int(name[7:]))]
        kernels = [((*layer, "Linear_0", "kernel"),) for layer in layers[1:]]
        heads = tuple((head, "kernel") for head in heads_of(trunk, params))
        for layer, feeds in zip(layers, [*kernels, heads], strict=False):
            if feeds:
                fresh = {("Linear_0", "bias"): 0.0}
                if "LayerNorm_0" in part[layer[1]]:
                    fresh |= {("LayerNorm_0", "scale"): 1.0, ("LayerNorm_0", "bias"): 0.0}
                yield HiddenLayer(
                    kernel=(*layer, "Linear_0", "kernel"),
                    feeds=feeds,
                    fresh=tuple(((*layer, *path), value) for path, value in fresh.items()),
                )


def heads_of(trunk: str, params: Mapping[str, Any]) -> list[str]:
    """The heads that a trunk feeds: the one with its prefix, or all heads for a shared trunk."""
    stem = trunk.removesuffix("trunk")
    if f"{stem}core" in params:
        return []  # the last layer feeds a recurrent core
    own = f"{stem}head"
    return [own] if own in params else [name for name in params if name.endswith("_head")]

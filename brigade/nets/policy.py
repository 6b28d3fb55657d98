"""Policies made of an actor-critic network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from brigade.core import Array, Key, Outputs, View
from brigade.nets.actor_critic import ActorCritic, Joint, no_memory
from brigade.nets.distributions import Categorical, Distribution, Gaussian
from brigade.nets.inputs import ChangingInputs


@dataclass(frozen=True)
class ActorCriticPolicy:
    """Sample from the network's answer, or take the best.

    It records nothing: without a memory, what a learner needs can be worked out afterwards.
    """

    network: ActorCritic
    obs_shape: tuple[int, ...]

    @property
    def distribution(self) -> type[Distribution]:
        """What the network's answer means."""
        return Gaussian if self.network.continuous else Categorical

    def init(self, key: Key) -> Any:
        """Fresh parameters."""
        one = jnp.zeros(1, jnp.int32)
        obs = jnp.zeros((1, *self.obs_shape), jnp.uint8)
        return self.network.init(key, obs, one, self._blank_joint(one))["params"]

    def _blank_joint(self, seat: Array) -> Joint | None:
        if not self.network.central_seats:
            return None
        shape = (*seat.shape, self.network.central_seats, *self.obs_shape)
        return Joint(jnp.zeros(shape, jnp.uint8), seat)

    def initial_carry(self, batch: tuple[int, ...]) -> Any:
        """No memory."""
        return ()

    def outputs(
        self,
        params: Any,
        obs: Array | ChangingInputs,
        task_id: Array,
        avail: Array,
        joint: Joint | None = None,
    ) -> Outputs:
        """The answer without what is forbidden, and the value. One `task_id` may serve all."""
        out: Any = self.network.apply({"params": params}, obs, task_id, joint)
        return Outputs(self.distribution.mask(out.logits, avail), out.value)

    def act(
        self, params: Any, carry: Any, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Any, dict[str, Array]]:
        """One action per seat."""
        out = self.outputs(params, view.obs, view.task_id, view.avail)
        return self.choose(out.logits, key, greedy), carry, {}

    def choose(self, answer: Array, key: Key, greedy: bool) -> Array:
        """An action for every answer."""
        if greedy:
            return self.distribution.best(answer)
        return self.distribution.sample(key, answer)


@dataclass(frozen=True)
class RecurrentPolicy(ActorCriticPolicy):
    """A policy that remembers. It records what it thought, since its memory is not kept."""

    num_agents: int

    def init(self, key: Key) -> Any:
        """Fresh parameters."""
        one = jnp.zeros((1, 1), jnp.int32)
        obs = jnp.zeros((1, 1, *self.obs_shape), jnp.uint8)
        carry = no_memory((1,), self.network.memory_size)
        joint = self._blank_joint(one)
        variables = self.network.init(
            key, obs, one, one == 0, carry, joint, method=ActorCritic.remember
        )
        return variables["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> Any:
        """An empty memory for every seat."""
        return no_memory((*batch, self.num_agents), self.network.memory_size)

    def recall(
        self,
        params: Any,
        obs: Array,
        task_id: Array,
        avail: Array,
        first: Array,
        carry: Any,
        joint: Joint | None = None,
    ) -> tuple[Outputs, Any]:
        """Answers and values of sequences [T, ...], and the memory after them."""
        out: Any
        out, carry = self.network.apply(
            {"params": params},
            obs,
            task_id,
            first,
            carry,
            joint,
            method=ActorCritic.remember,
        )
        return Outputs(self.distribution.mask(out.logits, avail), out.value), carry

    def act(
        self, params: Any, carry: Any, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Any, dict[str, Array]]:
        """One action per seat, with what a learner needs to know of it."""
        joint = joint_view(view.obs[None], self.network.central_seats, len(self.obs_shape))
        out, carry = self.recall(
            params,
            view.obs[None],
            view.task_id[None],
            view.avail[None],
            view.first[None],
            carry,
            joint,
        )
        answer = out.logits[0]
        action = self.choose(answer, key, greedy)
        assert out.value is not None
        extras = {"log_prob": self.distribution.log_prob(answer, action), "value": out.value[0]}
        return action, carry, extras


def joint_view(obs: Array, seats: int, obs_dims: int) -> Joint | None:
    """What a central critic sees of observations [..., seats, *observation]; None without one."""
    if not seats:
        return None
    batch = obs.shape[: obs.ndim - obs_dims]
    flat = obs.reshape(*batch[:-1], 1, -1)
    everything = jnp.broadcast_to(flat, (*batch, flat.shape[-1]))
    return Joint(everything, jnp.broadcast_to(jnp.arange(seats), batch))

"""Policies built from an actor-critic network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Array, Everyone, Key, Outputs, Policy, View
from brigade.core.distributions import Categorical, Distribution, Gaussian
from brigade.nets.actor_critic import ActorCritic, Joint
from brigade.nets.encoders import encoder_class
from brigade.nets.inputs import ChangingInputs
from brigade.nets.plain import network_from, plain_settings


@dataclass(frozen=True)
class ActorCriticPolicy(Policy):
    """A feed-forward policy. It samples from the network's distribution or acts greedily.

    It records nothing: learners compute values and log-probabilities for the whole rollout at once.
    """

    network: ActorCritic
    obs_shape: tuple[int, ...]
    task: int | None = None  # acts as on this task, ignoring the view's task id

    kind: ClassVar[str] = "actor_critic"  # its registered name in policy files

    @property
    def sees_everyone(self) -> bool:
        """Whether its critic gets the observations of all seats."""
        return bool(self.network.central_seats)

    @property
    def slow_when_batched(self) -> bool:
        """True with convolutions: batched over weights, they become slow grouped ones."""
        return not encoder_class(self.network.encoder).flattens

    def task_id(self, view: View) -> Array:
        """The task id to act with."""
        return view.task_id if self.task is None else jnp.full_like(view.task_id, self.task)

    @property
    def distribution(self) -> type[Distribution]:
        """The action distribution."""
        return Gaussian if self.network.continuous else Categorical

    def init(self, key: Key) -> Any:
        """Initial parameters."""
        one = jnp.zeros(1, jnp.int32)
        obs = jnp.zeros((1, *self.obs_shape), jnp.uint8)
        return self.network.init(key, obs, one, self._blank_joint(one))["params"]

    def _blank_joint(self, seat: Array) -> Joint | None:
        if self.network.critic_ids:
            return Joint(None, seat)
        if not self.network.central_seats:
            return None
        shape = (*seat.shape, self.network.central_seats, *self.obs_shape)
        return Joint(jnp.zeros(shape, jnp.uint8), seat)

    def outputs(
        self,
        params: Any,
        obs: Array | ChangingInputs,
        task_id: Array,
        avail: Array,
        joint: Joint | None = None,
    ) -> Outputs:
        """Logits with unavailable actions masked, and values. `task_id` is [...] or a scalar."""
        out: Any = self.network.apply({"params": params}, obs, task_id, joint)
        return Outputs(self.distribution.mask(out.logits, avail), out.value)

    def act(
        self, params: Any, carry: Any, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Any, dict[str, Array]]:
        """One action per seat."""
        return self.choose(self.logits(params, view), key, greedy), carry, {}

    def logits(self, params: Any, view: View) -> Array:
        """[..., actions], with unavailable actions masked."""
        return self.outputs(params, view.obs, self.task_id(view), view.avail).logits

    def choose(self, outputs: Array, key: Key, greedy: bool) -> Array:
        """Greedy or sampled actions."""
        if greedy:
            return self.distribution.mode(outputs)
        return self.distribution.sample(key, outputs)

    def settings(self) -> dict[str, Any]:
        """Plain values from which `make_policy` rebuilds the policy."""
        return {
            "network": plain_settings(self.network),
            "obs_shape": list(self.obs_shape),
            "task": self.task,
        }

    def actor(self, params: Any, task: int | None) -> tuple[ActorCriticPolicy, Any]:
        """The policy and its parameters without the critic, acting as on `task`."""
        network = self.network.clone(critic=False, central_seats=0, critic_ids=0)
        acting = {name: part for name, part in params.items() if not name.startswith("critic_")}
        return type(self)(network, self.obs_shape, task), acting


@dataclass(frozen=True)
class RecurrentPolicy(ActorCriticPolicy):
    """A recurrent policy. It records log-probabilities and values."""

    def init(self, key: Key) -> Any:
        """Initial parameters."""
        one = jnp.zeros((1, 1), jnp.int32)
        obs = jnp.zeros((1, 1, *self.obs_shape), jnp.uint8)
        carry = self.initial_carry((1,))
        joint = self._blank_joint(one)
        variables = self.network.init(
            key, obs, one, one == 0, carry, joint, method=ActorCritic.over_sequence
        )
        return variables["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> Any:
        """Zeros [*batch, ...]."""
        return self.network.initial_carry(batch)

    def carry_to_train(self, carry: Any) -> Any:
        """All of it."""
        return carry

    def sequence_outputs(
        self,
        params: Any,
        obs: Array | ChangingInputs,
        task_id: Array,
        avail: Array,
        first: Array,
        carry: Any,
        joint: Joint | None = None,
    ) -> tuple[Outputs, Any]:
        """Logits and values of sequences [T, ...], and the last recurrent states."""
        out: Any
        out, carry = self.network.apply(
            {"params": params},
            obs,
            task_id,
            first,
            carry,
            joint,
            method=ActorCritic.over_sequence,
        )
        return Outputs(self.distribution.mask(out.logits, avail), out.value), carry

    def act(
        self, params: Any, carry: Any, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Any, dict[str, Array]]:
        """One action per seat, with its log-probability and its value."""
        now = jax.tree.map(lambda x: x[None], view)
        joint = joint_view(now, self.network.central_seats, len(self.obs_shape))
        out, carry = self.sequence_outputs(
            params, now.obs, self.task_id(now), now.avail, now.resets, carry, joint
        )
        logits = out.logits[0]
        action = self.choose(logits, key, greedy)
        extras = {"log_prob": self.distribution.log_prob(logits, action)}
        if out.value is not None:  # None for partners: they lack their central critic's input
            extras["value"] = out.value[0]
        return action, carry, extras


def joint_view(view: View, seats: int, obs_dims: int) -> Joint | None:
    """The extra input of a critic, leaves [..., own seats, ...]; None if it has none.

    A central critic's `seats` are all in the view, or `view.state` has the observations of all.
    """
    if isinstance(view.state, Everyone) and view.state.obs is None:
        return Joint(None, view.state.seat)
    if not seats:
        return None
    obs, seat = view.obs, jnp.broadcast_to(jnp.arange(view.active.shape[-1]), view.active.shape)
    if isinstance(view.state, Everyone):
        obs, seat = view.state.obs, view.state.seat
    front = obs.shape[: obs.ndim - obs_dims]
    if front[-1] != seats:
        return None
    flat = obs.reshape(*front[:-1], 1, -1)
    return Joint(jnp.broadcast_to(flat, (*seat.shape, flat.shape[-1])), seat)


def make_policy(settings: Mapping[str, Any]) -> ActorCriticPolicy:
    """An actor-critic network as its `settings` describe it."""
    network, task = network_from(ActorCritic, settings["network"]), settings["task"]
    if task is not None and (type(task) is not int or not 0 <= task < network.num_tasks):
        raise ValueError(f"task is {task!r}; it must be from 0 to {network.num_tasks - 1}")
    shape = tuple(int(n) for n in settings["obs_shape"])
    recurrent = network.memory != "none"
    return (RecurrentPolicy if recurrent else ActorCriticPolicy)(network, shape, task)

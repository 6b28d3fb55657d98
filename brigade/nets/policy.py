"""Policies made of an actor-critic network."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Everyone, Key, Outputs, View
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
    task: int | None = None  # acts as it does on this task, whatever the view says

    @property
    def sees_everyone(self) -> bool:
        """Whether its critic is shown the observations of all seats."""
        return bool(self.network.central_seats)

    def task_id(self, view: View) -> Array:
        """Which task to act for."""
        return view.task_id if self.task is None else jnp.full_like(view.task_id, self.task)

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
        if self.network.critic_ids:
            return Joint(None, seat)
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
        out = self.outputs(params, view.obs, self.task_id(view), view.avail)
        return self.choose(out.logits, key, greedy), carry, {}

    def choose(self, answer: Array, key: Key, greedy: bool) -> Array:
        """An action for every answer."""
        if greedy:
            return self.distribution.best(answer)
        return self.distribution.sample(key, answer)


@dataclass(frozen=True)
class RecurrentPolicy(ActorCriticPolicy):
    """A policy that remembers. It records what it thought, since its memory is not kept."""

    def init(self, key: Key) -> Any:
        """Fresh parameters."""
        one = jnp.zeros((1, 1), jnp.int32)
        obs = jnp.zeros((1, 1, *self.obs_shape), jnp.uint8)
        carry = self.initial_carry((1,))
        joint = self._blank_joint(one)
        variables = self.network.init(
            key, obs, one, one == 0, carry, joint, method=ActorCritic.remember
        )
        return variables["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> Any:
        """An empty memory for every seat."""
        return no_memory(self.network, batch)

    def recall(
        self,
        params: Any,
        obs: Array | ChangingInputs,
        task_id: Array,
        avail: Array,
        first: Array,
        carry: Any,
        joint: Joint | None = None,
    ) -> tuple[Outputs, Any]:
        """Logits and values of sequences [T, ...], and the memory after them."""
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
        now, before = jax.tree.map(lambda x: x[None], view), carry
        joint = joint_view(now, self.network.central_seats, len(self.obs_shape))
        out, carry = self.recall(
            params, now.obs, self.task_id(now), now.avail, now.first, carry, joint
        )
        answer = out.logits[0]
        action = self.choose(answer, key, greedy)
        extras = {"log_prob": self.distribution.log_prob(answer, action), "carry": before}
        if out.value is not None:  # a partner is not shown what its central critic would need
            extras["value"] = out.value[0]
        return action, carry, extras


def joint_view(view: View, seats: int, obs_dims: int) -> Joint | None:
    """What a central critic of so many seats sees, leaves [..., own seats, ...]; None without.

    The seats are all in the view, or `view.state` has what everyone sees.
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
    """The policy that `settings_of` describes; in bfloat16 only where that is fast."""
    network, task = dict(settings["network"]), settings["task"]
    dtype = network.pop("dtype")
    for field in dataclasses.fields(ActorCritic):
        kind = list if field.name == "hidden" else type(field.default)
        known = field.name in network and field.default is not dataclasses.MISSING
        if known and type(network[field.name]) is not kind:
            raise ValueError(
                f"{field.name} is {network[field.name]!r}; it must be a {kind.__name__}"
            )
    if task is not None and (type(task) is not int or not 0 <= task < network["num_tasks"]):
        raise ValueError(f"task is {task!r}; it must be one of {network['num_tasks']}")
    if dtype not in ("float32", "bfloat16"):
        raise ValueError(f"dtype is {dtype!r}; use float32 or bfloat16")
    low = dtype == "bfloat16" and jax.default_backend() != "cpu"
    network["hidden"] = tuple(network["hidden"])
    shape = tuple(int(n) for n in settings["obs_shape"])
    made = ActorCritic(**network, dtype=jnp.bfloat16 if low else jnp.float32)
    recurrent = made.memory != "none"
    return (RecurrentPolicy if recurrent else ActorCriticPolicy)(made, shape, task)


def settings_of(policy: ActorCriticPolicy) -> dict[str, Any]:
    """Plain values that make the policy again; for one that only acts."""
    network = {
        field.name: getattr(policy.network, field.name)
        for field in dataclasses.fields(policy.network)
        if field.name not in ("parent", "name")
    }
    network |= {"dtype": jnp.dtype(policy.network.dtype).name, "hidden": list(network["hidden"])}
    return {"network": network, "obs_shape": list(policy.obs_shape), "task": policy.task}


def actor_of(
    policy: ActorCriticPolicy, params: Any, task: int | None
) -> tuple[ActorCriticPolicy, Any]:
    """The policy without its critic, acting as on one task."""
    network = policy.network.clone(critic=False, central_seats=0, critic_ids=0)
    acting = {name: part for name, part in params.items() if not name.startswith("critic_")}
    return type(policy)(network, policy.obs_shape, task), acting

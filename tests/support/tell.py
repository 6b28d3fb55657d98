"""A game in which everything that was done can be read off, and policies that say who they are."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Environment, Policy, TimeStep, View


class Nowhere(struct.PyTreeNode):
    id: jax.Array


@dataclass(frozen=True)
class Tell(Environment):
    """Seats see their number and the time; the score is what seat `paid` did last."""

    num_agents: int = 2
    horizon: int = 4
    num_actions: ClassVar[int] = 9
    obs_shape: ClassVar[tuple[int, ...]] = (2,)

    def reset(self, key, task):
        return jnp.int32(0), self._now(jnp.int32(0), jnp.full(self.num_agents, -1), task)

    def step(self, key, state, action, task):
        return state + 1, self._now(state + 1, action, task)

    def _now(self, time, action, task):
        seats = jnp.arange(self.num_agents)
        action = action.astype(jnp.int32)
        view = View(
            obs=jnp.stack([seats, jnp.full_like(seats, time)], -1).astype(jnp.uint8),
            avail=jnp.ones((self.num_agents, 9), bool),
            prev_action=action,
            prev_reward=action.astype(jnp.float32),
            first=jnp.broadcast_to(time == 0, seats.shape),
            active=jnp.ones(self.num_agents, bool),
            task_id=jnp.broadcast_to(task.id, seats.shape),
        )
        reward = action.astype(jnp.float32)
        info = {"score": action.sum().astype(jnp.float32)}
        return TimeStep(view, reward, jnp.bool_(False), time >= self.horizon, info)


@dataclass(frozen=True)
class Says(Policy):
    """Always the action that is its parameter."""

    def init(self, key):
        return jnp.int32(0)

    def act(self, params, carry, view, key, greedy=False):
        return jnp.broadcast_to(params, view.active.shape), carry, {}


@dataclass(frozen=True)
class Counts(Policy):
    """Has a memory: the steps since it restarted, plus its parameter."""

    def init(self, key):
        return jnp.int32(0)

    def initial_carry(self, batch):
        return jnp.zeros(batch, jnp.int32)

    def act(self, params, carry, view, key, greedy=False):
        carry = jnp.where(view.resets, 0, carry)
        return carry + params, carry + 1, {}


TASK = Nowhere(jnp.int32(0))

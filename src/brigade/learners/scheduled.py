"""What learners have in common: an optimiser, and schedules that restart with every task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from brigade.core import Array, Key, Learner, LearnerState


@dataclass(frozen=True)
class ScheduledLearner(Learner):
    """Learns at a rate that changes over a task, from shaped rewards that fade over it."""

    policy: Any
    # With learning_rate, final_learning_rate, shaping_steps and reset_optimizer.
    config: Any
    updates_per_task: int  # rollouts per task, for the schedules

    def optimizer(self) -> optax.GradientTransformation:
        """The rule that turns gradients into steps, before the learning rate."""
        raise NotImplementedError

    def init(self, key: Key) -> LearnerState:
        """Initial parameters and optimiser state."""
        params = self.policy.init(key)
        return LearnerState(params, self.optimizer().init(params), jnp.int32(0))

    def begin_task(self, state: LearnerState) -> LearnerState:
        """Restart the schedules, and reset the optimiser if `reset_optimizer` is set."""
        if self.config.reset_optimizer:
            state = state.replace(opt_state=self.optimizer().init(state.params))
        return state.replace(updates=jnp.int32(0))

    def apply_gradients(self, state: LearnerState, grads: Any) -> LearnerState:
        """One step of the optimiser at the current learning rate."""
        steps, opt_state = self.optimizer().update(grads, state.opt_state, state.params)
        rate = self.learning_rate(state.updates)
        params = jax.tree.map(lambda p, s: p - rate * s, state.params, steps)
        return state.replace(params=params, opt_state=opt_state)

    def learning_rate(self, updates: Array) -> Array | float:
        """It changes linearly."""
        first, last = self.config.learning_rate, self.config.final_learning_rate
        rate: Array = first + self.share_done(updates) * (last - first)
        return rate

    def share_done(self, updates: Array) -> Array:
        """How much of the task is done."""
        # `prepare` has already counted the current rollout; for the first one this is 0.
        return jnp.clip((updates - 1) / self.updates_per_task, 0.0, 1.0)

    def shaping_weight(self, updates: Array, steps_per_update: int) -> Array:
        """The weight of shaped rewards, from 1 to 0 over `shaping_steps`."""
        if self.config.shaping_steps is None:
            return jnp.float32(1.0)
        share = steps_per_update / self.config.shaping_steps
        return jnp.clip(1.0 - updates * share, 0.0, 1.0)


def warmed_up_cosine(share: Array, peak: float, last: float, warm_up: float) -> Array:
    """A rate that rises linearly over the share `warm_up` of a task, and then falls to `last` along
    half a period of a cosine."""
    rising = peak * share / max(warm_up, 1e-9)
    after = jnp.clip((share - warm_up) / max(1.0 - warm_up, 1e-9), 0.0, 1.0)
    falling = last + (peak - last) * 0.5 * (1.0 + jnp.cos(jnp.pi * after))
    return jnp.where(share < warm_up, rising, falling)

"""Updates: the only place where gradients are taken, edited by the method and applied."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import (
    Array,
    ContinualMethod,
    Key,
    Learner,
    LearnerState,
    LossOf,
    Metrics,
    Trajectory,
)
from brigade.core.compile import unroll
from brigade.core.trees import pick
from brigade.errors import UserError

UNROLLED_BATCHES = 2


def update(
    learner: Learner,
    method: ContinualMethod,
    key: Key,
    state: LearnerState,
    mem: Any,
    traj: Trajectory,
) -> tuple[LearnerState, Any, Metrics]:
    """Learn from one rollout: one gradient step per minibatch that the learner prepared."""
    prepare_key, loop_key, observe_key = jax.random.split(key, 3)
    state, data, indices = learner.prepare(state, traj, prepare_key)

    def one_step(
        loop: tuple[LearnerState, Any], step: tuple[Any, Key]
    ) -> tuple[tuple[LearnerState, Any], Metrics]:
        state, mem = loop
        index, key = step
        state, mem, metrics = gradient_step(
            learner, method, state, mem, learner.take(data, index), key
        )
        return (learner.after_update(state, index, metrics), mem), metrics

    num_batches = jax.tree.leaves(indices)[0].shape[0]
    keys = jax.random.split(loop_key, num_batches)
    (state, mem), metrics = jax.lax.scan(
        one_step, (state, mem), (indices, keys), unroll=unroll(UNROLLED_BATCHES)
    )
    one_batch = learner.take(data, pick(indices, 0))
    mem = method.observe(mem, learner.standalone(one_batch), observe_key)
    diagnostics = learner.diagnose(state.params, one_batch)
    return state, mem, jax.tree.map(jnp.mean, metrics) | diagnostics


def gradient_step(
    learner: Learner,
    method: ContinualMethod,
    state: LearnerState,
    mem: Any,
    batch: Any,
    key: Key,
) -> tuple[LearnerState, Any, Metrics]:
    """One gradient step; the method may edit the loss, the gradient and the new parameters."""
    base_key, loss_key, grad_key = jax.random.split(key, 3)

    base = LossOf(learner, state, batch, base_key)

    def objective(params: Any) -> tuple[Array, Metrics]:
        loss, metrics = method.loss(mem, base, params, learner, loss_key)
        if jnp.shape(loss):
            name = type(method).__name__
            raise UserError(f"{name}.loss must return a scalar, not shape {jnp.shape(loss)}")
        return loss, metrics

    def rehearse(params: Any, replayed: Any, probability: Array | None = None) -> Any:
        return learner.rehearse(params, state, replayed, probability)

    grads, metrics = jax.grad(objective, has_aux=True)(state.params)
    grads = method.edit_grads(mem, grads, state.params, rehearse, grad_key)
    stepped = learner.apply_gradients(state, grads)
    mem, params = method.after_update(mem, state.params, stepped.params, grads)
    return stepped.replace(params=params), mem, metrics

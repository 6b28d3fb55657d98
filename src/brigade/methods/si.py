"""Synaptic intelligence: a parameter's importance is how much its path lowered the loss.

Reference: F. Zenke, B. Poole and S. Ganguli, *Continual learning through synaptic intelligence*,
ICML 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Learner, LearnerState
from brigade.core.checks import positive
from brigade.methods.importance import Penalty, QuadraticPenalty, part_of


class PathIntegral(Penalty):
    """The penalty, and the path integral of the current task."""

    start: Any  # the parameters at the start of the task
    gain: Any  # how much each parameter has lowered the loss since


@dataclass(frozen=True)
class SI(QuadraticPenalty):
    """Synaptic intelligence: like L2, by a parameter's share in learning."""

    display_name = "SI"
    coefficient: float = 1.0
    """Weight of the penalty, coefficient / 2 * importance * squared distance to the anchor."""
    per_parameter: bool = False
    """Divide the coefficient by the number of regularised parameters."""
    damping: float = 0.1
    """Added to the squared distance in the denominator of importance, to avoid division by 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("damping", self.damping)

    def init(self, params: Any, batch: Any) -> PathIntegral:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return PathIntegral(params, zeros, jnp.float32(0.0), params, zeros)

    def after_update(
        self, mem: PathIntegral, old: Any, new: Any, grads: Any
    ) -> tuple[PathIntegral, Any]:
        before = part_of(old, mem.anchor)
        # Without the penalty's own gradient: importance is about the task's loss.
        of_penalty = jax.grad(lambda params: self.penalty(mem, params))(before)
        gain = jax.tree.map(
            lambda total, g, p, before, after: total - (g - p) * (after - before),
            mem.gain,
            part_of(grads, mem.anchor),
            of_penalty,
            before,
            part_of(new, mem.anchor),
        )
        return mem.replace(gain=gain), new

    def end_phase(
        self,
        mem: PathIntegral,
        phase: str,
        state: LearnerState,
        learner: Learner,
        batch: Any,
        key: Key,
    ) -> tuple[PathIntegral, LearnerState]:
        anchor = part_of(state.params, mem.anchor)

        def accumulated(importance: Array, gain: Array, now: Array, start: Array) -> Array:
            return importance + jnp.maximum(gain, 0.0) / (jnp.square(now - start) + self.damping)

        importance = jax.tree.map(accumulated, mem.importance, mem.gain, anchor, mem.start)
        zeros = jax.tree.map(jnp.zeros_like, anchor)
        return PathIntegral(anchor, importance, mem.rest, anchor, zeros), state

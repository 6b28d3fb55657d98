"""Synaptic intelligence: parameters are dear by how much their way lowered the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Learner, LearnerState
from brigade.core.checks import positive
from brigade.methods.importance import Hold, QuadraticPenalty


class Path(Hold):
    """The hold, and what this task's way has brought so far."""

    start: Any  # the parameters where the task began
    gain: Any  # how much each parameter's way lowered the loss since


@dataclass(frozen=True)
class SI(QuadraticPenalty):
    """Importance is worked out along the way, without a pass over samples."""

    coefficient: float = 1.0
    """Weight of the penalty; the penalty is half of it times importance times squared way."""
    per_parameter: bool = False
    """Divide the coefficient by the number of parameters held."""
    damping: float = 0.1
    """Added to the squared way that importance is divided by, so that none is infinite."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("damping", self.damping)

    def init(self, params: Any, batch: Any) -> Path:
        held = self.held(params)
        nothing = jax.tree.map(jnp.zeros_like, held)
        return Path(held, nothing, jnp.float32(0.0), held, nothing)

    def after_update(self, mem: Path, old: Any, new: Any, grads: Any) -> tuple[Path, Any]:
        held_old = self.held(old)
        # The penalty's own slope is taken out: importance is about the task.
        pull = jax.grad(lambda params: self.penalty(mem, params))(held_old)
        gain = jax.tree.map(
            lambda total, g, p, before, after: total - (g - p) * (after - before),
            mem.gain,
            self.held(grads),
            pull,
            held_old,
            self.held(new),
        )
        return mem.replace(gain=gain), new

    def end_phase(
        self, mem: Path, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Path, LearnerState]:
        held = self.held(state.params)

        def grown(importance: Array, gain: Array, now: Array, start: Array) -> Array:
            return importance + jnp.maximum(gain, 0.0) / (jnp.square(now - start) + self.damping)

        importance = jax.tree.map(grown, mem.importance, mem.gain, held, mem.start)
        nothing = jax.tree.map(jnp.zeros_like, held)
        return Path(held, importance, mem.rest, held, nothing), state

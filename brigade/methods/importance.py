"""What the methods that hold parameters in place share: which ones, how dear each is, the pull."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import (
    Array,
    ContinualMethod,
    Key,
    Learner,
    LearnerState,
    LossOf,
    Metrics,
    Outputs,
)
from brigade.core.checks import at_least, within
from brigade.nets.distributions import Categorical, Distribution

TINY = 1e-30  # no importance that counts is smaller
CHUNK = 50  # samples whose gradients are in memory at once


class Hold(struct.PyTreeNode):
    """Where parameters are pulled to and how hard: importance * (parameter - anchor)^2 + rest."""

    anchor: Any
    importance: Any
    rest: Array  # what is left where several anchors were merged into one


@dataclass(frozen=True)
class QuadraticPenalty(ContinualMethod):
    """A penalty on the way from an anchor; methods differ in anchors and importance."""

    coefficient: float = 1.0
    """Weight of the penalty; the penalty is half of it times importance times squared way."""
    per_parameter: bool = True
    """Divide the coefficient by the number of parameters held, as the MEAL release does."""
    heads: bool = False
    """Hold heads too: the actor's, and the critic's if the critic is held."""
    critic: bool = False
    """Hold the critic too."""

    def __post_init__(self) -> None:
        at_least("coefficient", self.coefficient, 0.0)

    def held(self, params: Any) -> dict[str, Any]:
        """The parameters this method holds."""
        return held_part(params, self.heads, self.critic)

    def init(self, params: Any, batch: Any) -> Any:
        held = self.held(params)
        return Hold(held, jax.tree.map(jnp.zeros_like, held), jnp.float32(0.0))

    def loss(
        self, mem: Any, base: LossOf, params: Any, learner: Learner, key: Key
    ) -> tuple[Array, Metrics]:
        loss, metrics = base(params)
        penalty = self.penalty(mem, params)
        return loss + penalty, metrics | {"penalty": penalty}

    def penalty(self, mem: Any, params: Any) -> Array:
        """What is added to the loss."""
        held = self.held(params)
        terms = jax.tree.map(
            lambda f, p, a: jnp.sum(f * jnp.square(p - a)), mem.importance, held, mem.anchor
        )
        scale = self.coefficient / (num_entries(held) if self.per_parameter else 1)
        return 0.5 * scale * (sum(jax.tree.leaves(terms)) + mem.rest)


@dataclass(frozen=True)
class EstimatedPenalty(QuadraticPenalty):
    """Importance is estimated from samples of a task when it ends."""

    samples: int = 2500
    """Samples to estimate importance from at the end of a task, at most one minibatch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("samples", self.samples, 1)

    def estimate(self, learner: Learner, params: Any, batch: Any, key: Key) -> Any:
        """How much each parameter held matters for the task that ended: its Fisher information."""
        held = self.held(params)
        return fisher(learner, params, held, batch, self.samples, self.critic, key)


@dataclass(frozen=True)
class FadingPenalty(EstimatedPenalty):
    """One anchor, the end of the last task; importance is added up and fades."""

    decay: float = 0.9
    """What is left of earlier importance when a task's is added: 0 nothing, 1 all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within("decay", self.decay, 0.0, 1.0)

    def end_phase(
        self, mem: Hold, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Hold, LearnerState]:
        new = self.estimate(learner, state.params, batch, key)
        importance = jax.tree.map(lambda o, n: self.decay * o + n, mem.importance, new)
        return Hold(self.held(state.params), importance, mem.rest), state


def held_part(params: Any, heads: bool, critic: bool) -> dict[str, Any]:
    """The parts of the parameters that are not spared, by name."""

    def is_held(name: str) -> bool:
        if name.startswith("critic_") and not critic:
            return False  # nor its head: without the value among the outputs it has no importance
        return heads or not name.endswith("_head")

    held = {name: part for name, part in params.items() if is_held(name)}
    if not held:
        raise ValueError(f"the network has only {', '.join(params)}: nothing is left to hold")
    return held


def num_entries(tree: Any) -> int:
    """How many numbers a tree holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def fisher(
    learner: Learner, params: Any, held: Any, batch: Any, samples: int, critic: bool, key: Key
) -> Any:
    """Mean squared gradient of the log-likelihood of what the network itself would draw.

    Per moment: the moments of a sequence are drawn independently, so their squares add up.
    """
    distribution = getattr(learner.policy, "distribution", Categorical)
    moments = moments_per_row(learner, params, batch)

    def squared_gradient(row: Any, key: Key) -> Any:
        def of_draw(held: Any) -> Array:
            out = learner.outputs(params | held, row)
            return log_likelihood_of_draw(distribution, out, critic, counts(row), key)

        return jax.tree.map(lambda g: jnp.square(g) / moments, jax.grad(of_draw)(held))

    rows = rows_for(samples, moments)
    return per_move(mean_over_samples(squared_gradient, held, batch, rows, key), batch, rows)


def log_likelihood_of_draw(
    distribution: type[Distribution], out: Outputs, critic: bool, weight: Array | float, key: Key
) -> Array:
    """Of actions the policy draws and, for the critic, of returns with deviation 1, weighted."""
    action_key, value_key = jax.random.split(key)
    action = jax.lax.stop_gradient(distribution.sample(action_key, out.logits))
    total = jnp.sum(weight * distribution.log_prob(out.logits, action))
    if critic and out.value is not None:
        # Has the slope of a normal log-density at a draw from itself: noise times the value's.
        total += jnp.sum(weight * jax.random.normal(value_key, out.value.shape) * out.value)
    return total


def sensitivity(
    learner: Learner, params: Any, held: Any, batch: Any, samples: int, critic: bool, key: Key
) -> Any:
    """Mean absolute gradient of the squared length of the network's outputs, per moment."""
    moments = moments_per_row(learner, params, batch)

    def absolute_gradient(row: Any, key: Key) -> Any:
        def squared_length(held: Any) -> Array:
            out = learner.outputs(params | held, row)
            lengths = jnp.sum(jnp.square(out.logits), axis=-1)
            if critic and out.value is not None:
                lengths += jnp.square(out.value)
            return jnp.sum(counts(row) * lengths) / moments

        return jax.tree.map(jnp.abs, jax.grad(squared_length)(held))

    rows = rows_for(samples, moments)
    return per_move(mean_over_samples(absolute_gradient, held, batch, rows, key), batch, rows)


def counts(batch: Any) -> Array | float:
    """Per moment: 0 where it is no move of the learner's; all are where a batch does not tell."""
    weight: Array | float = getattr(batch, "weight", 1.0)
    return weight


def per_move(mean: Any, batch: Any, rows: int) -> Any:
    """A mean over the first rows of a batch as one over the moves among them."""
    weight = counts(batch)
    if isinstance(weight, float):
        return mean
    share = jnp.maximum(jnp.mean(weight[:rows]), TINY)
    return jax.tree.map(lambda leaf: leaf / share, mean)


def moments_per_row(learner: Learner, params: Any, batch: Any) -> int:
    """1, or the length of the sequences a learner with memory is shown."""
    row = jax.tree.map(lambda x: x[:1], batch)
    answers: Outputs = jax.eval_shape(learner.outputs, params, row)
    return math.prod(answers.logits.shape[:-1])


def rows_for(samples: int, moments: int) -> int:
    """Rows that hold so many moments."""
    return max(1, samples // moments)


def mean_over_samples(
    of_sample: Callable[[Any, Key], Any], like: Any, batch: Any, samples: int, key: Key
) -> Any:
    """Mean of `of_sample(row, key)` over the first samples of a batch; rows have leaves [1, ...].

    A chunk of samples is worked on at once, and only the sum outlives it.
    """
    number = min(samples, jax.tree.leaves(batch)[0].shape[0])
    size = min(CHUNK, number)
    index = jnp.arange(-(-number // size) * size).reshape(-1, size)

    def add_chunk(sums: Any, chunk: tuple[Array, Key]) -> tuple[Any, None]:
        index, keys = chunk
        rows = jax.tree.map(lambda x: jnp.take(x, index, axis=0, mode="clip")[:, None], batch)
        share = (index < number) / number  # the last chunk may be longer than what is left
        each = jax.vmap(of_sample)(rows, keys)
        return jax.tree.map(lambda s, e: s + jnp.tensordot(share, e, 1), sums, each), None

    nothing = jax.tree.map(jnp.zeros_like, like)
    keys = jax.random.split(key, index.shape)
    return jax.lax.scan(add_chunk, nothing, (index, keys))[0]

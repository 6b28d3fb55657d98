"""Shared by regularisation methods: which parameters, their importance, and the penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import (
    Array,
    Batch,
    ContinualMethod,
    Key,
    Learner,
    LearnerState,
    LossOf,
    Metrics,
    Outputs,
    ParameterGroups,
)
from brigade.core.checks import at_least, within
from brigade.core.distributions import Sampled

TINY = 1e-30  # avoids division by zero; smaller than any real importance
CHUNK = 50  # per-sample gradients computed at once


class Penalty(struct.PyTreeNode):
    """The sum over parameters of importance * (parameter - anchor)^2, plus `rest`."""

    anchor: Any
    importance: Any
    rest: Array  # [] f32: the constant from merging several anchors into one


@dataclass(frozen=True)
class QuadraticPenalty(ContinualMethod):
    """A penalty on the distance to an anchor; methods differ in anchors and importance."""

    coefficient: float = 1.0
    """Weight of the penalty, coefficient / 2 * importance * squared distance to the anchor."""
    per_parameter: bool = True
    """Divide the coefficient by the number of regularised parameters, as the MEAL release does."""
    heads: bool = False
    """Regularise heads too: the actor's, and the critic's if the critic is regularised."""
    critic: bool = False
    """Regularise the critic too."""

    def __post_init__(self) -> None:
        at_least("coefficient", self.coefficient, 0.0)

    def start(self, learner: Learner, params: Any, batch: Any) -> Any:
        groups = learner.groups(params)
        return self.init(regularised(params, groups, self.heads, self.critic), batch)

    def init(self, params: Any, batch: Any) -> Any:
        """All `params` are regularised."""
        return Penalty(params, jax.tree.map(jnp.zeros_like, params), jnp.float32(0.0))

    def loss(
        self, mem: Any, base: LossOf, params: Any, learner: Learner, key: Key
    ) -> tuple[Array, Metrics]:
        loss, metrics = base(params)
        penalty = self.penalty(mem, params)
        return loss + penalty, metrics | {"penalty": penalty}

    def penalty(self, mem: Any, params: Any) -> Array:
        """The term that is added to the loss."""
        penalised = part_of(params, mem.anchor)
        terms = jax.tree.map(
            lambda f, p, a: jnp.sum(f * jnp.square(p - a)), mem.importance, penalised, mem.anchor
        )
        scale = self.coefficient / (num_entries(penalised) if self.per_parameter else 1)
        return 0.5 * scale * (sum(jax.tree.leaves(terms)) + mem.rest)


@dataclass(frozen=True)
class EstimatedPenalty(QuadraticPenalty):
    """Importance is estimated from samples at the end of a task."""

    samples: int = 2500
    """Timesteps to estimate importance from at the end of a task, at most one minibatch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("samples", self.samples, 1)

    def estimate(self, learner: Learner, params: Any, penalised: Any, batch: Any, key: Key) -> Any:
        """The importance of the `penalised` part of `params`: its Fisher information."""
        return fisher(learner, params, penalised, batch, self.samples, self.critic, key)


@dataclass(frozen=True)
class FadingPenalty(EstimatedPenalty):
    """One anchor, the end of the last task; importance accumulates with a decay."""

    decay: float = 0.9
    """Factor on earlier importance when a task's is added: 0 discards it, 1 keeps all of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within("decay", self.decay, 0.0, 1.0)

    def end_phase(
        self, mem: Penalty, phase: str, state: LearnerState, learner: Learner, batch: Any, key: Key
    ) -> tuple[Penalty, LearnerState]:
        anchor = part_of(state.params, mem.anchor)
        new = self.estimate(learner, state.params, anchor, batch, key)
        importance = jax.tree.map(lambda o, n: self.decay * o + n, mem.importance, new)
        return Penalty(anchor, importance, mem.rest), state


def regularised(params: Any, groups: ParameterGroups, heads: bool, critic: bool) -> dict[str, Any]:
    """The entries of the parameters that a method regularises.

    Never the standard deviations of continuous actions: later tasks need them to explore.
    """
    excluded = set(groups.exploration)
    if not critic:
        excluded |= set(groups.critic)  # its head included, which has no gradient without values
    if not heads:
        excluded |= set(groups.heads)
    chosen = {name: part for name, part in params.items() if name not in excluded}
    if not chosen:
        raise ValueError(
            f"the network has only {', '.join(params)}, so nothing is left to regularise; "
            "set heads or critic"
        )
    return chosen


def part_of(params: Any, like: Any) -> dict[str, Any]:
    """The entries of `params` whose names are in `like`."""
    return {name: params[name] for name in like}


def num_entries(tree: Any) -> int:
    """The number of scalars in a tree."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def fisher(
    learner: Learner,
    params: Any,
    penalised: Any,
    batch: Batch,
    samples: int,
    critic: bool,
    key: Key,
) -> Any:
    """Mean squared gradient of the log-likelihood of actions sampled from the policy."""
    distribution, timesteps = learner.policy.distribution, batch.timesteps

    def squared_gradient(row: Any, key: Key) -> Any:
        time_key, sample_key = jax.random.split(key)
        weight = one_timestep(row.weights, timesteps, time_key)

        def log_likelihood(penalised: Any) -> Array:
            out = learner.outputs(params | penalised, row)
            return log_likelihood_of_sample(distribution, out, critic, weight, sample_key)

        return jax.tree.map(jnp.square, jax.grad(log_likelihood)(penalised))

    return mean_over_samples(squared_gradient, penalised, batch, samples, timesteps, key)


def log_likelihood_of_sample(
    distribution: type[Sampled], out: Outputs, critic: bool, weight: Array | float, key: Key
) -> Array:
    """Log-likelihood of sampled actions and, with `critic`, of returns sampled around the value.

    Returns are normal with standard deviation 1.
    """
    action_key, value_key = jax.random.split(key)
    action = jax.lax.stop_gradient(distribution.sample(action_key, out.logits))
    total = jnp.sum(weight * distribution.log_prob(out.logits, action))
    if critic and out.value is not None:
        # A normal log-density at its own sample has the gradient of the mean times the noise.
        total += jnp.sum(weight * jax.random.normal(value_key, out.value.shape) * out.value)
    return total


def sensitivity(
    learner: Learner,
    params: Any,
    penalised: Any,
    batch: Batch,
    samples: int,
    critic: bool,
    key: Key,
) -> Any:
    """Mean absolute gradient of the squared norm of the network's outputs."""
    timesteps = batch.timesteps

    def absolute_gradient(row: Any, key: Key) -> Any:
        weight = one_timestep(row.weights, timesteps, key)

        def squared_norm(penalised: Any) -> Array:
            out = learner.outputs(params | penalised, row)
            norms = jnp.sum(jnp.square(out.logits), axis=-1)
            if critic and out.value is not None:
                norms += jnp.square(out.value)
            return jnp.sum(weight * norms)

        return jax.tree.map(jnp.abs, jax.grad(squared_norm)(penalised))

    return mean_over_samples(absolute_gradient, penalised, batch, samples, timesteps, key)


def one_timestep(weight: Array | None, timesteps: int, key: Key) -> Array | float:
    """The weights of a sequence, set to 0 for all timesteps but one sampled at random."""
    of_each: Array | float = 1.0 if weight is None else weight
    if timesteps == 1:
        return of_each
    chosen = jnp.arange(timesteps) == jax.random.randint(key, (), 0, timesteps)
    return of_each * chosen.astype(jnp.float32)


def mean_over_samples(
    of_sample: Callable[[Any, Key], Any],
    like: Any,
    batch: Batch,
    samples: int,
    timesteps: int,
    key: Key,
) -> Any:
    """Mean of `of_sample(row, key)` over samples of a batch; rows have leaves [1, ...].

    A sample is one timestep, so a sequence can be used as often as it has timesteps. Timesteps with
    weight 0 do not count. Samples are processed in chunks, and only their sum is kept.
    """
    rows = jax.tree.leaves(batch)[0].shape[0]
    number = min(samples, rows * timesteps)
    size = min(CHUNK, number)
    index = jnp.arange(-(-number // size) * size).reshape(-1, size)

    def add_chunk(sums: Any, chunk: tuple[Array, Key]) -> tuple[Any, None]:
        index, keys = chunk
        taken = jax.tree.map(lambda x: jnp.take(x, index % rows, axis=0)[:, None], batch)
        share = (index < number) / number  # 0 for the padding of the last chunk
        each = jax.vmap(of_sample)(taken, keys)
        return jax.tree.map(lambda s, e: s + jnp.tensordot(share, e, 1), sums, each), None

    nothing = jax.tree.map(jnp.zeros_like, like)
    keys = jax.random.split(key, index.shape)
    mean = jax.lax.scan(add_chunk, nothing, (index, keys))[0]
    if batch.weights is None:
        return mean
    mean_weight = jnp.maximum(jnp.mean(batch.weights[: min(number, rows)]), TINY)
    return jax.tree.map(lambda leaf: leaf / mean_weight, mean)

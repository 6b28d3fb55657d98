"""The pieces of policy optimisation: plain functions of arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Trajectory

TINY = 1e-8


def total_reward(traj: Trajectory, shaping: Array, share: bool) -> Array:
    """[T, B, seats]: the game's reward plus what is left of the shaping.

    Shared, every seat earns what all seats of the game did, partners too.
    """
    if "shaped_reward" not in traj.info:
        return traj.reward
    shaped = traj.info["shaped_reward"]
    if share:
        shaped = shaped.sum(-1, keepdims=True)
    elif traj.seat is not None:
        shaped = jnp.take_along_axis(shaped, traj.seat[None], axis=-1)
    return traj.reward + shaping * shaped


def generalised_advantage(
    reward: Array,
    value: Array,
    worthless_after: Array,
    cut_after: Array,
    gamma: float,
    gae_lambda: float,
) -> Array:
    """GAE over axis 0. `value` has one entry more than `reward`: [T + 1, B, seats].

    `worthless_after` [T, B]: nothing of value follows. `cut_after` [T, B]: the next step belongs to
    another episode, so advantages do not flow back over it.
    """
    follows = 1.0 - worthless_after[..., None].astype(reward.dtype)
    flows = 1.0 - cut_after[..., None].astype(reward.dtype)
    delta = reward + gamma * follows * value[1:] - value[:-1]

    def backwards(advantage: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, flows = step
        advantage = delta + gamma * gae_lambda * flows * advantage
        return advantage, advantage

    return jax.lax.scan(backwards, jnp.zeros_like(delta[0]), (delta, flows), reverse=True)[1]


def clipped_surrogate(
    new_log_prob: Array, old_log_prob: Array, advantage: Array, clip: float
) -> Array:
    """The pessimistic of the plain and the clipped policy gain, per sample."""
    ratio = jnp.exp(new_log_prob - old_log_prob)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def clipped_value_loss(value: Array, old_value: Array, target: Array, clip: float | None) -> Array:
    """Half the larger of the squared errors with and without a clipped step, per sample."""
    plain = jnp.square(value - target)
    if clip is None:
        return 0.5 * plain
    near = old_value + jnp.clip(value - old_value, -clip, clip)
    return 0.5 * jnp.maximum(plain, jnp.square(near - target))


def weighted_mean(values: Array, weight: Array) -> Array:
    """Mean over the entries that count; 0 when none does."""
    return jnp.sum(values * weight) / jnp.maximum(jnp.sum(weight), 1.0)


def normalise(values: Array, weight: Array) -> Array:
    """Mean 0 and deviation 1 over the entries that count."""
    centred = values - weighted_mean(values, weight)
    return centred / (jnp.sqrt(weighted_mean(jnp.square(centred), weight)) + TINY)


def shuffled_minibatches(key: Key, samples: int, epochs: int, minibatches: int) -> Array:
    """[epochs * minibatches, samples / minibatches]: every sample once per epoch."""
    if samples % minibatches:
        raise ValueError(
            f"{samples} samples do not divide into {minibatches} minibatches; "
            f"change num_envs or minibatches so that they do"
        )
    # One sort by random numbers per epoch: `jax.random.permutation` sorts at least twice.
    order = jnp.argsort(jax.random.bits(key, (epochs, samples)), axis=-1)
    return order.reshape(epochs * minibatches, -1)

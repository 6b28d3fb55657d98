"""Rewards, advantages and losses of PPO, as plain functions of arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Trajectory

TINY = 1e-8


def total_reward(traj: Trajectory, shaping: Array, share: bool) -> Array:
    """[T, B, seats]: the environment's reward plus `shaping` times the shaped reward.

    With `share`, every seat gets the sum of the shaped rewards of all seats, partners included.
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
    terminal: Array,
    episode_end: Array,
    gamma: float,
    gae_lambda: float,
) -> Array:
    """GAE over axis 0. `value` has one entry more than `reward`: [T + 1, B, seats].

    `terminal` [T, B]: the value after this step is 0. `episode_end` [T, B]: the next step is of
    another episode, so advantages are not propagated back from it.
    """
    bootstraps = 1.0 - terminal[..., None].astype(reward.dtype)
    continues = 1.0 - episode_end[..., None].astype(reward.dtype)
    delta = reward + gamma * bootstraps * value[1:] - value[:-1]

    def backwards(advantage: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, continues = step
        advantage = delta + gamma * gae_lambda * continues * advantage
        return advantage, advantage

    return jax.lax.scan(backwards, jnp.zeros_like(delta[0]), (delta, continues), reverse=True)[1]


def clipped_surrogate(
    new_log_prob: Array, old_log_prob: Array, advantage: Array, clip: float
) -> Array:
    """PPO's objective per sample: the smaller of the plain and the clipped surrogate."""
    ratio = jnp.exp(new_log_prob - old_log_prob)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def clipped_value_loss(value: Array, old_value: Array, target: Array, clip: float | None) -> Array:
    """Half the larger squared error of the value and the clipped value, per sample."""
    plain = jnp.square(value - target)
    if clip is None:
        return 0.5 * plain
    clipped = old_value + jnp.clip(value - old_value, -clip, clip)
    return 0.5 * jnp.maximum(plain, jnp.square(clipped - target))


def weighted_mean(values: Array, weight: Array) -> Array:
    """Mean over the entries with weight 1; 0 if there are none."""
    return jnp.sum(values * weight) / jnp.maximum(jnp.sum(weight), 1.0)


def normalise(values: Array, weight: Array) -> Array:
    """Shift and scale to mean 0 and standard deviation 1 over the entries with weight 1."""
    centred = values - weighted_mean(values, weight)
    return centred / (jnp.sqrt(weighted_mean(jnp.square(centred), weight)) + TINY)


def shuffled_minibatches(key: Key, samples: int, epochs: int, minibatches: int) -> Array:
    """Indices [epochs * minibatches, samples / minibatches], with every sample once per epoch."""
    if samples % minibatches:
        raise ValueError(
            f"{samples} samples (or sequences, with memory) do not divide into {minibatches} "
            "minibatches; change num_envs, minibatches or sequence_length"
        )
    # One sort per epoch; `jax.random.permutation` sorts at least twice.
    order = jnp.argsort(jax.random.bits(key, (epochs, samples)), axis=-1)
    return order.reshape(epochs * minibatches, -1)

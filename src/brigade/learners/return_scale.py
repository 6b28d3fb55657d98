"""Value normalisation: a critic that predicts returns in units of their standard deviation."""

from __future__ import annotations

import jax.numpy as jnp
from flax import struct

from brigade.core import Array
from brigade.learners.losses import weighted_mean

DECAY = 0.99999  # per rollout, as MAPPO's: nearly the mean over all rollouts so far
LEAST_VARIANCE = 1e-2


class ReturnScale(struct.PyTreeNode):
    """Running means of returns and of their squares, corrected for starting at 0."""

    mean: Array
    square: Array
    weight: Array  # 0 before the first rollout, close to 1 after many

    @classmethod
    def initial(cls) -> ReturnScale:
        """Of no returns: values are used as they are."""
        return cls(*jnp.zeros(3))

    def updated(self, returns: Array, weight: Array) -> ReturnScale:
        """With the returns of a rollout; those with weight 0 do not count."""

        def moved(old: Array, new: Array) -> Array:
            return DECAY * old + (1.0 - DECAY) * new

        return ReturnScale(
            moved(self.mean, weighted_mean(returns, weight)),
            moved(self.square, weighted_mean(jnp.square(returns), weight)),
            moved(self.weight, jnp.float32(1.0)),
        )

    def returns(self, values: Array) -> Array:
        """The critic's outputs as returns."""
        mean, std = self._mean_and_std()
        return values * std + mean

    def values(self, returns: Array) -> Array:
        """Returns as the critic should predict them."""
        mean, std = self._mean_and_std()
        return (returns - mean) / std

    def _mean_and_std(self) -> tuple[Array, Array]:
        known = self.weight > 0.0
        weight = jnp.where(known, self.weight, 1.0)
        mean = self.mean / weight
        variance = jnp.maximum(self.square / weight - jnp.square(mean), LEAST_VARIANCE)
        return mean, jnp.where(known, jnp.sqrt(variance), 1.0)

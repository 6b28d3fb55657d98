"""Observations of one task, reduced to the entries that change within it.

Two thirds of a kitchen's observation never change within the task. They add the same bias to the
first layer for every sample, so only the other entries need to be stored, shuffled and multiplied.
The result and its gradient are those of the full observation, up to rounding.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import struct

from brigade.core import Array


class ChangingInputs(struct.PyTreeNode):
    """The entries of observations that change, and the constant values of the others."""

    values: Array  # [..., kept], of the observation's type
    columns: Array  # [kept] int32: their indices in the flattened observation
    constant: Array  # [*observation]: the values of all other entries, 0 at `columns`

    @classmethod
    def of(cls, obs: Array, kept: int) -> ChangingInputs:
        """Reduce observations [samples, ...] to `kept` columns.

        If more columns change than that, the constants are set to NaN, so that the loss is NaN too
        instead of silently wrong.
        """
        flat = obs.reshape(obs.shape[0], -1)
        changes = (flat != flat[0]).any(0)
        columns = jnp.argsort(~changes, stable=True)[:kept]
        constant = flat[0].astype(jnp.float32).at[columns].set(0.0)
        constant = jnp.where(changes.sum() <= kept, constant, jnp.nan)
        values = jnp.take(flat, columns, axis=1, mode="clip")
        return cls(values, columns, constant.reshape(obs.shape[1:]))

    def whole(self) -> Array:
        """The full observations [..., *observation]."""
        batch, constant = self.values.shape[:-1], self.constant.astype(self.values.dtype)
        base = jnp.broadcast_to(constant.reshape(-1), (*batch, constant.size))
        whole = base.at[..., self.columns].set(self.values)
        return whole.reshape(*batch, *constant.shape)

"""Observations of one task, reduced to the entries that change in it.

Of the entries of a kitchen's observation two thirds never change in that kitchen. What they add to
the first layer is the same for every sample, a bias; only the others need be kept, shuffled and
multiplied. The result and its gradient are those of the whole observation, up to rounding.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import struct

from brigade.core import Array


class ChangingInputs(struct.PyTreeNode):
    """`values` of the columns that change, beside what the others always are."""

    values: Array  # [..., kept], of the observation's type
    columns: Array  # [kept] int32: where they stand in the flattened observation
    constant: Array  # [*observation]: the value of every other entry, 0 in those that are kept

    @classmethod
    def of(cls, obs: Array, kept: int) -> ChangingInputs:
        """Reduce observations [samples, ...] to `kept` columns.

        If more than that change, nothing of it can be trusted: the constants become NaN, so that
        the loss does.
        """
        flat = obs.reshape(obs.shape[0], -1)
        changes = (flat != flat[0]).any(0)
        columns = jnp.argsort(~changes, stable=True)[:kept]
        constant = flat[0].astype(jnp.float32).at[columns].set(0.0)
        constant = jnp.where(changes.sum() <= kept, constant, jnp.nan)
        values = jnp.take(flat, columns, axis=1, mode="clip")
        return cls(values, columns, constant.reshape(obs.shape[1:]))

    def whole(self) -> Array:
        """The observations [..., *observation] as they were."""
        batch, constant = self.values.shape[:-1], self.constant.astype(self.values.dtype)
        base = jnp.broadcast_to(constant.reshape(-1), (*batch, constant.size))
        whole = base.at[..., self.columns].set(self.values)
        return whole.reshape(*batch, *constant.shape)

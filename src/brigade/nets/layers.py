"""Fully connected layers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array
from brigade.nets.inputs import ChangingInputs
from brigade.nets.norm import ACTIVATIONS, NormedActivation

HIDDEN_GAIN = 2.0**0.5
FAST_MULTIPLE, FAST_WIDTH = 64, 8  # inner and outer sizes of fast bfloat16 products divide by these


class Linear(nn.Module):
    """A linear layer with orthogonal weights and zero bias, with an optional task one-hot input.

    The product with the one-hot is a lookup: its rows are the last ones of the kernel.
    """

    size: int
    gain: float
    num_tasks: int = 0  # size of the one-hot; 0: none
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array | ChangingInputs, task_id: Array) -> tuple[Array, Array]:
        """[..., features], task ids [...] or a scalar -> the product [..., size] and the bias.

        The bias is left for the layer norm to add. It is [size], or [..., size] if every sample has
        its own task id.
        """
        features = x.constant.size if isinstance(x, ChangingInputs) else x.shape[-1]
        kernel_shape = (features + self.num_tasks, self.size)
        kernel = self.param("kernel", nn.initializers.orthogonal(self.gain), kernel_shape)
        bias = self.param("bias", nn.initializers.zeros, (self.size,))
        if self.num_tasks:
            bias = bias + kernel[features + task_id]
            kernel = kernel[:features]
        if isinstance(x, ChangingInputs):
            bias = bias + x.constant.reshape(-1) @ kernel
            return times(x.values, kernel[x.columns], self.dtype), bias
        return times(x, kernel, self.dtype), bias


def times(x: Array, kernel: Array, dtype: Any) -> Array:
    """`x @ kernel` in `dtype`; in bfloat16, sizes are padded to multiples that are fast on GPUs."""
    x, kernel = x.astype(dtype), kernel.astype(dtype)
    if dtype != jnp.bfloat16:
        return x @ kernel
    inner, outer = -x.shape[-1] % FAST_MULTIPLE, -kernel.shape[-1] % FAST_WIDTH
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, inner)])
    product = x @ jnp.pad(kernel, [(0, inner), (0, outer)])
    return product[..., : kernel.shape[-1]]


def exact_times(x: Array, kernel: Array) -> Array:
    """`x @ kernel` in float32, also for bfloat16 `x` [..., features]."""
    if x.dtype != jnp.bfloat16:
        return x @ kernel
    return _exact_times(x, kernel)


@jax.custom_vjp
def _exact_times(x: Array, kernel: Array) -> Array:
    """Split the float32 kernel into the sum of two bfloat16 kernels, multiplied in one product."""
    high = kernel.astype(jnp.bfloat16)
    low = (kernel - high.astype(jnp.float32)).astype(jnp.bfloat16)
    width = kernel.shape[-1]
    halves = jnp.concatenate([high, low], axis=-1)
    halves = jnp.pad(halves, [(0, 0), (0, -2 * width % FAST_WIDTH)])
    product = jnp.matmul(x, halves, preferred_element_type=jnp.float32)
    return product[..., :width] + product[..., width : 2 * width]


def _exact_times_forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return _exact_times(x, kernel), (x, kernel)


def _exact_times_backward(saved: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    """Gradients are computed in bfloat16, like those of all other layers."""
    x, kernel = saved
    width = kernel.shape[-1]
    padding = -width % FAST_WIDTH
    dy = jnp.pad(dy.astype(jnp.bfloat16), [(0, 0)] * (dy.ndim - 1) + [(0, padding)])
    dx = dy @ jnp.pad(kernel.astype(jnp.bfloat16), [(0, 0), (0, padding)]).T
    flat, flat_dy = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    d_kernel = jnp.matmul(flat.T, flat_dy, preferred_element_type=jnp.float32)
    return dx, d_kernel[:, :width]


_exact_times.defvjp(_exact_times_forward, _exact_times_backward)


class Hidden(nn.Module):
    """Linear, optional layer norm, activation; or linear, activation, layer norm."""

    size: int
    activation: str = "relu"
    layer_norm: bool = True
    norm_last: bool = False
    num_tasks: int = 0
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array | ChangingInputs, task_id: Array) -> Array:
        """[..., features] -> [..., size]."""
        y, bias = Linear(self.size, HIDDEN_GAIN, self.num_tasks, self.dtype)(x, task_id)
        activation, nothing = self.activation, jnp.zeros(self.size)
        if self.norm_last or not self.layer_norm:
            y = self.activated(ACTIVATIONS[activation].of(y + bias.astype(self.dtype)))
            activation, bias = "none", nothing
        if not self.layer_norm:
            return y
        if bias.ndim > 1:
            y, bias = y + bias.astype(self.dtype), nothing
        normed: Array = NormedActivation(activation, name="LayerNorm_0")(y, bias)
        return normed if self.norm_last else self.activated(normed)

    def activated(self, y: Array) -> Array:
        """The units' activations, before a layer norm that comes last; `dormant` records them."""
        return y

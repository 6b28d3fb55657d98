"""Convolutions and pooling."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array
from brigade.nets.inputs import ChangingInputs
from brigade.nets.layers import HIDDEN_GAIN


class Convolution(nn.Module):
    """A convolution with orthogonal weights."""

    channels: int
    width: int
    dtype: Any = jnp.float32
    stride: int = 1
    same: bool = True  # pad with 0, so that the output is as large as the input divided by stride

    @nn.compact
    def __call__(self, x: Array | ChangingInputs) -> Array:
        """[N, height, width, input channels] -> [N, height, width, channels]."""
        shape = x.constant.shape if isinstance(x, ChangingInputs) else x.shape[1:]
        kernel_shape = (self.width, self.width, shape[-1], self.channels)
        kernel = self.param("kernel", nn.initializers.orthogonal(HIDDEN_GAIN), kernel_shape)
        bias = self.param("bias", nn.initializers.zeros, (self.channels,))

        def convolved(pictures: Array) -> Array:
            return convolution(
                pictures.astype(self.dtype), kernel.astype(self.dtype), self.stride, self.same
            )

        if not isinstance(x, ChangingInputs):
            return convolved(x) + bias.astype(self.dtype)
        # A convolution is linear, so the output is the sum of the effects of the entries.
        single = jax.nn.one_hot(x.columns, x.constant.size, dtype=self.dtype)
        effects = convolved(single.reshape(-1, *shape)).reshape(len(x.columns), -1)
        constant = convolved(x.constant.reshape(1, *shape)).astype(jnp.float32) + bias
        flat = x.values.reshape(-1, x.values.shape[-1])
        product = flat.astype(self.dtype) @ effects + constant.reshape(-1).astype(self.dtype)
        return product.reshape(-1, *constant.shape[1:])


def convolution(pictures: Array, kernel: Array, stride: int = 1, same: bool = True) -> Array:
    """[N, height, width, inputs] and [w, w, inputs, outputs] -> [N, height, width, outputs].

    On a CPU as one product over all neighbourhoods: XLA's convolutions are slow in loops there.
    """
    if jax.default_backend() == "cpu":
        around = neighbourhoods(pictures, len(kernel), stride, same)
        return jnp.concatenate(around, axis=-1) @ kernel.reshape(-1, kernel.shape[-1])
    return jax.lax.conv_general_dilated(
        pictures,
        kernel,
        window_strides=(stride, stride),
        padding=[paddings(len(kernel), size, stride, same) for size in pictures.shape[1:3]],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def max_pool(pictures: Array, width: int, stride: int) -> Array:
    """The largest values of w x w neighbourhoods, cut off at the border."""
    around = neighbourhoods(pictures, width, stride, same=True, outside=-jnp.inf)
    return jnp.stack(around).max(0)


def neighbourhoods(
    pictures: Array, width: int, stride: int = 1, same: bool = True, outside: float = 0.0
) -> list[Array]:
    """For each of the w x w places of a neighbourhood, what is there: [N, height, width, inputs].

    With a stride, neighbourhoods begin at every `stride`-th place.
    """
    rows, columns = (paddings(width, size, stride, same) for size in pictures.shape[1:3])
    padded = jnp.pad(pictures, ((0, 0), rows, columns, (0, 0)), constant_values=outside)
    height, length = ((size - width) // stride + 1 for size in padded.shape[1:3])
    return [
        padded[
            :,
            down : down + (height - 1) * stride + 1 : stride,
            right : right + (length - 1) * stride + 1 : stride,
        ]
        for down in range(width)
        for right in range(width)
    ]


def paddings(width: int, size: int, stride: int, same: bool) -> tuple[int, int]:
    """How many places to add before and after, if the output is to have size / stride of them."""
    if not same:
        return 0, 0
    missing = max((-(-size // stride) - 1) * stride + width - size, 0)
    return missing // 2, missing - missing // 2

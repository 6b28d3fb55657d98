"""Encoders: from an observation to a feature vector."""

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


class Encoder(nn.Module):
    """Settings shared by all encoders. `num_tasks` is the size of the one-hot input, 0 for none."""

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"
    layer_norm: bool = True
    norm_last: bool = False
    num_tasks: int = 0
    dtype: Any = jnp.float32

    def layers(self, x: Array | ChangingInputs, task_id: Array, sizes: tuple[int, ...]) -> Any:
        """Fully connected layers; the one-hot goes into the first."""
        for number, size in enumerate(sizes):
            tasks = self.num_tasks if number == 0 else 0
            x = Hidden(size, self.activation, self.layer_norm, self.norm_last, tasks, self.dtype)(
                x, task_id
            )
        return x


class MLP(Encoder):
    """Fully connected layers on the flattened observation."""

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, *observation] -> [*batch, features]."""
        x = obs if isinstance(obs, ChangingInputs) else obs.reshape(*batch, -1)
        return self.layers(x, task_id, self.hidden)


class Convolution(nn.Module):
    """A convolution with orthogonal weights and "same" padding."""

    channels: int
    width: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: Array | ChangingInputs) -> Array:
        """[N, height, width, input channels] -> [N, height, width, channels]."""
        shape = x.constant.shape if isinstance(x, ChangingInputs) else x.shape[1:]
        kernel_shape = (self.width, self.width, shape[-1], self.channels)
        kernel = self.param("kernel", nn.initializers.orthogonal(HIDDEN_GAIN), kernel_shape)
        bias = self.param("bias", nn.initializers.zeros, (self.channels,))

        def convolved(pictures: Array) -> Array:
            return convolution(pictures.astype(self.dtype), kernel.astype(self.dtype))

        if not isinstance(x, ChangingInputs):
            return convolved(x) + bias.astype(self.dtype)
        # A convolution is linear, so the output is the sum of the effects of the entries.
        single = jax.nn.one_hot(x.columns, x.constant.size, dtype=self.dtype)
        effects = convolved(single.reshape(-1, *shape)).reshape(len(x.columns), -1)
        constant = convolved(x.constant.reshape(1, *shape)).astype(jnp.float32) + bias
        flat = x.values.reshape(-1, x.values.shape[-1])
        product = flat.astype(self.dtype) @ effects + constant.reshape(-1).astype(self.dtype)
        return product.reshape(-1, *shape[:2], self.channels)


def convolution(pictures: Array, kernel: Array) -> Array:
    """[N, height, width, inputs] and [w, w, inputs, outputs] -> [N, height, width, outputs].

    On a CPU as one product over all neighbourhoods: XLA's convolutions are slow in loops there.
    """
    if jax.default_backend() == "cpu":
        return neighbourhoods(pictures, len(kernel)) @ kernel.reshape(-1, kernel.shape[-1])
    return jax.lax.conv_general_dilated(
        pictures,
        kernel,
        window_strides=(1, 1),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def neighbourhoods(pictures: Array, width: int) -> Array:
    """[N, height, width, w * w * inputs]: the w x w tiles around every tile, 0 outside."""
    height, length = pictures.shape[1:3]
    before = (width - 1) // 2
    padding = (before, width - 1 - before)
    padded = jnp.pad(pictures, ((0, 0), padding, padding, (0, 0)))
    shifted = [
        padded[:, down : down + height, right : right + length]
        for down in range(width)
        for right in range(width)
    ]
    return jnp.concatenate(shifted, axis=-1)


class CNN(Encoder):
    """Three convolutions of 32 channels, a projection to 64, then fully connected layers."""

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, height, width, channels] -> [*batch, features]."""
        activation = ACTIVATIONS[self.activation].of
        x: Any = obs if isinstance(obs, ChangingInputs) else obs.reshape(-1, *obs.shape[-3:])
        for number, width in enumerate((5, 3, 3)):
            x = activation(Convolution(32, width, self.dtype, name=f"Conv_{number}")(x))
        return self.layers(x.reshape(*batch, -1), task_id, (64, *self.hidden))


ENCODERS: dict[str, type[MLP] | type[CNN]] = {"mlp": MLP, "cnn": CNN}

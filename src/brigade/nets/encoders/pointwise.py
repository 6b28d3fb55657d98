"""The convolutional network of ICRL4AHT, for small views of kitchens."""

from __future__ import annotations

from typing import Any

from flax import linen as nn

from brigade.core import Array
from brigade.nets.convolution import Convolution
from brigade.nets.encoders import Encoder
from brigade.nets.inputs import ChangingInputs
from brigade.nets.norm import ACTIVATIONS

LAYERS = ((128, 1), (128, 1), (8, 1), (16, 3), (32, 3), (32, 3))  # channels, width


class Pointwise(Encoder):
    """Convolutions of single tiles, then of 3 x 3, for kitchens.

    There are three of each. Fully connected layers follow, one of 64 units in the paper.
    """

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, height, width, channels] -> [*batch, features]."""
        activation = ACTIVATIONS[self.activation].of
        x: Any = obs if isinstance(obs, ChangingInputs) else obs.reshape(-1, *obs.shape[-3:])
        for number, (channels, width) in enumerate(LAYERS):
            x = activation(Convolution(channels, width, self.dtype, name=f"Conv_{number}")(x))
        return self.layers(x.reshape(*batch, -1), task_id, self.hidden)

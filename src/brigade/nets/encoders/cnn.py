"""The convolutional network of MEAL, for kitchens."""

from __future__ import annotations

from typing import Any

from flax import linen as nn

from brigade.core import Array
from brigade.nets.convolution import Convolution
from brigade.nets.encoders import Encoder
from brigade.nets.inputs import ChangingInputs
from brigade.nets.norm import ACTIVATIONS


class CNN(Encoder):
    """Three convolutions and fully connected layers, for kitchens.

    The convolutions have 32 channels; a projection to 64 units follows.
    """

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, height, width, channels] -> [*batch, features]."""
        activation = ACTIVATIONS[self.activation].of
        x: Any = obs if isinstance(obs, ChangingInputs) else obs.reshape(-1, *obs.shape[-3:])
        for number, width in enumerate((5, 3, 3)):
            x = activation(Convolution(32, width, self.dtype, name=f"Conv_{number}")(x))
        return self.layers(x.reshape(*batch, -1), task_id, (64, *self.hidden))

"""The convolutional network of DQN, for pictures from simulators.

Reference: V. Mnih and others, *Human-level control through deep reinforcement learning*, Nature
2015.
"""

from __future__ import annotations

from typing import Any

from flax import linen as nn

from brigade.core import Array
from brigade.nets.convolution import Convolution
from brigade.nets.encoders import Encoder, whole_pictures
from brigade.nets.inputs import ChangingInputs
from brigade.nets.norm import ACTIVATIONS

LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, width, stride


class Nature(Encoder):
    """DQN's three convolutions with strides, for pictures of simulators.

    Fully connected layers follow, one of 512 units in the paper.
    """

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, height, width, channels] -> [*batch, features]."""
        activation = ACTIVATIONS[self.activation].of
        x = whole_pictures(obs)
        for number, (channels, width, stride) in enumerate(LAYERS):
            layer = Convolution(channels, width, self.dtype, stride, False, name=f"Conv_{number}")
            x = activation(layer(x))
        return self.layers(x.reshape(*batch, -1), task_id, self.hidden)

    @classmethod
    def check(cls, name: str, obs_shape: tuple[int, ...]) -> None:
        """Pictures of at least 36 x 36 pixels."""
        super().check(name, obs_shape)
        if min(obs_shape[:2]) < 36:
            raise ValueError(
                f"encoder {name} needs pictures of at least 36 x 36 pixels, and these have "
                f"{obs_shape[0]} x {obs_shape[1]}; use encoder cnn or impala"
            )

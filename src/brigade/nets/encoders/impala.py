"""The residual network of IMPALA, for pictures from simulators.

Reference: L. Espeholt and others, *IMPALA: scalable distributed deep-RL with importance weighted
actor-learner architectures*, ICML 2018.
"""

from __future__ import annotations

from typing import Any

from flax import linen as nn

from brigade.core import Array
from brigade.nets.convolution import Convolution, max_pool
from brigade.nets.encoders import Encoder, whole_pictures
from brigade.nets.inputs import ChangingInputs
from brigade.nets.norm import ACTIVATIONS

CHANNELS = (16, 32, 32)  # per stage


class Impala(Encoder):
    """IMPALA's residual convolutions, for pictures of simulators.

    Each of three stages is a convolution, pooling and two residual blocks. Fully connected layers
    follow, one of 256 units in the paper.
    """

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, height, width, channels] -> [*batch, features]."""
        activation = ACTIVATIONS[self.activation].of
        x = whole_pictures(obs)
        for channels in CHANNELS:
            x = max_pool(Convolution(channels, 3, self.dtype)(x), 3, 2)
            for _ in range(2):
                inner = Convolution(channels, 3, self.dtype)(activation(x))
                x = x + Convolution(channels, 3, self.dtype)(activation(inner))
        return self.layers(activation(x).reshape(*batch, -1), task_id, self.hidden)

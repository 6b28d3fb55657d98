"""An encoder in one file: a convolution, then the mean of every channel over the picture."""

from __future__ import annotations

from typing import Any

from flax import linen as nn

from brigade.core import Array
from brigade.nets import ChangingInputs, Encoder
from brigade.nets.convolution import Convolution
from brigade.nets.encoders import whole_pictures


class Pooled(Encoder):
    """Sees which things are next to each other, but not where."""

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        features = nn.relu(Convolution(64, 3, self.dtype)(whole_pictures(obs)))
        pooled = features.mean((1, 2)).reshape(*batch, -1)
        return self.layers(pooled, task_id, self.hidden)

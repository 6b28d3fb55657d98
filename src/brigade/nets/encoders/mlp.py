"""The multilayer perceptron."""

from __future__ import annotations

from typing import Any, ClassVar

from flax import linen as nn

from brigade.core import Array
from brigade.nets.encoders import Encoder
from brigade.nets.inputs import ChangingInputs


class MLP(Encoder):
    """Fully connected layers on the flattened observation."""

    flattens: ClassVar[bool] = True

    @nn.compact
    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, *observation] -> [*batch, features]."""
        x = obs if isinstance(obs, ChangingInputs) else obs.reshape(*batch, -1)
        return self.layers(x, task_id, self.hidden)

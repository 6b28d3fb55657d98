"""Encoders: from an observation to a feature vector, one file each.

A new one subclasses `Encoder` and has a name in the entry points `brigade.encoders`, or is named as
`path/to/file.py:Name`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
from flax import linen as nn

from brigade import registry
from brigade.core import Array
from brigade.nets.inputs import ChangingInputs
from brigade.nets.layers import Hidden


class Encoder(nn.Module):
    """The base class of encoders, and their settings.

    `num_tasks` is the size of the task one-hot that is added at the input, 0 for none.
    """

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"
    layer_norm: bool = True
    norm_last: bool = False
    num_tasks: int = 0
    dtype: Any = jnp.float32

    # Whether it flattens observations, so that those of several seats may be concatenated, and its
    # first matrix has a row per entry. If not, it is for pictures [height, width, channels], and
    # weights of several seeds are not batched: convolutions would become slow grouped ones.
    flattens: ClassVar[bool] = False

    @classmethod
    def check(cls, name: str, obs_shape: tuple[int, ...]) -> None:
        """Raise a one-line ValueError if it does not fit observations of this shape."""
        if not cls.flattens and len(obs_shape) != 3:
            raise ValueError(
                f"encoder {name} needs observations [height, width, channels], but here they are "
                f"{list(obs_shape)}; use encoder mlp"
            )

    def __call__(self, obs: Array | ChangingInputs, task_id: Array, batch: tuple[int, ...]) -> Any:
        """[*batch, *observation] -> [*batch, features]."""
        raise NotImplementedError

    def layers(self, x: Array | ChangingInputs, task_id: Array, sizes: tuple[int, ...]) -> Any:
        """Fully connected layers; the one-hot goes into the first."""
        for number, size in enumerate(sizes):
            tasks = self.num_tasks if number == 0 else 0
            x = Hidden(size, self.activation, self.layer_norm, self.norm_last, tasks, self.dtype)(
                x, task_id
            )
        return x


def whole_pictures(obs: Array | ChangingInputs) -> Array:
    """Observations [N, height, width, channels] as floats; those of type uint8 from 0 to 1."""
    pictures = obs.whole() if isinstance(obs, ChangingInputs) else obs
    pictures = pictures.reshape(-1, *pictures.shape[-3:])
    scale = 255.0 if pictures.dtype == jnp.uint8 else 1.0
    return pictures.astype(jnp.float32) / scale


def encoder_class(name: str) -> type[Encoder]:
    """The encoder with a registered name, or of a file of yours."""
    found: type[Encoder] = registry.get("encoders", name)
    if not (isinstance(found, type) and issubclass(found, Encoder)):
        raise ValueError(
            f"{name} is not an encoder; it must be a subclass of {Encoder.__module__}.Encoder"
        )
    return found

"""Settings that all networks have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from brigade.core.checks import at_least
from brigade.nets.encoders import encoder_class

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class NetworkSettings:
    """An encoder, perhaps a recurrent core, and the precision of both."""

    encoder: str = "mlp"
    """What turns observations into features (brigade list encoders), or path/to/file.py:Name."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the fully connected layers."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation function of the hidden layers."""
    layer_norm: bool = True
    """Layer norm in every fully connected layer, before the activation."""
    memory: Literal["none", "gru", "lstm"] = "none"
    """A recurrent core between encoder and heads, for partially observable games."""
    memory_size: int = 128
    """Units of the recurrent core."""
    precision: Precision = "auto"
    """Precision of the hidden layers; parameters, outputs, losses and optimiser are always float32.
    auto is bfloat16 on an accelerator and float32 on a CPU."""

    def __post_init__(self) -> None:
        if not self.hidden:
            raise ValueError("hidden is empty; give at least one layer size, e.g. 128")
        for size in self.hidden:
            at_least("hidden", size, 1)
        at_least("memory_size", self.memory_size, 1)

    @property
    def dtype(self) -> Any:
        """The type that `precision` means on this machine."""
        low = self.precision == "bfloat16"
        if self.precision == "auto":
            low = jax.default_backend() != "cpu"
        return jnp.bfloat16 if low else jnp.float32

    def largest_matrix(self, inputs: int) -> int:
        """Parameters of the largest matrix; that of a convolution sees few inputs at a time."""
        widths = list(self.hidden)
        if self.memory != "none":
            widths.append(self.memory_size)
        first = inputs if encoder_class(self.encoder).flattens else 1
        before = [first, *widths[:-1]]
        return max(one * two for one, two in zip(before, widths, strict=True))

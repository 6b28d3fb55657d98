"""Networks as plain values, for policy files, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from brigade import registry
from brigade.core.checks import one_of

Network = TypeVar("Network", bound=nn.Module)


def plain_settings(network: nn.Module) -> dict[str, Any]:
    """The settings of a network as plain values."""
    fields: dict[str, Any] = {
        field.name: getattr(network, field.name)
        for field in dataclasses.fields(network)
        if field.name not in ("parent", "name")
    }
    return fields | {"dtype": jnp.dtype(fields["dtype"]).name, "hidden": list(fields["hidden"])}


def network_from(kind: type[Network], settings: Mapping[str, Any]) -> Network:
    """The network that `plain_settings` describes; bfloat16 becomes float32 on a CPU."""
    network = dict(settings)
    dtype = network.pop("dtype")
    for field in dataclasses.fields(kind):
        wanted = list if field.name == "hidden" else type(field.default)
        known = field.name in network and field.default is not dataclasses.MISSING
        if known and type(network[field.name]) is not wanted:
            raise ValueError(
                f"{field.name} is {network[field.name]!r}; it must be a {wanted.__name__}"
            )
    if network["encoder"] not in registry.names("encoders"):  # a file must not name code
        raise ValueError(
            registry.unknown_name("encoder", network["encoder"], registry.names("encoders"))
        )
    one_of("dtype", dtype, ("float32", "bfloat16"))
    low = dtype == "bfloat16" and jax.default_backend() != "cpu"
    network["hidden"] = tuple(network["hidden"])
    return kind(**network, dtype=jnp.bfloat16 if low else jnp.float32)

"""Continual backprop: hidden units of little use are born again, so that learning does not tire.

How active a unit is cannot be seen from here. The gradient of its outgoing weights stands in for
it: that is the mean over samples of the unit's activation times the error it feeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from flax.traverse_util import flatten_dict, unflatten_dict

from brigade.core import Array, ContinualMethod, Key
from brigade.core.checks import at_least, within

TINY = 1e-30
Path = tuple[str, ...]


class Wiring(NamedTuple):
    """Where the parameters of a hidden layer are."""

    layer: Path
    feeds: tuple[Path, ...]  # kernels whose first rows are the layer's outgoing weights

    @property
    def kernel(self) -> Path:
        """The incoming weights [inputs, units]."""
        return (*self.layer, "Linear_0", "kernel")

    @property
    def born_with(self) -> dict[Path, float]:
        """What else a unit has, and its initial value."""
        return {
            (*self.layer, "Linear_0", "bias"): 0.0,
            (*self.layer, "LayerNorm_0", "scale"): 1.0,
            (*self.layer, "LayerNorm_0", "bias"): 0.0,
        }


class Units(struct.PyTreeNode):
    """What is known of the units of one layer."""

    utility: Array  # [units]
    age: Array  # [units] int32: updates since birth
    due: Array  # replacements that are owed, in fractions of a unit
    scale: Array  # deviation of the incoming weights at the beginning


class Census(struct.PyTreeNode):
    """The units of all layers."""

    layers: tuple[Units, ...]
    key: Key


@dataclass(frozen=True)
class CBP(ContinualMethod):
    """Now and then the least useful of the mature units of a layer is replaced."""

    replacement_rate: float = 1e-4
    """Share of the mature units of a layer that is replaced per gradient step."""
    maturity: int = 1000
    """Gradient steps for which a new unit is safe."""
    decay: float = 0.99
    """How slowly the running mean of a unit's utility forgets, per gradient step."""

    def __post_init__(self) -> None:
        within("replacement_rate", self.replacement_rate, 0.0, 1.0)
        at_least("maturity", self.maturity, 0)
        within("decay", self.decay, 0.0, 1.0)

    def init(self, params: Any, batch: Any) -> Census:
        flat = flatten_dict(params)
        kernels = [flat[wiring.kernel] for wiring in wirings(params)]
        if not kernels:
            raise ValueError(
                f"continual backprop finds no fully connected layer (Hidden_*) that feeds another "
                f"or a head in {', '.join(params)}"
            )
        # The trainer's own keys arrive with the first `observe`.
        return Census(tuple(newborn(kernel) for kernel in kernels), jax.random.key(0))

    def observe(self, mem: Census, batch: Any, key: Key) -> Census:
        return mem.replace(key=key)

    def after_update(self, mem: Census, old: Any, new: Any, grads: Any) -> tuple[Census, Any]:
        flat, slopes, wires = flatten_dict(new), flatten_dict(grads), wirings(new)
        key, draw_key = jax.random.split(mem.key)
        judged = [
            self.judged(units, outgoing(flat, wiring), outgoing(slopes, wiring))
            for units, wiring in zip(mem.layers, wires, strict=True)
        ]
        chosen = [self.chosen(units) for units in judged]

        def renewed() -> Any:
            edited = flat
            keys = jax.random.split(draw_key, len(wires))
            for wiring, units, who, key in zip(wires, judged, chosen, keys, strict=True):
                edited = reborn(edited, wiring, who, units.scale, key)
            return unflatten_dict(edited)

        anyone = jnp.any(jnp.concatenate(chosen))
        params = jax.lax.cond(anyone, renewed, lambda: new)
        layers = tuple(after_births(u, who) for u, who in zip(judged, chosen, strict=True))
        return Census(layers, key), params

    def judged(self, units: Units, weights: Array, slopes: Array) -> Units:
        """One update older: utility is the reach of a unit times how active it seems."""
        active = jnp.abs(slopes).sum(1)
        active = active / jnp.maximum(active.mean(), TINY)  # whatever the size of the gradient
        utility = self.decay * units.utility + (1 - self.decay) * jnp.abs(weights).sum(1) * active
        owed = self.replacement_rate * jnp.sum(units.age + 1 > self.maturity)
        return units.replace(utility=utility, age=units.age + 1, due=units.due + owed)

    def chosen(self, units: Units) -> Array:
        """[units] bool: the least useful mature ones, as many as are owed in full."""
        mature = units.age > self.maturity
        # A running mean that began at 0 is too small for the young.
        utility = units.utility / jnp.maximum(1 - self.decay**units.age, TINY)
        rank = jnp.argsort(jnp.argsort(jnp.where(mature, utility, jnp.inf)))
        return mature & (rank < jnp.floor(units.due))


def wirings(params: Any) -> list[Wiring]:
    """The hidden layers of all trunks and what they feed."""
    found = []
    for trunk, part in params.items():
        if not isinstance(part, Mapping):
            continue
        names = [name for name in part if name.startswith("Hidden_")]
        layers: list[Path] = [(trunk, name) for name in sorted(names, key=number_of)]
        for layer, following in pairwise(layers):
            found.append(Wiring(layer, ((*following, "Linear_0", "kernel"),)))
        heads = heads_of(trunk, params)
        if layers and heads:
            found.append(Wiring(layers[-1], tuple((head, "kernel") for head in heads)))
    return found


def number_of(name: str) -> int:
    """The number at the end of a layer's name."""
    return int(name.rpartition("_")[2])


def heads_of(trunk: str, params: Mapping[str, Any]) -> list[str]:
    """The heads on a trunk: its namesake, or all there are on a shared one."""
    stem = trunk.removesuffix("trunk")
    if f"{stem}core" in params:
        return []  # a recurrent core comes between: the last layer's outgoing weights are there
    own = f"{stem}head"
    return [own] if own in params else [name for name in params if name.endswith("_head")]


def newborn(kernel: Array) -> Units:
    """All units of a layer at the beginning."""
    size = kernel.shape[1]
    nothing = jnp.float32(0.0)
    return Units(jnp.zeros(size), jnp.zeros(size, jnp.int32), nothing, jnp.std(kernel))


def outgoing(flat: Mapping[Path, Array], wiring: Wiring) -> Array:
    """[units, everything they feed]."""
    units = flat[wiring.kernel].shape[1]
    return jnp.concatenate([flat[path][:units] for path in wiring.feeds], axis=1)


def reborn(
    flat: Mapping[Path, Array], wiring: Wiring, who: Array, scale: Array, key: Key
) -> dict[Path, Array]:
    """New incoming weights, no outgoing ones.

    The network's answers change by the loss of `who` and, with layer norm, by what the new ones do
    to the layer's mean and variance.
    """
    kernel = flat[wiring.kernel]
    drawn = scale * jax.random.normal(key, kernel.shape)
    edits = {wiring.kernel: jnp.where(who, drawn, kernel)}
    for path, value in wiring.born_with.items():
        if path in flat:
            edits[path] = jnp.where(who, value, flat[path])
    for path in wiring.feeds:
        weights = flat[path]
        rows = jnp.pad(who, (0, weights.shape[0] - who.size))  # one-hots of tasks come after units
        edits[path] = jnp.where(rows[:, None], 0.0, weights)
    return {**flat, **edits}


def after_births(units: Units, who: Array) -> Units:
    """The new ones start at nothing."""
    return units.replace(
        utility=jnp.where(who, 0.0, units.utility),
        age=jnp.where(who, 0, units.age),
        due=units.due - who.sum(),
    )

"""Continual backprop: hidden units of low utility are reinitialised, to keep the network plastic.

Methods do not see activations. The gradient of a unit's outgoing weights is used instead: the mean
over samples of the unit's activation times the error of the units it feeds.

Reference: S. Dohare and others, *Loss of plasticity in deep continual learning*, Nature 2024.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct
from flax.traverse_util import flatten_dict, unflatten_dict

from brigade.core import Array, ContinualMethod, HiddenLayer, Key, Learner
from brigade.core.checks import at_least, within

TINY = 1e-30
Path = tuple[str, ...]


class Units(struct.PyTreeNode):
    """Statistics of the units of one layer."""

    utility: Array  # [units]
    age: Array  # [units] int32: gradient steps since initialisation
    due: Array  # [] f32: units due for reinitialisation; fractions accumulate
    scale: Array  # standard deviation of the initial incoming weights


class CBPState(struct.PyTreeNode):
    """The units of all layers, and the paths to their parameters."""

    layers: tuple[Units, ...]
    key: Key
    where: tuple[HiddenLayer, ...] = struct.field(pytree_node=False, default=())


@dataclass(frozen=True)
class CBP(ContinualMethod):
    """Continual backprop: reinitialises a few units of low utility."""

    display_name = "CBP"
    ends_matter: ClassVar[bool] = False
    replacement_rate: float = 1e-4
    """Share of a layer's mature units to reinitialise per gradient step."""
    maturity: int = 1000
    """Gradient steps for which a new unit is protected from reinitialisation."""
    decay: float = 0.99
    """Decay per gradient step of the running mean of a unit's utility."""

    def __post_init__(self) -> None:
        within("replacement_rate", self.replacement_rate, 0.0, 1.0)
        at_least("maturity", self.maturity, 0)
        within("decay", self.decay, 0.0, 1.0)

    def start(self, learner: Learner, params: Any, batch: Any) -> CBPState:
        flat, groups = flatten_dict(params), learner.groups(params)
        where = groups.layers
        if not where:
            why = groups.why_no_layers or (
                "there is no fully connected layer that feeds another or a head in "
                f"{', '.join(params)}"
            )
            raise ValueError(f"continual backprop cannot work with this network: {why}")
        units = tuple(fresh_units(flat[layer.kernel]) for layer in where)
        # Replaced by the trainer's keys from the first `observe` on; until then every seed has its
        # own, since its parameters differ.
        bits = jax.lax.bitcast_convert_type(flat[where[0].kernel].sum(), jnp.uint32)
        return CBPState(units, jax.random.key(bits), where)

    def observe(self, mem: CBPState, batch: Any, key: Key) -> CBPState:
        return mem.replace(key=key)

    def after_update(self, mem: CBPState, old: Any, new: Any, grads: Any) -> tuple[CBPState, Any]:
        flat, flat_grads, where = flatten_dict(new), flatten_dict(grads), mem.where
        key, init_key = jax.random.split(mem.key)
        updated = [
            self.updated(units, outgoing(flat, layer), outgoing(flat_grads, layer))
            for units, layer in zip(mem.layers, where, strict=True)
        ]
        chosen = [self.chosen(units) for units in updated]

        def reset_units() -> Any:
            edited = flat
            keys = jax.random.split(init_key, len(where))
            for layer, units, mask, key in zip(where, updated, chosen, keys, strict=True):
                edited = reinitialised(edited, layer, mask, units.scale, key)
            return unflatten_dict(edited)

        any_chosen = jnp.any(jnp.concatenate(chosen))
        params = jax.lax.cond(any_chosen, reset_units, lambda: new)
        layers = tuple(after_reset(u, mask) for u, mask in zip(updated, chosen, strict=True))
        return CBPState(layers, key, where), params

    def updated(self, units: Units, weights: Array, grads: Array) -> Units:
        """Statistics after a gradient step; `weights` and `grads` are of the outgoing weights.

        Utility is the running mean of a unit's activity times the size of its outgoing weights.
        """
        activity = jnp.abs(grads).sum(1)
        activity = activity / jnp.maximum(activity.mean(), TINY)  # independent of gradient scale
        utility = self.decay * units.utility + (1 - self.decay) * jnp.abs(weights).sum(1) * activity
        due = self.replacement_rate * jnp.sum(units.age + 1 > self.maturity)
        return units.replace(utility=utility, age=units.age + 1, due=units.due + due)

    def chosen(self, units: Units) -> Array:
        """[units] bool: the mature units with the lowest utility, as many as are due."""
        mature = units.age > self.maturity
        # Correct the bias of a running mean that started at 0.
        utility = units.utility / jnp.maximum(1 - self.decay**units.age, TINY)
        rank = jnp.argsort(jnp.argsort(jnp.where(mature, utility, jnp.inf)))
        return mature & (rank < jnp.floor(units.due))


def fresh_units(kernel: Array) -> Units:
    """The units of a layer at initialisation."""
    size = kernel.shape[1]
    nothing = jnp.float32(0.0)
    return Units(jnp.zeros(size), jnp.zeros(size, jnp.int32), nothing, jnp.std(kernel))


def outgoing(flat: Mapping[Path, Array], layer: HiddenLayer) -> Array:
    """The outgoing weights [units, all units they feed]."""
    units = flat[layer.kernel].shape[1]
    return jnp.concatenate([flat[path][:units] for path in layer.feeds], axis=1)


def reinitialised(
    flat: Mapping[Path, Array], layer: HiddenLayer, chosen: Array, scale: Array, key: Key
) -> dict[Path, Array]:
    """Parameters with new incoming and zero outgoing weights for the `chosen` units.

    The network's outputs change because the old units are gone and, with layer norm, because the
    new ones affect the layer's mean and variance.
    """
    kernel = flat[layer.kernel]
    sampled = scale * jax.random.normal(key, kernel.shape)
    edits = {layer.kernel: jnp.where(chosen, sampled, kernel)}
    for path, value in layer.fresh:
        edits[path] = jnp.where(chosen, value, flat[path])
    for path in layer.feeds:
        weights = flat[path]
        rows = jnp.pad(chosen, (0, weights.shape[0] - chosen.size))  # the rest are task one-hots
        edits[path] = jnp.where(rows[:, None], 0.0, weights)
    return {**flat, **edits}


def after_reset(units: Units, chosen: Array) -> Units:
    """Statistics after the `chosen` units were reinitialised."""
    return units.replace(
        utility=jnp.where(chosen, 0.0, units.utility),
        age=jnp.where(chosen, 0, units.age),
        due=units.due - chosen.sum(),
    )

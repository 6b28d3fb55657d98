"""Parallel seeds: sharded over devices, and batched or run one after another on each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec

from brigade.core.trees import pick


def over_seeds(
    one_seed: Callable[..., Any],
    shared: Any,
    *arguments: Any,
    devices: int | None = None,
    in_turn: bool = False,
) -> Any:
    """`one_seed(shared, *arguments)` for every seed: leaves of the arguments are [seeds, ...].

    Seeds are sharded over as many devices as divide their number evenly. With `in_turn`, a device
    runs its seeds one after another instead of in a batch.
    """
    seeds = jax.tree.leaves(arguments)[0].shape[0]
    available = min(devices or jax.device_count(), jax.device_count())
    used = max(n for n in range(1, available + 1) if seeds % n == 0)
    on_one_device = partial(_seeds_of_a_device, one_seed, in_turn)
    if used == 1:
        return on_one_device(shared, *arguments)
    per_seed, same = PartitionSpec("seeds"), PartitionSpec()
    sharded = jax.shard_map(
        on_one_device,
        mesh=Mesh(jax.devices()[:used], ("seeds",)),
        in_specs=(same, *[per_seed] * len(arguments)),
        out_specs=per_seed,
        check_vma=False,  # results differ by seed: nothing is replicated
    )
    return sharded(shared, *arguments)


def _seeds_of_a_device(
    one_seed: Callable[..., Any], in_turn: bool, shared: Any, *arguments: Any
) -> Any:
    """Batched on an accelerator, one after another on a CPU: small batched products are slow
    there."""
    seeds = jax.tree.leaves(arguments)[0].shape[0]
    if jax.default_backend() == "cpu" or (in_turn and seeds > 1):
        return jax.lax.map(lambda of_seed: one_seed(shared, *of_seed), arguments)
    if seeds > 1:
        return jax.vmap(partial(one_seed, shared))(*arguments)
    alone = one_seed(shared, *pick(arguments, 0))
    return jax.tree.map(lambda leaf: leaf[None], alone)

"""Seeds side by side: shared out over devices, and batched or taken in turn on each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec


def over_seeds(
    one_seed: Callable[..., Any], shared: Any, *arguments: Any, devices: int | None = None
) -> Any:
    """`one_seed(shared, *arguments)` for every seed: leaves of the arguments are [seeds, ...].

    Seeds need nothing of each other, so every device gets its equal share of them, as far as their
    number divides.
    """
    seeds = jax.tree.leaves(arguments)[0].shape[0]
    available = min(devices or jax.device_count(), jax.device_count())
    used = max(n for n in range(1, available + 1) if seeds % n == 0)
    on_one_device = partial(_seeds_of_a_device, one_seed)
    if used == 1:
        return on_one_device(shared, *arguments)
    per_seed, same = PartitionSpec("seeds"), PartitionSpec()
    share_out = jax.shard_map(
        on_one_device,
        mesh=Mesh(jax.devices()[:used], ("seeds",)),
        in_specs=(same, *[per_seed] * len(arguments)),
        out_specs=per_seed,
        check_vma=False,  # what a seed computes is its own: nothing is replicated
    )
    return share_out(shared, *arguments)


def _seeds_of_a_device(one_seed: Callable[..., Any], shared: Any, *arguments: Any) -> Any:
    """Batched on an accelerator. A CPU takes seeds in turn: small batched products are slow there,
    and a seed then computes bit for bit the same in any company."""
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda of_seed: one_seed(shared, *of_seed), arguments)
    if jax.tree.leaves(arguments)[0].shape[0] > 1:
        return jax.vmap(partial(one_seed, shared))(*arguments)
    alone = one_seed(shared, *jax.tree.map(lambda leaf: leaf[0], arguments))
    return jax.tree.map(lambda leaf: leaf[None], alone)

"""How cooks share their work, from the counts of what each seat did.

`events` [..., seat, kind] are counts per episode, `names` [kind] what they count. Results keep the
axes in front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats, ratio

USEFUL = ("placement_in_pot", "useful_plate_pickup", "soup_pickup", "delivery")
IDLE = ("stay", "idle_move", "idle_interact_counter", "idle_interact_empty")


def delivery_share(events: npt.ArrayLike, names: Sequence[str]) -> Floats:
    """[..., seat]: the part of all deliveries each seat made; nan where there was none."""
    return _shares(_count(events, names, ("delivery",)))


def role_collapse(events: npt.ArrayLike, names: Sequence[str]) -> Floats:
    """[...]: 0 when all seats do the same number of useful things, 1 when one does them all.

    (s - 1/n) / (1 - 1/n) for the largest share s of n seats; nan where nothing useful was done,
    or where there is one seat only.
    """
    shares = _shares(_count(events, names, USEFUL))
    even = 1.0 / shares.shape[-1]
    if even == 1.0:
        return np.full(shares.shape[:-1], np.nan)
    return np.asarray((shares.max(-1) - even) / (1.0 - even))


def idle_share(events: npt.ArrayLike, names: Sequence[str], steps: float) -> Floats:
    """[..., seat]: the part of an episode's `steps` in which a seat stayed or reached for nothing.

    The events know no vain interaction with something in hand, such as a plate at a pot that is
    not ready: those steps count as work.
    """
    if not steps > 0:
        raise ValueError(f"steps must be positive, got {steps}")
    return _count(events, names, IDLE) / steps


def _count(events: npt.ArrayLike, names: Sequence[str], wanted: Sequence[str]) -> Floats:
    table = np.asarray(events, dtype=np.float64)
    if table.ndim < 2 or table.shape[-1] != len(names):
        raise ValueError(f"events are [..., seat, {len(names)} kinds], got {table.shape}")
    missing = set(wanted) - set(names)
    if missing:
        raise ValueError(f"events do not tell of {', '.join(sorted(missing))}")
    return np.asarray(table[..., [list(names).index(name) for name in wanted]].sum(-1))


def _shares(counts: Floats) -> Floats:
    return ratio(counts, counts.sum(-1, keepdims=True))

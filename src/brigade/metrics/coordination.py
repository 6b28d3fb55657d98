"""How cooks share their work, from counts of events per seat.

`events` [..., seat, kind] are counts per episode and `names` [kind] their names. Results keep the
leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from brigade.metrics.result import Floats, ratio

USEFUL = ("placement_in_pot", "useful_plate_pickup", "soup_pickup", "delivery")
IDLE = ("stay", "idle_move", "idle_interact_counter", "idle_interact_empty")


def delivery_share(events: npt.ArrayLike, names: Sequence[str]) -> Floats:
    """[..., seat]: each seat's share of all deliveries; nan if there are none."""
    return _shares(_count(events, names, ("delivery",)))


def role_collapse(events: npt.ArrayLike, names: Sequence[str]) -> Floats:
    """[...]: 0 if all seats have the same number of useful events, 1 if one seat has them all.

    (s - 1/n) / (1 - 1/n) for the largest share s of n seats; nan if there are no useful events or
    only one seat.
    """
    shares = _shares(_count(events, names, USEFUL))
    even = 1.0 / shares.shape[-1]
    if even == 1.0:
        return np.full(shares.shape[:-1], np.nan)
    return np.asarray((shares.max(-1) - even) / (1.0 - even))


def idle_share(events: npt.ArrayLike, names: Sequence[str], steps: float) -> Floats:
    """[..., seat]: the share of an episode's `steps` in which a seat did nothing useful.

    That is: it stayed, walked into an obstacle, or interacted without effect. Interactions without
    effect while holding an item, such as a plate at a pot that is not ready, are not recorded as
    events, so these steps count as work.
    """
    if not steps > 0:
        raise ValueError(f"steps must be positive, got {steps}")
    return _count(events, names, IDLE) / steps


def _count(events: npt.ArrayLike, names: Sequence[str], wanted: Sequence[str]) -> Floats:
    counts = np.asarray(events, dtype=np.float64)
    if counts.ndim < 2 or counts.shape[-1] != len(names):
        raise ValueError(f"events must be [..., seat, {len(names)} kinds], got {counts.shape}")
    missing = set(wanted) - set(names)
    if missing:
        raise ValueError(f"events do not include {', '.join(sorted(missing))}")
    return np.asarray(counts[..., [list(names).index(name) for name in wanted]].sum(-1))


def _shares(counts: Floats) -> Floats:
    return ratio(counts, counts.sum(-1, keepdims=True))

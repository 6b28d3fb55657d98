"""What this machine has: how much memory can be filled at all."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container


@cache
def memory() -> int:
    """Bytes of memory of this machine, or of the container if it has less."""
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(here, int(CGROUP_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit
        return here


def size(amount: int) -> str:
    """Bytes with a unit: 16.8 MB."""
    power = min((len(str(amount)) - 1) // 3, 4)
    unit = ("bytes", "kB", "MB", "GB", "TB")[power]
    return f"{amount / 1000**power:.3g} {unit}"

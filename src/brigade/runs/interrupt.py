"""Ctrl-C: let the current update end, so that the run can be saved."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from brigade.train import Position, Progress

SAME_PRESS_SECONDS = 0.3  # signals closer together count as one


def until_ctrl_c(updates: Iterator[tuple[Progress, Position]]) -> Iterator[Any]:
    """Yield updates until Ctrl-C, which takes effect after the current update.

    Within an update the training state cannot be saved: the update overwrites its arrays. Pressed
    again, Ctrl-C stops at once. `timeout` and similar tools send their signal twice in a row, which
    counts as one press.
    """
    if threading.current_thread() is not threading.main_thread():  # only it receives signals
        yield from updates
        return
    pressed: float | None = None

    def on_signal(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed is not None and time.monotonic() - pressed > SAME_PRESS_SECONDS:
            signal.default_int_handler(number, frame)
        pressed = pressed or time.monotonic()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        for update in updates:
            yield update
            if pressed is not None:
                raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, before)

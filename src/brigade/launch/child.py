"""`python -m brigade.launch.child PARENT WORDS`: the command `brigade`, which ends with its parent.

A worker of a cluster that is killed must not leave a run behind: it would keep the lock of its
folder, and the worker that takes over could not continue it.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent dies; only Linux can."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        sys.exit("brigade: the worker is gone")


def hear_interrupts() -> None:
    """Ray blocks them in its workers, whose children inherit that; a run would not stop."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    hear_interrupts()
    sys.argv = ["brigade", *sys.argv[2:]]
    runpy.run_module("brigade", run_name="__main__")

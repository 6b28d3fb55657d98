"""The training state of a checkpoint on disk, written and read by Orbax.

Orbax reports a full disk in hundreds of lines and from several threads. Here it is an OSError.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import logging
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from brigade.machine import memory, size
from brigade.reading import DamagedError, first_line

ERROR_CODE = re.compile(r"os_error_code='(\d+)'")
FULL = "No space left on device"


def save_state(path: Path, state: Any) -> None:
    """Write a tree of arrays into a new folder."""
    import orbax.checkpoint as ocp

    with quiet() as said:
        try:
            with ocp.PyTreeCheckpointer() as checkpointer:
                checkpointer.save(path.absolute(), state)
        except OSError:
            raise
        except Exception as error:
            if code := disk_error(f"{error} {said.getvalue()}"):
                raise OSError(code, os.strerror(code), str(path)) from error
            error.add_note(said.getvalue())
            raise


def restore_state(path: Path) -> Any:
    """A state as dictionaries and lists of arrays."""
    import orbax.checkpoint as ocp

    with quiet():
        try:
            with ocp.PyTreeCheckpointer() as checkpointer:
                found = checkpointer.metadata(path.absolute())
                check_memory(found.item_metadata.tree)
                return checkpointer.restore(path.absolute())
        except DamagedError:
            raise
        except Exception as error:  # a stranger's file can make Orbax raise anything
            reason = f"{type(error).__name__}, {first_line(error)}"
            raise DamagedError(f"{path} cannot be read ({reason})") from error


def check_memory(tree: Any) -> None:
    """Refuse arrays that no memory holds, before any is reserved: files can promise anything."""
    import jax

    leaves = jax.tree.leaves(tree, is_leaf=lambda each: hasattr(each, "shape"))
    needed = sum(
        math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize
        for leaf in leaves
        if getattr(leaf, "shape", None) is not None and leaf.dtype is not None
    )
    if needed > memory():
        raise DamagedError(f"its arrays would fill {size(needed)}; this machine has less")


def disk_error(text: str) -> int:
    """The error number of the system in a message of Orbax; 0 if it is about something else."""
    if found := ERROR_CODE.search(text):
        return int(found[1])
    return errno.ENOSPC if FULL in text else 0


@contextlib.contextmanager
def quiet() -> Iterator[io.StringIO]:
    """Keep what Orbax and its threads print."""
    said, logs = io.StringIO(), [logging.getLogger(name) for name in ("absl", "asyncio")]
    disabled = [log.disabled for log in logs]
    with contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for log in logs:
            log.disabled = True
        try:
            yield said
        except Exception:
            gc.collect()  # tasks that failed with it complain when they are deleted
            ignore_late_threads()
            raise
        finally:
            for log, before in zip(logs, disabled, strict=True):
                log.disabled = before


@cache
def ignore_late_threads() -> None:
    """Say nothing of threads and tasks of Orbax that end after its error, in which they had a part.

    They find its event loop closed, or nobody who asks how they ended.
    """
    show = sys.unraisablehook

    def hook(problem: Any) -> None:
        if "Event loop is closed" not in str(problem.exc_value):
            show(problem)

    sys.unraisablehook = hook
    logging.getLogger("asyncio").addFilter(lambda row: "never retrieved" not in row.getMessage())

"""Whether the arrays of a record are what metrics expect, so that none fails later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from brigade.metrics.record import (
    EVENT_AXES,
    FEW_SHOT_ARRAYS,
    HELD_OUT_ARRAYS,
    HELD_OUT_AXES,
    RECORDED,
    SCORE_AXES,
    axes_name,
)

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
COUNTS = ("seeds", "steps_per_task", "earlier_ends", "repetitions")
NAMED = ("task_names", "partner_names", "seat_names")
NEEDED = ("score", "returns", "steps", "task_ends", *COUNTS, *NAMED)
TOGETHER = (
    ("events", "event_names"),
    FEW_SHOT_ARRAYS,
    (*HELD_OUT_ARRAYS, "held_out_names"),
)
MAX_STEPS = 2**62
MANY = 1_000_000  # repetitions of a sequence
NAMES = (*NAMED, "event_names", "held_out_names")


def find_problem(arrays: Arrays) -> str:
    """What is wrong with the arrays, so that no metric fails later; empty if nothing is."""
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        return f"the arrays {', '.join(missing)} are missing"
    for name in set(NEEDED) - set(NAMED) | {"baseline_steps", "baseline_score"} & set(arrays):
        if arrays[name].dtype.kind not in ("iu" if name in COUNTS else "fiu"):
            return f"{name} must contain numbers"
    for group in TOGETHER:
        if 0 < sum(name in arrays for name in group) < len(group):
            return f"{', '.join(group)} must be there together"
    for name, most in (("repetitions", MANY), ("steps_per_task", MAX_STEPS)):
        if arrays[name].shape or not 1 <= arrays[name] <= most:
            return f"{name} must be a number from 1 to {most}"
    ends = arrays["earlier_ends"]
    if ends.ndim != 1 or (ends.size and not (_increases(ends, 1) and ends[-1] < MAX_STEPS)):
        return "earlier_ends must be steps that increase"
    for name in (*NAMES, *map(axes_name, RECORDED)):
        if name in arrays and (arrays[name].dtype.kind != "U" or arrays[name].ndim != 1):
            return f"{name} must be a list of text"
    counts = [arrays[name].shape for name in ("steps", "task_ends", "seeds", "task_names")]
    if any(len(shape) != 1 for shape in counts) or counts[3] != counts[1]:
        return "steps, task_ends, task_names and seeds must be 1-D, with one name per task"
    shape = arrays["score"].shape
    if arrays["returns"].shape != shape:
        return f"returns must have the shape of score {shape}, got {arrays['returns'].shape}"
    if 0 in shape:
        return "it has no evaluation yet" if shape[:1] == (0,) else f"score is empty: shape {shape}"
    if not (_increases(arrays["steps"], 0) and _increases(arrays["task_ends"], 1)):
        return "steps and task_ends must be strictly increasing"
    return find_axes_problem(arrays)


def find_axes_problem(arrays: Arrays) -> str:
    """What is wrong with the axes: their names and lengths must match; empty if nothing is."""
    counts = {
        "eval": arrays["steps"].shape,
        "task": arrays["task_ends"].shape,
        "seed": arrays["seeds"].shape,
        "partner": arrays["partner_names"].shape,
        "seat": arrays["seat_names"].shape,
        "kind": arrays["event_names"].shape if "event_names" in arrays else None,
        "held_out": arrays["held_out_names"].shape if "held_out_names" in arrays else None,
    }
    wanted: dict[str, tuple[str, ...]]
    wanted = dict.fromkeys(("score", *FEW_SHOT_ARRAYS), ("eval", *SCORE_AXES))
    wanted |= dict.fromkeys(HELD_OUT_ARRAYS, ("eval", *HELD_OUT_AXES))
    wanted["events"] = ("eval", *EVENT_AXES)
    for name, needed in wanted.items():
        if name not in arrays:
            continue
        if arrays[name].dtype.kind not in "fiu":
            return f"{name} must contain numbers"
        axes, shape = arrays.get(axes_name(name), np.array([])).tolist(), arrays[name].shape
        if not set(needed) <= set(axes) or len(axes) != len(shape):
            return f"{name} must be [{', '.join(needed)}], got shape {shape}"
        for axis, length in zip(axes, shape, strict=True):
            if counts.get(axis, (length,)) != (length,):
                return (
                    f"axis {axis} of {name} has length {length}, which does not match other arrays"
                )
    horizon = arrays.get("horizon", np.array(1))
    if (
        ("events" in arrays and (arrays["events"].dtype.kind != "f" or "horizon" not in arrays))
        or horizon.shape != ()
        or horizon.dtype.kind not in "iu"
        or horizon < 1
    ):
        return "events must be numbers, with one name per kind and a horizon"
    return ""


def _increases(values: npt.NDArray[Any], least: int) -> bool:
    if not values.size:
        return False
    return bool(np.isfinite(values).all() and values[0] >= least and (np.diff(values) > 0).all())

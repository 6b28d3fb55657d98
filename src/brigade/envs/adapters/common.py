"""What the adapters share: tasks by index, spaces, and one seat's part of a timestep."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Environment, TaskSequence, TimeStep
from brigade.core.types import State, Task

Render = Callable[[State, Task], np.ndarray]
Made = TypeVar("Made")


def missing_package(package: str) -> str:
    """The error message if an adapter's package is not installed."""
    return f"this adapter needs {package}: pip install 'brigade-rl[{package}]'"


def agent_names(num_agents: int) -> list[str]:
    """The names of the seats, as in JaxMARL."""
    return [f"agent_{seat}" for seat in range(num_agents)]


def as_tasks(task: Task | TaskSequence) -> TaskSequence:
    """A sequence of tasks; a single task becomes task 0 and keeps its id."""
    if isinstance(task, TaskSequence):
        return task
    return TaskSequence(
        jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], task), ("task",), steps=0
    )


def check_task_index(index: int, num_tasks: int) -> int:
    """Reject an index out of range; a JAX array would silently clamp it."""
    try:
        index = operator.index(index)
    except TypeError:
        raise TypeError(f"task is {index!r}; use an integer from 0 to {num_tasks - 1}") from None
    if not 0 <= index < num_tasks:
        raise IndexError(f"there is no task {index}; use 0 to {num_tasks - 1}")
    return index


def chosen_task(options: Mapping[str, Any] | None, tasks: TaskSequence, current: int) -> int:
    """The task index in `reset(options={"task": index})`, or the current one."""
    return check_task_index((options or {}).get("task", current), len(tasks))


def observation_space(box: Callable[..., Made], env: Environment, task: Task) -> Made:
    """The space of one seat's observations, a `box`, without computing any."""
    _, now = jax.eval_shape(lambda: env.reset(jax.random.key(0), task))
    seen = now.view.obs
    return box(*bounds(seen.dtype), seen.shape[1:], seen.dtype)


def bounds(dtype: Any) -> tuple[float, float]:
    """The smallest and largest value of a type; environments declare no tighter bounds."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return 0, 1
    if np.issubdtype(kind, np.integer):
        limits = np.iinfo(kind)
        return int(limits.min), int(limits.max)
    return -np.inf, np.inf


def drawing(render: Render | None) -> dict[str, Any]:
    """What an environment's metadata say of its pictures."""
    return {"render_modes": ["rgb_array"] if render else [], "render_fps": 8}


def public(now: TimeStep) -> TimeStep:
    """The timestep without the privileged state, which need not be copied to the host."""
    return now.replace(view=now.view.replace(state=None))


def seat_info(now: TimeStep, seat: int) -> dict[str, Any]:
    """One seat's part of the info of a NumPy timestep, and its action mask."""
    seats = len(now.reward)
    info: dict[str, Any] = {"action_mask": np.array(now.view.avail[seat], np.int8)}
    for name, value in now.info.items():
        array = np.asarray(value)
        own = array[seat] if array.shape[:1] == (seats,) else array
        info[name] = own.item() if own.ndim == 0 else np.array(own)
    return info


def made_once(make: Callable[..., Made], *parts: Any) -> Made:
    """`make(*parts)`, cached, so that many copies of an environment compile once."""
    try:
        hash(parts)
    except TypeError:  # a policy that holds arrays
        return make(*parts)
    return _made(make, parts)


@lru_cache(maxsize=64)
def _made(make: Callable[..., Made], parts: tuple[Any, ...]) -> Made:
    return make(*parts)

"""How a Gymnasium environment is made, in this process or in one of its own, which needs no JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from brigade import registry


def maker(id: str, horizon: int | None = None, **more: Any) -> Callable[[], gymnasium.Env]:
    """A function that makes the environment, with episodes of at most `horizon` steps."""
    if ".py:" not in id:
        return lambda: gymnasium.make(id, max_episode_steps=horizon, **more)

    def make() -> gymnasium.Env:
        env: gymnasium.Env = registry.from_file(id)(**more)
        return env if horizon is None else gymnasium.wrappers.TimeLimit(env, horizon)

    return make

"""Films: one episode as pictures, on the device or of a simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from brigade.core import Acting, Environment, Key, Simulator
from brigade.envs.gif import save_gif
from brigade.errors import UserError
from brigade.train.host import film_on_host
from brigade.train.play import film
from brigade.train.players import Players


class Film(NamedTuple):
    """An episode of one table."""

    frames: Any  # RGB pictures; None if the game cannot be drawn
    frames_per_second: int
    score: float
    returns: np.ndarray  # [seats]

    def save(self, path: Path) -> None:
        """Write a GIF."""
        if self.frames is None:
            raise UserError("this game cannot be filmed: its environment has no frames()")
        save_gif(path, self.frames, self.frames_per_second)


def film_episode(
    env: Environment,
    players: Players,
    acting: Acting,
    task: Any,
    key: Key,
    tables: int = 1,
    table: int = 0,
    greedy: bool = False,
) -> Film:
    """Every table of a seating plays an episode; one of them is filmed."""
    if not env.traced:
        played = film_on_host(
            cast(Simulator, env), players, acting, task, key, tables, table, greedy
        )
        return Film(played[0], env.frames_per_second, *played[1:])
    seated = players.take_seats(acting)
    states, steps = film(env, players, seated, key, task, tables, table, greedy)
    frames, score = env.frames(states, task), float(steps.info["score"][-1])
    return Film(frames, env.frames_per_second, score, np.asarray(steps.reward.sum(0)))

"""Films of an ego with some of its partners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from brigade.core import Acting, Environment, Seating
from brigade.envs.overcooked import save_gif
from brigade.partners.files import Policies
from brigade.train.play import film
from brigade.train.players import Players


def save_film(
    env: Environment, task: Any, ego: Policies, partner: Policies, path: Path, seed: int = 0
) -> float:
    """Record an episode of an ego on seat 0 with a partner; returns the ego's return."""
    players = Players(ego.policy, partner.cast().groups, own_seats=1)
    params = jax.tree.map(lambda x: x[0], ego.params)
    seating = Seating(jax.numpy.zeros((1, 2), jax.numpy.int32), jax.numpy.array([[True, False]]))
    seated = players.take_seats(Acting(params, (partner.params,), seating))

    states, steps = film(env, players, seated, jax.random.key(seed), task, tables=1)
    frames = env.frames(states, task)
    save_gif(path, frames, env.frames_per_second)
    return float(steps.reward[:, 0].sum())

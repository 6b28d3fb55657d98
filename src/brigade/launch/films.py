"""Films of an ego with some of its partners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Acting, Environment, Seating
from brigade.partners.files import Policies
from brigade.train.films import film_episode
from brigade.train.players import Players


def save_film(
    env: Environment, task: Any, ego: Policies, partner: Policies, path: Path, seed: int = 0
) -> float:
    """Record an episode of an ego on seat 0 with a partner; returns the ego's return."""
    players = Players(ego.policy, partner.cast().groups, own_seats=1)
    params = jax.tree.map(lambda x: x[0], ego.params)
    seating = Seating(jnp.zeros((1, 2), jnp.int32), jnp.array([[True, False]]))
    acting = Acting(params, (partner.params,), seating)
    played = film_episode(env, players, acting, task, jax.random.key(seed))
    played.save(path)
    return float(played.returns[0])

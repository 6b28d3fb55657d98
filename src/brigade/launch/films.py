"""Films of an ego with some of its partners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from brigade.core import Acting, Environment, Seating
from brigade.envs.overcooked import save_gif
from brigade.partners.files import Policies
from brigade.train.collect import RolloutState, start_games, step_all
from brigade.train.players import Players


def save_film(
    env: Environment, task: Any, ego: Policies, partner: Policies, path: Path, seed: int = 0
) -> float:
    """Record an episode of an ego on seat 0 with a partner; returns the ego's return."""
    players = Players(ego.policy, partner.cast().groups, own_seats=1)
    params = jax.tree.map(lambda x: x[0], ego.params)
    seating = Seating(jax.numpy.zeros((1, 2), jax.numpy.int32), jax.numpy.array([[True, False]]))
    seated = players.take_seats(Acting(params, (partner.params,), seating))

    def step(state: RolloutState, key: Any) -> tuple[RolloutState, Any]:
        act_key, step_key = jax.random.split(key)
        action, memory, _ = players.act(seated, state.memory, state.step.view, act_key)
        after, then = step_all(env, step_key, state.env_state, action, task)
        return state.replace(env_state=after, step=then, memory=memory), (after, then.reward)

    start_key, play_key = jax.random.split(jax.random.key(seed))
    start = start_games(env, players, start_key, task, 1)
    keys = jax.random.split(play_key, env.horizon)
    _, (states, reward) = jax.jit(lambda start: jax.lax.scan(step, start, keys))(start)
    frames = env.frames(jax.tree.map(lambda x: x[:, 0], states), task)
    save_gif(path, frames, env.frames_per_second)
    return float(reward[:, 0, 0].sum())

"""Environment steps per second with random legal moves, observations computed.

    python bench/step_hanabi.py --num-envs 2048
    python bench/step_hanabi.py --num-envs 64 --compare

`--compare` runs JaxMARL's Hanabi (a development dependency) in the same process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from brigade.cli.bench import print_result
from brigade.core import Array, Key
from brigade.core.compile import jit
from brigade.core.trees import choose
from brigade.envs.hanabi import Hanabi
from brigade.runs.speed import Speed, speed_of
from brigade.train.play import reset_all, step_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--num-steps", type=int, default=200)
    parser.add_argument("--compare", action="store_true", help="JaxMARL beside it")
    args = parser.parse_args()

    steps = args.num_envs * args.num_steps
    ours = speed_with(rollout(args.players, args.num_envs, args.num_steps), steps)
    if args.compare:
        theirs = speed_with(jaxmarl_rollout(args.players, args.num_envs, args.num_steps), steps)
        print(f"jaxmarl: {theirs.steps_per_second:,.0f} steps/s")
    print_result("step_hanabi", vars(args), ours)


def speed_with(play: Callable[[Key], Any], steps: int) -> Speed:
    """The speed of a rollout."""
    return speed_of(lambda number: play(jax.random.key(number)), steps)


def random_moves(key: Key, legal: Array) -> Array:
    """One legal move per seat [num_envs, seats]."""
    return jnp.argmax(jax.random.uniform(key, legal.shape) * legal, axis=-1).astype(jnp.int32)


def rollout(players: int, num_envs: int, num_steps: int) -> Callable[[Key], Any]:
    """Random play of many games; those that end start again."""
    env = Hanabi(players=players)
    task = env.task()

    @jit
    def play(key: Key) -> Any:
        def step(loop: Any, key: Key) -> tuple[Any, Any]:
            state, now = loop
            act_key, step_key, reset_key = jax.random.split(key, 3)
            action = random_moves(act_key, now.view.avail)
            after = step_all(env, step_key, state, action, task)
            fresh = reset_all(env, reset_key, task, num_envs)
            after = choose(after[1].terminated, fresh, after)
            return after, (after[1].reward.sum(), after[1].view.obs.sum(dtype=jnp.int32))

        start = reset_all(env, key, task, num_envs)
        return jax.lax.scan(step, start, jax.random.split(key, num_steps))[1]

    return play


def jaxmarl_rollout(players: int, num_envs: int, num_steps: int) -> Callable[[Key], Any]:
    """The same work in JaxMARL, which starts games that end again by itself."""
    import jaxmarl

    env: Any = jaxmarl.make("hanabi", num_agents=players)

    @jax.jit
    def play(key: Key) -> Any:
        def step(state: Any, key: Key) -> tuple[Any, Any]:
            act_key, step_key = jax.random.split(key)
            legal = jax.vmap(env.get_legal_moves)(state)
            legal = jnp.stack([legal[name] for name in env.agents], axis=1)
            action = random_moves(act_key, legal)
            actions = {name: action[:, seat] for seat, name in enumerate(env.agents)}
            keys = jax.random.split(step_key, num_envs)
            obs, state, reward, _, _ = jax.vmap(env.step)(keys, state, actions)
            return state, (reward["agent_0"].sum(), sum(o.sum() for o in obs.values()))

        _, state = jax.vmap(env.reset)(jax.random.split(key, num_envs))
        return jax.lax.scan(step, state, jax.random.split(key, num_steps))[1]

    return play


if __name__ == "__main__":
    main()

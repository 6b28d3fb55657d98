"""Environment steps per second with random actions, observations computed.

    python bench/step_overcooked.py --level 1 --num-envs 2048
    python bench/step_overcooked.py --layout cramped_room --num-envs 64 --compare

`--compare` runs JaxMARL's Overcooked (a development dependency) in the same process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from brigade.benchmarks.meal import kitchens
from brigade.core import Key
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.train.collect import Loop, begin, reset_all, restart, step_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--level", default="1", help="generated kitchen of this level")
    parser.add_argument("--layout", help="a named layout instead, not padded")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--num-steps", type=int, default=400)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--compare", action="store_true", help="JaxMARL beside it (with --layout)")
    args = parser.parse_args()

    env, task = kitchen(args.level, args.layout)
    rows = {"brigade": measure(brigade_rollout(env, task, args.num_envs, args.num_steps), args)}
    if args.compare:
        rows["jaxmarl"] = measure(jaxmarl_rollout(args.layout, args.num_envs, args.num_steps), args)
    for name, row in rows.items():
        print(f"{name:8} {row['steps_per_second']:14,.0f} steps/s")
    print(json.dumps({"bench": "step_overcooked", "setting": vars(args)} | rows["brigade"]))


def kitchen(level: str, layout: str | None) -> tuple[Overcooked, Any]:
    """The environment and the task to step."""
    if layout is None:
        benchmark = kitchens(level)
        assert isinstance(benchmark.env, Overcooked)
        return benchmark.env, benchmark.sequence(0, 1, 1)[0]
    grid = LAYOUTS[layout]
    return Overcooked(height=len(grid), width=len(grid[0])), task_from_grid(grid)


Rollout = Callable[[Key], Any]


def brigade_rollout(env: Overcooked, task: Any, num_envs: int, num_steps: int) -> Rollout:
    """Random play with restarts; the observation sum keeps observations in the program."""

    @jax.jit
    def rollout(key: Key, task: Any) -> Any:
        def step(loop: Loop, key: Key) -> tuple[Loop, Any]:
            act_key, step_key, reset_key = jax.random.split(key, 3)
            action = jax.random.randint(act_key, (num_envs, env.num_agents), 0, env.num_actions)
            state, then = step_all(env, step_key, loop.env_state, action, task)
            fresh = reset_all(env, reset_key, task, num_envs)
            loop = restart(Loop(state, then, ()), then.truncated, *fresh)
            return loop, (then.reward.sum(), loop.step.view.obs.sum(dtype=jnp.int32))

        loop = begin(env, _no_policy, key, task, num_envs)
        return jax.lax.scan(step, loop, jax.random.split(key, num_steps))[1]

    return lambda key: rollout(key, task)


class _NoPolicy:
    def initial_carry(self, batch: tuple[int, ...]) -> tuple[()]:
        return ()


_no_policy: Any = _NoPolicy()


def jaxmarl_rollout(layout: str, num_envs: int, num_steps: int) -> Rollout:
    """The same work in JaxMARL, which has the layout compiled in."""
    import jaxmarl
    from jaxmarl.environments.overcooked import overcooked_layouts

    name = {"coordination_ring": "coord_ring", "asymmetric_advantages": "asymm_advantages"}
    env = jaxmarl.make("overcooked", layout=overcooked_layouts[name.get(layout, layout)])

    @jax.jit
    def rollout(key: Key) -> Any:
        def step(state: Any, key: Key) -> tuple[Any, Any]:
            act_key, step_key = jax.random.split(key)
            action = jax.random.randint(act_key, (num_envs, 2), 0, 6)
            actions = {"agent_0": action[:, 0], "agent_1": action[:, 1]}
            keys = jax.random.split(step_key, num_envs)
            obs, state, reward, _, _ = jax.vmap(env.step)(keys, state, actions)
            seen = sum(o.sum(dtype=jnp.int32) for o in obs.values())
            return state, (reward["agent_0"].sum(), seen)

        _, state = jax.vmap(env.reset)(jax.random.split(key, num_envs))
        return jax.lax.scan(step, state, jax.random.split(key, num_steps))[1]

    return rollout


def measure(rollout: Rollout, args: argparse.Namespace) -> dict[str, Any]:
    """Median over repetitions, after a warm-up that is the compilation."""
    began = time.perf_counter()
    jax.block_until_ready(rollout(jax.random.key(0)))
    compile_seconds = time.perf_counter() - began
    seconds = []
    for repetition in range(args.repetitions):
        began = time.perf_counter()
        jax.block_until_ready(rollout(jax.random.key(repetition + 1)))
        seconds.append(time.perf_counter() - began)
    return {
        "steps_per_second": args.num_envs * args.num_steps / statistics.median(seconds),
        "compile_seconds": compile_seconds,
        "device": jax.devices()[0].device_kind,
    }


if __name__ == "__main__":
    main()

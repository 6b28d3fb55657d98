"""Environment steps per second with random actions, observations computed.

    python bench/step_overcooked.py --level 1 --num-envs 2048
    python bench/step_overcooked.py --layout coordination_ring_multi --recipes multi
    python bench/step_overcooked.py --layout cramped_room --num-envs 64 --compare

`--compare` runs JaxMARL's Overcooked (a development dependency) in the same process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jax

from brigade.benchmarks.meal import KitchenSettings, kitchens
from brigade.cli.bench import environment_speed, print_result
from brigade.core import Environment, Key
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.envs.overcooked.env import RecipeKind
from brigade.runs.speed import Speed, speed_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--level", default="1", help="generated kitchen of this level")
    parser.add_argument("--layout", help="a named layout instead, not padded")
    parser.add_argument("--recipes", choices=("single", "multi"), default="single")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--num-steps", type=int, default=400)
    parser.add_argument("--compare", action="store_true", help="JaxMARL beside it (with --layout)")
    args = parser.parse_args()

    env, task = kitchen(args.level, args.layout, args.recipes)
    ours = environment_speed(env, task, args.num_envs, args.num_steps)
    if args.compare:
        theirs = jaxmarl_speed(args.layout, args.num_envs, args.num_steps)
        print(f"jaxmarl: {theirs.steps_per_second:,.0f} steps/s")
    print_result("step_overcooked", vars(args), ours)


def kitchen(
    level: str, layout: str | None, recipes: RecipeKind = "single"
) -> tuple[Environment, Any]:
    """The environment and the task to step."""
    if layout is None:
        benchmark = kitchens(level, settings=KitchenSettings(recipes=recipes))
        return benchmark.env, benchmark.sequence(0, 1, 1)[0]
    grid = LAYOUTS[layout]
    env = Overcooked(height=len(grid), width=len(grid[0]), recipes=recipes)
    return env, task_from_grid(grid)


def jaxmarl_speed(layout: str, num_envs: int, num_steps: int) -> Speed:
    """The same work in JaxMARL, which has the layout compiled in."""
    rollout = jaxmarl_rollout(layout, num_envs, num_steps)
    return speed_of(lambda number: rollout(jax.random.key(number)), num_envs * num_steps)


def jaxmarl_rollout(layout: str, num_envs: int, num_steps: int) -> Callable[[Key], Any]:
    """Random play of many environments."""
    import jaxmarl
    from jaxmarl.environments.overcooked import overcooked_layouts

    name = {"coordination_ring": "coord_ring", "asymmetric_advantages": "asymm_advantages"}
    env = jaxmarl.make("overcooked", layout=overcooked_layouts[name.get(layout, layout)])

    def rollout(key: Key) -> Any:
        def step(state: Any, key: Key) -> tuple[Any, Any]:
            act_key, step_key = jax.random.split(key)
            action = jax.random.randint(act_key, (num_envs, 2), 0, 6)
            actions = {"agent_0": action[:, 0], "agent_1": action[:, 1]}
            keys = jax.random.split(step_key, num_envs)
            obs, state, reward, _, _ = jax.vmap(env.step)(keys, state, actions)
            seen = [o.sum(0, dtype=o.dtype) for o in obs.values()]
            return state, (reward["agent_0"].sum(), seen)

        _, state = jax.vmap(env.reset)(jax.random.split(key, num_envs))
        return jax.lax.scan(step, state, jax.random.split(key, num_steps))[1]

    return jax.jit(rollout)


if __name__ == "__main__":
    main()

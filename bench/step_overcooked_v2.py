"""OvercookedV2: environment steps per second with random actions, observations computed.

    python bench/step_overcooked_v2.py --num-envs 64 --compare
    python bench/step_overcooked_v2.py --layout test_time_wide --view none --num-envs 1024

`--compare` runs JaxMARL's OvercookedV2 (a development dependency) with the same settings in the
same process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from brigade.cli.bench import environment_speed, print_result
from brigade.core import Key
from brigade.envs.overcooked_v2 import LAYOUTS, OvercookedV2, Task, task_from_kitchen
from brigade.envs.overcooked_v2.tasks import num_ingredients
from brigade.runs.speed import Speed, speed_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layout", choices=sorted(LAYOUTS), default="cramped_room_v2")
    parser.add_argument("--view", default="2", help="tiles that cooks see each way, or none")
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--num-steps", type=int, default=400)
    parser.add_argument("--compare", action="store_true", help="JaxMARL beside it")
    args = parser.parse_args()

    view = None if args.view == "none" else int(args.view)
    env, task = kitchen(args.layout, view)
    ours = environment_speed(env, task, args.num_envs, args.num_steps)
    if args.compare:
        theirs = jaxmarl_speed(args.layout, view, args.num_envs, args.num_steps)
        ratio = ours.steps_per_second / theirs.steps_per_second
        print(f"jaxmarl: {theirs.steps_per_second:,.0f} steps/s; ours is {ratio:.1f} times that")
    print_result("step_overcooked_v2", vars(args), ours)


def kitchen(layout: str, view: int | None) -> tuple[OvercookedV2, Task]:
    """The environment and the task to step."""
    task = task_from_kitchen(LAYOUTS[layout])
    height, width = task.tile.shape
    env = OvercookedV2(
        len(task.start), height, width, num_ingredients(np.asarray(task.tile)), view=view
    )
    return env, task


def jaxmarl_speed(layout: str, view: int | None, num_envs: int, num_steps: int) -> Speed:
    """The same work in JaxMARL, which has the layout compiled in."""
    rollout = jaxmarl_rollout(layout, view, num_envs, num_steps)
    return speed_of(lambda number: rollout(jax.random.key(number)), num_envs * num_steps)


def jaxmarl_rollout(
    layout: str, view: int | None, num_envs: int, num_steps: int
) -> Callable[[Key], Any]:
    """Random play of many environments."""
    from jaxmarl.environments.overcooked_v2.overcooked import OvercookedV2 as Theirs

    env = Theirs(
        layout=layout,
        agent_view_size=view,
        random_agent_positions=True,
        negative_rewards=True,
        sample_recipe_on_delivery=True,
    )

    def rollout(key: Key) -> Any:
        def step(state: Any, key: Key) -> tuple[Any, Any]:
            act_key, step_key = jax.random.split(key)
            action = jax.random.randint(act_key, (num_envs, len(env.agents)), 0, 6)
            actions = {agent: action[:, seat] for seat, agent in enumerate(env.agents)}
            keys = jax.random.split(step_key, num_envs)
            obs, state, reward, _, _ = jax.vmap(env.step)(keys, state, actions)
            seen = [o.sum(0, dtype=o.dtype) for o in obs.values()]
            return state, (reward["agent_0"].sum(), seen)

        _, state = jax.vmap(env.reset)(jax.random.split(key, num_envs))
        return jax.lax.scan(step, state, jax.random.split(key, num_steps))[1]

    return jax.jit(rollout)


if __name__ == "__main__":
    main()

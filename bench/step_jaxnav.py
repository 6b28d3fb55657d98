"""Environment steps per second with random actions, observations computed.

    python bench/step_jaxnav.py --num-envs 2048
    python bench/step_jaxnav.py --num-envs 64 --num-steps 100 --compare

`--compare` runs JaxMARL's JaxNav (a development dependency) in the same process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jax

from brigade.cli.bench import environment_speed, print_result
from brigade.core import Key
from brigade.envs.jaxnav import JaxNav, MapSpec, generate
from brigade.runs.speed import Speed, speed_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--side", type=int, default=7, help="height and width of the map")
    parser.add_argument(
        "--fill", type=float, default=0.3, help="share of inner cells that are wall"
    )
    parser.add_argument("--num-agents", type=int, default=2)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--num-steps", type=int, default=500)
    parser.add_argument("--compare", action="store_true", help="JaxMARL beside it")
    args = parser.parse_args()

    spec = MapSpec(args.side, args.side, args.fill, args.num_agents)
    env = JaxNav(args.num_agents, args.side, args.side)
    ours = environment_speed(env, generate(spec, 0), args.num_envs, args.num_steps)
    if args.compare:
        theirs = jaxmarl_speed(spec, args.num_envs, args.num_steps)
        print(f"jaxmarl: {theirs.steps_per_second:,.0f} steps/s")
    print_result("step_jaxnav", vars(args), ours)


def jaxmarl_speed(spec: MapSpec, num_envs: int, num_steps: int) -> Speed:
    """The same work in JaxMARL, on maps of the same size."""
    rollout = jaxmarl_rollout(spec, num_envs, num_steps)
    return speed_of(lambda number: rollout(jax.random.key(number)), num_envs * num_steps)


def jaxmarl_rollout(spec: MapSpec, num_envs: int, num_steps: int) -> Callable[[Key], Any]:
    """Random play of many environments; games that end start again, on another map."""
    import jaxmarl

    env = jaxmarl.make(
        "jaxnav",
        num_agents=spec.num_agents,
        act_type="Discrete",
        map_params={"map_size": (spec.width, spec.height), "fill": spec.fill},
    )

    def rollout(key: Key) -> Any:
        def step(state: Any, key: Key) -> tuple[Any, Any]:
            act_key, step_key = jax.random.split(key)
            action = jax.random.randint(act_key, (num_envs, spec.num_agents), 0, 15)
            actions = {name: action[:, seat] for seat, name in enumerate(env.agents)}
            keys = jax.random.split(step_key, num_envs)
            obs, state, reward, _, _ = jax.vmap(env.step)(keys, state, actions)
            return state, (reward["agent_0"].sum(), [o.sum(0) for o in obs.values()])

        _, state = jax.vmap(env.reset)(jax.random.split(key, num_envs))
        return jax.lax.scan(step, state, jax.random.split(key, num_steps))[1]

    return jax.jit(rollout)


if __name__ == "__main__":
    main()

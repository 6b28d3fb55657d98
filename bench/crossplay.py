"""Cross-play of several policies, all pairs, with the time to compile.

    python bench/crossplay.py
    python bench/crossplay.py --policies 16 --episodes 32

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import time

import jax

from brigade.benchmarks.overcooked import layout
from brigade.cli.bench import print_result
from brigade.core import Cast, Group
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.runs.speed import Speed
from brigade.train.crossplay import cross_play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--policies", type=int, default=16)
    parser.add_argument("--episodes", type=int, default=32, help="games of every pair (32)")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64])
    args = parser.parse_args()
    benchmark = layout()
    env, task = benchmark.env, benchmark.sequence(0, 1, 1)[0]
    settings = IPPO(PPOConfig(), NetworkConfig(hidden=tuple(args.hidden)))
    policy = settings.build(env, num_tasks=1, updates_per_task=1).policy
    params = jax.lax.map(policy.init, jax.random.split(jax.random.key(0), args.policies))
    names = tuple(str(number) for number in range(args.policies))
    cast = Cast((Group(policy, args.policies),), (params,), names)
    seconds = []
    for number in range(2):
        began = time.perf_counter()
        cross_play(env, task, cast, args.episodes, jax.random.key(number))
        seconds.append(time.perf_counter() - began)
    print(f"first time, compiling included: {seconds[0]:.1f} s; then {seconds[1]:.1f} s")
    steps = args.policies**2 * args.episodes * env.horizon
    speed = Speed(steps / seconds[1], seconds[0] - seconds[1])
    print_result("crossplay", vars(args), speed)


if __name__ == "__main__":
    main()

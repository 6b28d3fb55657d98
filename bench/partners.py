"""Rollouts with a pool of partners of one architecture: one batched call against one call each.

    python bench/partners.py --num-envs 2048
    python bench/partners.py --partners 64 --num-envs 128 --num-steps 50

Every table of environments has a partner of its own; both ways play the same games with the same
parameters. The last line is one JSON object, the speed that of the batched call.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from brigade.benchmarks.overcooked import layout
from brigade.cli.bench import print_result
from brigade.core import Acting, Array, Group, Key, Policy, Seating, View
from brigade.core.compile import jit
from brigade.learners import IPPO, NetworkConfig, PPOConfig
from brigade.runs.speed import Speed, speed_of
from brigade.train import DeviceSource, Players


@dataclass(frozen=True)
class OneByOne(Policy):
    """All partners as one policy that calls each for its own block of environments."""

    policy: Policy
    partners: int

    def initial_carry(self, batch: tuple[int, ...]) -> Any:
        """Of partners without a memory."""
        return self.policy.initial_carry(batch)

    def act(
        self, params: Any, carry: Any, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Any, dict[str, Array]]:
        """A call for every partner."""
        size = view.active.shape[0] // self.partners
        moves = []
        for number, each in enumerate(jax.random.split(key, self.partners)):
            own = jax.tree.map(lambda x, n=number: x[n], params)
            block = jax.tree.map(lambda x, n=number: x[n * size : (n + 1) * size], view)
            moves.append(self.policy.act(own, carry, block, each)[0])
        return jnp.concatenate(moves), carry, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--partners", type=int, default=64)
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--num-steps", type=int, default=400)
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 128])
    args = parser.parse_args()
    batched, one_by_one, both = (
        measure(args, which) for which in ("batched", "one by one", "nobody")
    )
    print(f"one call each: {one_by_one.steps_per_second:,.0f} steps/s")
    print(f"no partners: {both.steps_per_second:,.0f} steps/s")
    # What partners cost is what a rollout takes beyond one without them.
    own = 1 / both.steps_per_second
    ratio = (1 / one_by_one.steps_per_second - own) / (1 / batched.steps_per_second - own)
    print(f"partners alone: {ratio:.1f} times as fast in one call as in {args.partners}")
    print_result("partners", vars(args), batched)


def measure(args: argparse.Namespace, which: str) -> Speed:
    """Steps per second of rollouts of one kind."""
    benchmark = layout()
    env, task = benchmark.env, benchmark.sequence(0, 1, 1)[0]
    settings = IPPO(PPOConfig(), NetworkConfig(hidden=tuple(args.hidden)))
    policy = settings.build(env, num_tasks=1, updates_per_task=1).policy
    learner = policy.init(jax.random.key(0))
    pool = jax.lax.map(policy.init, jax.random.split(jax.random.key(1), args.partners))
    tables = args.partners
    member = jnp.stack([jnp.zeros(tables, jnp.int32), jnp.arange(tables, dtype=jnp.int32)], 1)
    seating = Seating(member, jnp.broadcast_to(jnp.array([True, False]), (tables, 2)))
    if which == "batched":
        group, params = Group(policy, args.partners), pool
    elif which == "one by one":
        one = OneByOne(policy, args.partners)
        group, params = Group(one), jax.tree.map(lambda x: x[None], pool)
        seating = seating.replace(member=jnp.zeros_like(member))
    players = Players(policy, () if which == "nobody" else (group,), 0 if which == "nobody" else 1)
    source = DeviceSource(
        env, players, args.num_envs, args.num_steps, 1 if which == "nobody" else tables
    )
    acting = Acting(learner) if which == "nobody" else Acting(learner, (params,), seating)
    state = source.start(jax.random.key(2), task)
    rollout = jit(lambda acting, key: source.next(state, acting, task, key)[1])
    steps = args.num_envs * args.num_steps
    return speed_of(lambda number: rollout(acting, jax.random.key(number)), steps)


if __name__ == "__main__":
    main()

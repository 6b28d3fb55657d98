"""Acting with a long context: milliseconds per step of 20 games, with a cache of keys and values.

    python bench/context.py
    python bench/context.py --size small --contexts 160

Once as a plain loop of the policy, once as evaluations play: games of 20 tasks side by side, with
contexts that outlive episodes. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.cli.plan import device
from brigade.core import Round
from brigade.envs.dark_room import DarkRoom, rooms
from brigade.learners.in_context import AD, ContextNetworkConfig
from brigade.methods.ft import FineTuning
from brigade.nets.context import ContextPolicy
from brigade.train import Evaluator, Players

STEPS, EPISODES = 100, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", default="medium", choices=("small", "medium", "large"))
    parser.add_argument("--contexts", type=int, nargs="+", default=(250, 1000, 2000))
    parser.add_argument("--games", type=int, default=20)
    words = parser.parse_args()
    found = {}
    for context in words.contexts:
        network = ContextNetworkConfig(words.size, context=context, precision="float32")
        env = DarkRoom(horizon=STEPS)
        learner = AD(network=network).build(env, num_tasks=1, updates_per_task=1)
        params = jax.jit(learner.policy.init)(jax.random.key(0))
        plain = milliseconds(policy_alone(learner.policy, params, env, words.games), STEPS)
        evaluated = milliseconds(
            evaluation(learner.policy, params, env, words.games), STEPS * EPISODES
        )
        found[context] = {"policy": plain, "evaluation": evaluated}
        print(f"context {context:5d}: {plain:6.2f} ms a step, in evaluations {evaluated:6.2f} ms")
    setting = vars(words) | {"contexts": list(words.contexts)}
    print(json.dumps({"bench": "context", "setting": setting, "device": device(), "ms": found}))


def policy_alone(policy: ContextPolicy, params: Any, env: DarkRoom, games: int) -> Any:
    """A function that acts for so many steps, with a cache that is given away."""
    task: Any = rooms([(0, 0)], 1)[0]
    _, now = env.reset(jax.random.key(0), task)
    view = jax.tree.map(lambda x: jnp.broadcast_to(x, (games, *x.shape)), now.view)
    view = view.replace(first=jnp.zeros_like(view.first))

    @partial(jax.jit, donate_argnums=0)
    def act(carry: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            action, carry, _ = policy.act(params, carry, view, key)
            return carry, action

        return jax.lax.scan(step, carry, jax.random.split(jax.random.key(0), STEPS))

    held = [policy.initial_carry((games, 1))]

    def again() -> Any:
        held[0], actions = act(held[0])
        return actions

    return again


def evaluation(policy: ContextPolicy, params: Any, env: DarkRoom, games: int) -> Any:
    """A function that evaluates as many tasks as there are games."""
    evaluator = Evaluator(env, Players(policy), FineTuning(), episodes=1, consecutive=EPISODES)
    tasks = rooms([(n % env.side, 0) for n in range(games)], 1).tasks
    play = jax.jit(lambda key: evaluator(params, (), Round(tasks), key).returns)
    return lambda: play(jax.random.key(1))


def milliseconds(play: Callable[[], Any], steps: int, times: int = 3) -> float:
    """The median time per step, once compiled."""
    taken = []
    for _ in range(times + 1):
        start = time.perf_counter()
        jax.block_until_ready(play())
        taken.append((time.perf_counter() - start) / steps)
    return round(1e3 * float(np.median(taken[1:])), 3)


if __name__ == "__main__":
    main()

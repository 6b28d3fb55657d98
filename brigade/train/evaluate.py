"""Evaluation: all tasks at once, in one compiled program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Array, ContinualMethod, Environment, Key, Policy
from brigade.train.collect import begin, step_all


class Evaluation(struct.PyTreeNode):
    """Leaves [tasks, episodes], with a seed axis in front when seeds run side by side."""

    score: Array  # normalised, at the end of the episode
    returns: Array  # raw reward per seat, averaged over seats
    events: Array  # [..., seats, kinds]: how often each seat did what; no kinds, if none are told


@dataclass(frozen=True)
class Evaluator:
    """Plays `episodes` games of every task with the parameters the method acts with there."""

    env: Environment
    policy: Policy
    method: ContinualMethod
    episodes: int = 10
    greedy: bool = False

    def __call__(self, params: Any, mem: Any, tasks: Any, key: Key) -> Evaluation:
        """`tasks` has leaves [tasks, ...]; the work is linear in their number."""

        def one_task(task: Any, key: Key) -> Evaluation:
            acting = self.method.acting_params(mem, params, task.id)
            return self.play(acting, task, key)

        num_tasks = jax.tree.leaves(tasks)[0].shape[0]
        return jax.vmap(one_task)(tasks, jax.random.split(key, num_tasks))

    def play(self, params: Any, task: Any, key: Key) -> Evaluation:
        """Whole games of one task; what comes after a game's end does not count."""
        begin_key, scan_key = jax.random.split(key)
        loop = begin(self.env, self.policy, begin_key, task, self.episodes)
        running = jnp.ones(self.episodes, bool)
        nothing = jnp.zeros(self.episodes)
        counts = jnp.zeros((self.episodes, self.env.num_agents, len(event_names(self.env))))

        def step(carry: tuple[Any, ...], key: Key) -> tuple[tuple[Any, ...], None]:
            loop, running, returns, score, counts = carry
            act_key, step_key = jax.random.split(key)
            action, memory, _ = self.policy.act(
                params, loop.carry, loop.step.view, act_key, self.greedy
            )
            env_state, then = step_all(self.env, step_key, loop.env_state, action, task)
            returns = returns + running * then.reward.mean(-1)
            score = jnp.where(running, then.info["score"], score)
            if counts.size:
                counts = counts + running[:, None, None] * then.info["events"]
            running = running & ~(then.terminated | then.truncated)
            loop = loop.replace(env_state=env_state, step=then, carry=memory)
            return (loop, running, returns, score, counts), None

        keys = jax.random.split(scan_key, self.env.horizon)
        start = (loop, running, nothing, nothing, counts)
        (_, _, returns, score, counts), _ = jax.lax.scan(step, start, keys)
        return Evaluation(score=score, returns=returns, events=counts)


def event_names(env: Environment) -> tuple[str, ...]:
    """What an environment tells of in `info["events"]` [seats, kinds]; nothing, for many."""
    names: tuple[str, ...] = getattr(env, "events", ())
    return names

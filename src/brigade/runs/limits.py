"""Whether a run fits into memory, from its settings alone, before anything of it is made.

Each estimate is a lower bound: a run that is refused could not have worked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax

from brigade.core import Environment
from brigade.errors import UserError
from brigade.machine import memory, size
from brigade.runs.config import Experiment, RunConfig

SCORE_BYTES = 8  # a score and a return in float32
PARAMETER_BYTES = 12  # the parameter and two moments of the optimiser in float32
INDEX_BYTES = 4
MAX_INTEGER = 2**31 - 1
OBSERVATION_PER_TASK = 16  # a task has at least one byte for so many bytes of its observations
FEWER_TASKS = "--tasks or --eval-episodes"
FEWER_EVALUATIONS = "--seeds or --tasks, or raise --eval-every"


def check_memory(experiment: Experiment, env: Environment) -> None:
    """Refuse settings that need more memory than there is.

    Seeds may be trained one after another, so rollouts and evaluations count for one of them.
    """
    check_integers(experiment.as_dict())
    config, seeds = experiment.config, experiment.config.seeds
    view = math.prod(env.obs_shape)  # bytes of an observation, at least
    seats = view * env.num_agents
    samples = config.num_envs * config.num_steps
    epochs, replayed = experiment.learner.epochs, experiment.method.replayed
    network = experiment.learner.largest_matrix(view)
    for what, needed, less in (
        ("a rollout", samples * view, "--num-envs or --num-steps"),
        ("an update", samples * INDEX_BYTES * epochs, "--num-envs, --num-steps or --ppo.epochs"),
        ("a batch", replayed * view, "--method-settings.sample-size"),
        ("an evaluation", tasks_bytes(env, config.tasks * config.eval_episodes), FEWER_TASKS),
        ("the environments", seeds * config.num_envs * seats, "--seeds or --num-envs"),
        ("the tasks", tasks_bytes(env, seeds * config.tasks), "--seeds or --tasks"),
        ("the record of evaluations", seeds * record_bytes(config), FEWER_EVALUATIONS),
        ("the networks", seeds * network * PARAMETER_BYTES, "--seeds or --network.hidden"),
    ):
        require_memory(needed, what, less)


def check_integers(tree: Mapping[str, Any]) -> None:
    """Refuse integers in the groups of settings that JAX cannot hold: it counts in 32 bits."""
    for name, group in tree.items():
        for setting, value in group.items() if isinstance(group, Mapping) else ():
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int) and abs(number) > MAX_INTEGER:
                    raise UserError(f"{name}.{setting} is {number}; it must be below 2,147,483,648")


def require_memory(needed: int, what: str, less: str) -> None:
    """Refuse what would fill so many bytes, if there are not as many."""
    if needed > total_memory():
        raise UserError(
            f"{what} would fill at least {size(needed)} of memory, and this machine has "
            f"{size(total_memory())}; reduce {less}"
        )


def tasks_bytes(env: Environment, tasks: int) -> int:
    """What so many tasks, or environments that play them, fill at least."""
    return tasks * math.prod(env.obs_shape) * env.num_agents // OBSERVATION_PER_TASK


def check_state_fits(state: Any) -> None:
    """Refuse a training state, with all its buffers, that no memory holds."""
    require_memory(size_of(state), "the training state", "--seeds, the network or the buffer")


def size_of(tree: Any) -> int:
    """Bytes of a tree of arrays or shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def record_bytes(config: RunConfig) -> int:
    """What all evaluations of one seed fill in memory."""
    evaluations = config.total_tasks * -(-config.updates_per_task // config.eval_every)
    episodes = config.eval_episodes * config.eval_consecutive
    return SCORE_BYTES * evaluations * config.tasks * episodes


def total_memory() -> int:
    """Memory of all devices, or of the machine if they share it."""
    limits = [(device.memory_stats() or {}).get("bytes_limit") for device in jax.local_devices()]
    return max(memory(), sum(limit for limit in limits if limit))

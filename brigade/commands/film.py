"""`brigade watch`: one game of a run's policies, as a moving picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from brigade.envs.overcooked.render import save_gif
from brigade.errors import UserError
from brigade.runs.run import LoadedRun, load


def film(
    path: Path, task: int, seed: int | None, out: Path | None, greedy: bool, trust: bool
) -> tuple[Path, float]:
    """Play task `task` (from 1) with one seed's policy; return the picture's path and the score."""
    if out is not None and out.suffix.lower() != ".gif":
        raise UserError(f"--out is {out}; films are GIFs, so give a name that ends in .gif")
    run = load(path, trust=trust)
    seeds = list(run.parts.seeds)
    if seed is not None and seed not in seeds:
        raise UserError(f"the run has no seed {seed}; it has {', '.join(map(str, seeds))}")
    if task > len(run.parts.sequences[0]):
        raise UserError(f"the run has {len(run.parts.sequences[0])} tasks; there is no task {task}")
    place = seeds.index(seed) if seed is not None else 0
    if not hasattr(run.parts.benchmark.env, "frames"):
        raise UserError(f"{run.experiment.config.benchmark} cannot be filmed: no pictures")
    states, score = play(run, place, task - 1, greedy)
    frames = run.parts.benchmark.env.frames(states, run.parts.sequences[place][task - 1])
    target = out or path / "report" / f"seed{seeds[place]}-task{task}.gif"
    save_gif(target, frames)
    return target, score


def play(run: LoadedRun, seed: int, task: int, greedy: bool) -> tuple[Any, float]:
    """The states of one game [steps, ...], and its score."""
    env, policy = run.parts.benchmark.env, run.parts.evaluator.policy
    params, chosen = run.acting_params(seed, task), run.parts.sequences[seed][task]

    def step(carry: tuple[Any, Any, Any], key: Any) -> tuple[Any, Any]:
        state, now, memory = carry
        action, memory, _ = policy.act(params, memory, now.view, key, greedy)
        after, then = env.step(key, state, action, chosen)
        return (after, then, memory), (after, then.terminated | then.truncated, then.info["score"])

    keys = jax.random.split(jax.random.key(0), env.horizon)
    start = (*env.reset(keys[0], chosen), policy.initial_carry(()))
    _, (states, over, score) = jax.lax.scan(step, start, keys)
    length = int(over.argmax()) + 1  # the game's first end; what follows is not played
    return jax.tree.map(lambda leaf: leaf[:length], states), float(score[length - 1])

"""Learn three generated kitchens one after another on a laptop, and see what is forgotten.

    python examples/first_stream.py --plot curve.png --gif cooking.gif

Two CPU cores need about two and a half minutes. Prints one line per evaluation and, at the end, the
score of every kitchen right after its own training and at the end of the run.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np

import brigade
from brigade.core import Benchmark, TaskSequence
from brigade.envs.overcooked import render_states, save_gif
from brigade.learners.ppo import PPO, NetworkConfig
from brigade.metrics import meal
from brigade.metrics.stats import mean_and_interval
from brigade.train import DeviceSource, Evaluator, Record, Trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--benchmark", default="meal/level-1")
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--steps-per-task", type=float, default=5e5)
    parser.add_argument("--seeds", type=int, default=1, help="how many, side by side")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--save", help="write the evaluations here (.npz)")
    parser.add_argument("--plot", help="draw the learning curves here (.png)")
    parser.add_argument("--gif", help="film the last kitchen being cooked in here (.gif)")
    args = parser.parse_args()

    benchmark = brigade.get("benchmarks", args.benchmark)()
    seeds = range(args.seed, args.seed + args.seeds)
    sequences = [benchmark.sequence(seed, args.tasks, int(args.steps_per_task)) for seed in seeds]
    updates = max(1, round(args.steps_per_task / (args.num_envs * benchmark.env.horizon)))
    learner = brigade.get("learners", "ippo")(
        benchmark.env,
        num_tasks=args.tasks,
        updates_per_task=updates,
        network=NetworkConfig(hidden=(64, 64)),
        learning_rate=2e-3,
        final_learning_rate=5e-4,
        epochs=4,
        minibatches=8,
        shaping_steps=args.steps_per_task,
    )
    record, params = train(benchmark, learner, sequences, seeds, updates, args.num_envs)
    report(record)
    if args.save:
        arrays: dict[str, Any] = {"task_names": np.array(record.task_names), **record.arrays()}
        np.savez_compressed(args.save, **arrays)
    if args.plot:
        plot(record, args.plot)
    if args.gif:
        film(benchmark.env, learner, params, sequences[0][args.tasks - 1], args.gif)


def train(
    benchmark: Benchmark,
    learner: PPO,
    sequences: list[TaskSequence],
    seeds: range,
    updates: int,
    num_envs: int,
) -> tuple[Record, Any]:
    """Run the stream, printing as it goes; return the record and the first seed's parameters."""
    env, method = benchmark.env, brigade.get("methods", "ft")()
    trainer = Trainer(DeviceSource(env, learner.policy, num_envs, env.horizon), learner, method)
    evaluator = Evaluator(env, learner.policy, method, benchmark.eval_episodes)
    run = trainer.run(
        sequences,
        evaluator,
        seeds=seeds,
        updates_per_task=updates,
        eval_every=max(1, -(-updates // 10)),
    )
    began = time.perf_counter()
    for progress, latest, record in run:
        state = latest
        if progress.evaluated:
            scores = record.score[-1].mean(axis=(1, 2, 3))
            print(
                f"{time.perf_counter() - began:6.1f} s  task {progress.task + 1}  "
                f"{progress.steps:9,} steps  scores " + "  ".join(f"{s:5.2f}" for s in scores),
                flush=True,
            )
    return record, jax.tree.map(lambda leaf: leaf[0], state.learner.params)


def report(record: Record) -> None:
    """What was learned and what was forgotten, means over seeds and episodes."""
    arrays = record.arrays()
    score = arrays["score"].mean(axis=(2, 3, 4))  # [eval, task]
    at_end = [score[list(arrays["steps"]).index(end)] for end in arrays["task_ends"]]
    for task, name in enumerate(record.task_names):
        print(f"{name}: {at_end[task][task]:.2f} after its own training, {score[-1, task]:.2f} now")
    forgetting = meal.forgetting(arrays["steps"], score, arrays["task_ends"])
    print(f"average score {meal.average_score(score):.3f}, forgetting {forgetting.value:.3f}")


def plot(record: Record, path: str) -> None:
    """One panel per kitchen, its training shaded; thin lines are seeds, the band their 95 %."""
    import matplotlib.pyplot as plt

    arrays = record.arrays()
    steps, score = arrays["steps"] / 1e6, arrays["score"].mean(axis=(2, 4))  # [eval, task, seed]
    count = len(record.task_names)
    figure, panels = plt.subplots(
        count, 1, figsize=(7, 1.7 * count), sharex=True, sharey=True, squeeze=False
    )
    ends = np.concatenate([[0], arrays["task_ends"]]) / 1e6
    for task, panel in enumerate(panels[:, 0]):
        mean, half = mean_and_interval(score[:, task], axis=1)
        panel.axvspan(ends[task], ends[task + 1], color="0.92", lw=0)
        panel.axhline(1.0, color="0.6", lw=0.8, ls="--")
        panel.fill_between(steps, mean - half, mean + half, color="#0072B2", alpha=0.2, lw=0)
        panel.plot(steps, score[:, task], color="#0072B2", lw=0.6, alpha=0.6)
        panel.plot(steps, mean, color="#0072B2", lw=2)
        panel.set(ylabel="score", title=record.task_names[task], ylim=(0, 1.1 * score.max() + 0.1))
        panel.title.set_fontsize(10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1, 0].set(xlabel="environment steps (millions)", xlim=(0, ends[-1]))
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def film(env: Any, learner: PPO, params: Any, task: Any, path: str, steps: int = 120) -> None:
    """The first steps of one game."""

    def step(carry: tuple[Any, Any], key: Any) -> tuple[tuple[Any, Any], Any]:
        state, now = carry
        action, _, _ = learner.policy.act(params, (), now.view, key)
        return env.step(key, state, action, task), state

    keys = jax.random.split(jax.random.key(0), steps)
    _, states = jax.lax.scan(step, env.reset(keys[0], task), keys)
    save_gif(path, render_states(states, task))


if __name__ == "__main__":
    main()

"""Learn three generated kitchens one after another on a laptop, and see what is forgotten.

    python examples/first_stream.py [--out curve.npz]

Two CPU cores need about two minutes. Prints one line per evaluation and, at the end, the score of
every task right after its own training and at the end of the run.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import brigade
from brigade.learners.ppo import NetworkConfig
from brigade.metrics import meal
from brigade.train import DeviceSource, Evaluator, Record, Trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--benchmark", default="meal/level-1")
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--steps-per-task", type=float, default=5e5)
    parser.add_argument("--seeds", type=int, default=1, help="how many, side by side")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--out", help="save the evaluations here (.npz)")
    args = parser.parse_args()

    record = train(args)
    report(record)
    if args.out:
        np.savez(args.out, task_names=np.array(record.task_names), **record.arrays())


def train(args: argparse.Namespace) -> Record:
    """Build the parts, run the stream, print as it goes."""
    benchmark = brigade.get("benchmarks", args.benchmark)()
    num_steps = benchmark.env.horizon
    updates = max(1, round(args.steps_per_task / (args.num_envs * num_steps)))
    learner = brigade.get("learners", "ippo")(
        benchmark.env,
        num_tasks=args.tasks,
        updates_per_task=updates,
        network=NetworkConfig(hidden=(64, 64)),
        epochs=4,
        minibatches=8,
        shaping_steps=args.steps_per_task,
    )
    method = brigade.get("methods", "ft")()
    trainer = Trainer(
        DeviceSource(benchmark.env, learner.policy, args.num_envs, num_steps), learner, method
    )
    evaluator = Evaluator(benchmark.env, learner.policy, method, num_steps, benchmark.eval_episodes)
    seeds = range(args.seed, args.seed + args.seeds)
    run = trainer.run(
        [benchmark.sequence(seed, args.tasks, int(args.steps_per_task)) for seed in seeds],
        evaluator,
        seeds=seeds,
        updates_per_task=updates,
        eval_every=max(1, updates // 10),
    )
    began = time.perf_counter()
    for progress, _, record in run:
        if progress.evaluated:
            scores = record.score[-1].mean(axis=(1, 2, 3))
            print(
                f"{time.perf_counter() - began:6.1f} s  task {progress.task + 1}  "
                f"{progress.steps:9,} steps  scores " + "  ".join(f"{s:5.2f}" for s in scores),
                flush=True,
            )
    return record


def report(record: Record) -> None:
    """What was learned and what was forgotten, means over seeds and episodes."""
    arrays = record.arrays()
    score = arrays["score"].mean(axis=(2, 3, 4))  # [eval, task]
    at_end = [score[list(arrays["steps"]).index(end)] for end in arrays["task_ends"]]
    for task, name in enumerate(record.task_names):
        print(f"{name}: {at_end[task][task]:.2f} after its own training, {score[-1, task]:.2f} now")
    forgetting = meal.forgetting(arrays["steps"], score, arrays["task_ends"])
    print(f"average score {meal.average_score(score):.3f}, forgetting {forgetting.value:.3f}")


if __name__ == "__main__":
    main()

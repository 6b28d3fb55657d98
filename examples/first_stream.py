"""Train on three generated kitchens one after another on a laptop, from Python.

    python examples/first_stream.py [--seed 0] [--out runs/mine]

It takes about two and a half minutes on two CPU cores. `brigade run` does the same from the
command line.
"""

from __future__ import annotations

import argparse

import brigade
from brigade.metrics import meal
from brigade.runs.config import Experiment
from brigade.train import Position, Progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--steps-per-task", type=float, default=5e5)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="run folder (default: a new one in runs/)")
    args = parser.parse_args()
    config = {"benchmark": "meal/level-1", "preset": "laptop", "method": "ft", "seeds": 1}
    config |= {name: value for name, value in vars(args).items() if name != "out"}

    result = brigade.run(config, args.out, watch=print_evaluations)

    steps, ends = result.returns["steps"], result.returns["task_ends"]
    score = result.returns["score"].mean(axis=(2, 3, 4, 5))  # [evaluation, task]
    for task, name in enumerate(result.returns["task_names"]):
        learned = score[list(steps).index(ends[task]), task]
        print(f"{name}: {learned:.2f} after its own training, {score[-1, task]:.2f} now")
    forgetting = meal.forgetting(steps, score, ends)
    print(f"average score {meal.average_score(score):.3f}, forgetting {forgetting.value:.3f}")
    print(f"run folder: {result.path}")


def print_evaluations(progress: Progress, position: Position, experiment: Experiment) -> None:
    """One line per evaluation: the mean score of every kitchen."""
    if progress.evaluated:
        scores = position.record.score[-1].mean(axis=(1, 2, 3, 4))
        shown = "  ".join(f"{score:5.2f}" for score in scores)
        print(f"task {progress.task + 1}  {progress.steps:9,} steps  scores {shown}", flush=True)


if __name__ == "__main__":
    main()

"""Whole training: collect, learn and, with --evaluate, evaluate all tasks every 5 updates.

    python bench/train_overcooked.py
    python bench/train_overcooked.py --tasks 20 --evaluate
    python bench/train_overcooked.py --num-envs 16 --epochs 4 --num-minibatches 8 --hidden 64 64

The defaults are the MEAL release's. The last line is one JSON object.
"""

from __future__ import annotations

import argparse

from brigade.commands.bench import TrainingSetting, print_result, training_speed
from brigade.train.compile import keep_programs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    defaults = TrainingSetting()
    parser.add_argument("--level", choices=("1", "2", "3"), default=defaults.level)
    parser.add_argument("--tasks", type=int, default=defaults.tasks, help="in the sequence")
    parser.add_argument("--learn-tasks", type=int, default=1, help="of them to learn and time")
    parser.add_argument("--agents", type=int, default=defaults.agents)
    parser.add_argument("--seeds", type=int, default=defaults.seeds, help="side by side")
    parser.add_argument("--num-envs", type=int, default=defaults.num_envs, help="per seed")
    parser.add_argument("--num-steps", type=int, default=defaults.num_steps, help="of a rollout")
    parser.add_argument("--num-minibatches", type=int, default=defaults.num_minibatches)
    parser.add_argument("--epochs", type=int, default=defaults.epochs)
    parser.add_argument("--hidden", type=int, nargs="+", default=list(defaults.hidden))
    parser.add_argument("--updates", type=int, default=defaults.updates, help="timed, per task")
    parser.add_argument("--evaluate", action="store_true", help="all tasks, every 5 updates")
    parser.add_argument(
        "--precision", choices=("auto", "float32", "bfloat16"), default=defaults.precision
    )
    parser.add_argument("--no-cache", action="store_true", help="compile everything anew")
    settings = vars(parser.parse_args())
    if not settings.pop("no_cache"):
        keep_programs()
    setting = TrainingSetting(**settings | {"hidden": tuple(settings["hidden"])})
    print_result("train_overcooked", setting, training_speed(setting))


if __name__ == "__main__":
    main()

"""Every row of the tables in docs/performance.md for this machine, each in a fresh process.

    python bench/table.py            # the rows of the machine's kind, GPU or CPU
    python bench/table.py --only level

Compiled programs are not kept, so that `compile` is what a new user waits for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import jax

HERE = Path(__file__).parent
STEP, TRAIN = "step_overcooked.py", "train_overcooked.py --no-cache"
STEP_V2 = "step_overcooked_v2.py"
SMALL = "--num-envs 16 --epochs 4 --num-minibatches 8 --hidden 64 64"

GPU = {
    "training, level 1": TRAIN,
    "training, level 1, 20 tasks evaluated": f"{TRAIN} --evaluate",
    "training, level 3": f"{TRAIN} --level 3",
    "training, level 1, 5 seeds": f"{TRAIN} --seeds 5 --updates 8",
    "training, level 1, CNN": f"{TRAIN} --encoder cnn --updates 5",
    "training, level 1, CNN, 5 seeds": f"{TRAIN} --encoder cnn --seeds 5 --updates 3",
    "training, level 1, GRU": f"{TRAIN} --memory gru --updates 5",
    "training, level 1, GRU, 5 seeds": f"{TRAIN} --memory gru --seeds 5 --updates 3",
    "training, level 1, LSTM": f"{TRAIN} --memory lstm --updates 5",
    "training, level 1, 100 tasks evaluated": f"{TRAIN} --tasks 100 --learn-tasks 3 --evaluate",
    "training, level 1, float32": f"{TRAIN} --precision float32",
    "training, level 1, a population of 16": f"{TRAIN} --population 16",
    "collecting with 64 partners": "partners.py --num-envs 2048",
    "cross-play, 16 policies": "crossplay.py",
    "collecting": "collect_overcooked.py --no-cache",
    "learning": "update_overcooked.py --no-cache",
    "evaluating 100 tasks": "evaluate_overcooked.py --no-cache --tasks 100",
    "environment, level 1, 2,048": f"{STEP} --num-envs 2048",
    "environment, level 1, 16,384": f"{STEP} --num-envs 16384",
    "environment, Hanabi, 2,048": "step_hanabi.py --num-envs 2048",
    "environment, Hanabi, 16,384": "step_hanabi.py --num-envs 16384",
    "environment, cramped_room, 2,048": f"{STEP} --layout cramped_room --num-envs 2048",
    "environment, cramped_room, 16,384": f"{STEP} --layout cramped_room --num-envs 16384",
    "environment, OvercookedV2, 2,048": f"{STEP_V2} --num-envs 2048",
    "environment, OvercookedV2, 16,384": f"{STEP_V2} --num-envs 16384",
}
CPU = {
    "training, level 1": f"{TRAIN} {SMALL}",
    "training, level 1, 3 seeds": f"{TRAIN} {SMALL} --seeds 3",
    "training, level 1, GRU": f"{TRAIN} {SMALL} --memory gru --updates 5",
    "training, level 1, a population of 4": f"{TRAIN} {SMALL} --population 4",
    "collecting with 64 partners": "partners.py",
    "cross-play, 16 policies": "crossplay.py",
    "collecting": f"collect_overcooked.py --no-cache {SMALL}",
    "learning": f"update_overcooked.py --no-cache {SMALL}",
    "evaluating 20 tasks": f"evaluate_overcooked.py --no-cache {SMALL}",
    "environment, level 1, 1,024": f"{STEP} --num-envs 1024",
    "environment, Hanabi, 64": "step_hanabi.py --num-envs 64 --compare",
    "environment, Hanabi, 1,024": "step_hanabi.py --num-envs 1024",
    "environment, cramped_room, 64": f"{STEP} --layout cramped_room --num-envs 64 --compare",
    "environment, OvercookedV2, 64": f"{STEP_V2} --num-envs 64 --compare",
    "environment, OvercookedV2, 1,024": f"{STEP_V2} --num-envs 1024 --compare",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    only = parser.parse_args().only
    rows = CPU if jax.default_backend() == "cpu" else GPU
    print("| work | steps/s | compile, s | all tasks x 1e8, min | command |")
    print("| --- | --- | --- | --- | --- |")
    for name, command in rows.items():
        if only in name:
            found = measure(command)
            minutes = found.get("projected_minutes")
            print(
                f"| {name} | {found['steps_per_second']:,.0f} | {found['compile_seconds']:.1f} "
                f"| {f'{minutes:.1f}' if minutes else ''} | `bench/{command}` |",
                flush=True,
            )


def measure(command: str) -> dict[str, float]:
    """Run a script of this folder and read its last line."""
    script, *flags = command.split()
    done = subprocess.run(
        [sys.executable, str(HERE / script), *flags], stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    main()

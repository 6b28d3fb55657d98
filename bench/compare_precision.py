"""Learning curves in float32 and bfloat16: same seeds, same kitchens, same number of steps.

    python bench/compare_precision.py
    python bench/compare_precision.py --updates 20 --num-envs 16 --epochs 4 --num-minibatches 8

Prints the score at the end of every fifth of the updates, mean and deviation over seeds; the last
line is one JSON object.
"""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np

from brigade.cli.bench import Training, TrainingSetting, setting_from
from brigade.cli.plan import device

POINTS = 5


def main() -> None:
    setting = setting_from(sys.argv[1:], __doc__)
    curves = {}
    for precision in ("float32", "bfloat16"):
        curve = learning_curve(dataclasses.replace(setting, precision=precision))
        curves[precision] = curve.tolist()
        shown = "  ".join(f"{each.mean():.3f} +- {each.std(ddof=1):.3f}" for each in curve)
        print(f"{precision:9s} {shown}", flush=True)
    plain = dataclasses.asdict(setting)
    print(
        json.dumps(
            {"bench": "compare_precision", "setting": plain, "device": device(), "score": curves}
        )
    )


def learning_curve(setting: TrainingSetting) -> np.ndarray:
    """Scores [points, seeds] of the first task while it is learned."""
    training = Training(setting, updates_per_task=setting.updates)
    state, points = training.start(), []
    for number in range(1, setting.updates + 1):
        state, _ = training.trainer.step(state, training.tasks, 0)
        if number % max(1, setting.updates // POINTS) == 0:
            result = training.evaluate(state, number)
            points.append(np.asarray(result.score)[:, 0].mean(-1))
    return np.stack(points)


if __name__ == "__main__":
    main()

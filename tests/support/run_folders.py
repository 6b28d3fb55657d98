"""Run folders with hand-made scores, written without training."""

import json

import numpy as np

from brigade.core.benchmark import CONTINUAL_MEASURES
from brigade.metrics.record import SCORE_AXES

# A run of two updates, for tests that damage its folder.
TINY = {
    "benchmark": "meal/level-1",
    "tasks": 1,
    "seeds": 1,
    "steps_per_task": 1600,
    "num_envs": 2,
    "eval_every": 1,
    "eval_episodes": 2,
    "snapshots": 2,
    "network": {"hidden": [8]},
    "ppo": {"minibatches": 4, "epochs": 1},
}
CONFIG = {
    "benchmark": "meal/level-1",
    "method": "ft",
    "learner": "ippo",
    "seeds": 2,
    "tasks": 2,
    "greedy": False,
    "ppo": {"learning_rate": 0.002, "anneal": True},
    "network": {"hidden": [64, 64]},
}
STEPS = [0, 50, 100, 150, 200]
# [eval, task] of both seeds
FIRST = [[0, 0], [0.5, 0], [1.0, 0], [0.5, 0.4], [0.5, 0.8]]
SECOND = [[0, 0], [0.4, 0], [0.8, 0.2], [0.8, 0.4], [0.4, 0.62]]
# What a record tells besides its evaluations, if the learner has all seats.
ALONE = {
    "axes": np.array(["eval", *SCORE_AXES]),
    "partner_names": np.array(["self"]),
    "seat_names": np.array(["all"]),
    "repetitions": np.array(1),
    "steps_per_task": np.array(100),
    "earlier_ends": np.array([], np.int64),
}


def make_run(path, evals=5, names=("kitchen 1", "kitchen 2"), config=CONFIG, number=1, **arrays):
    """Two seeds (3 and 4), two tasks of 100 steps, two episodes 0.1 above and below the mean."""
    path.mkdir(parents=True)
    head = {"format": number, "brigade": "0.1.0", "measures": CONTINUAL_MEASURES, "config": config}
    (path / "config.json").write_text(json.dumps(head))
    mean = np.stack([FIRST, SECOND], axis=-1)[:evals, :, None, None, :, None]
    score = (mean + np.array([-0.1, 0.1])).astype(np.float32)
    content = {
        "score": score,
        "returns": 20 * score,
        "steps": np.array(STEPS[:evals]),
        "task_ends": np.array([100, 200]),
        "task_names": np.array(names),
        "seeds": np.array([3, 4]),
    }
    np.savez(path / "returns.npz", **(ALONE | content | arrays))
    rows = [{"task": 0, "update": i, "steps": 10 * i, "seconds": 0.1 * i} for i in range(1, 6)]
    lines = [json.dumps(row | {"metrics": {"score": [0.1, 0.3], "loss": [1, 2]}}) for row in rows]
    (path / "log.jsonl").write_text("\n".join(lines) + "\n")
    return path


def raw_run(path, method="ft"):
    """As `make_run`, of two tasks whose scores are returns, from 0 to 500 and from -500 to -100."""
    mean = np.stack([FIRST, SECOND], axis=-1)[:, :, None, None, :, None]
    score = 500.0 * mean
    score[:, 1] -= 500.0
    names = ("CartPole", "Acrobot")
    run = make_run(
        path, names=names, config=CONFIG | {"method": method}, score=score, returns=score
    )
    rows = [
        {"task": i // 5, "update": i, "steps": 20 * i, "seconds": 1, "metrics": {"score": at}}
        for i in range(1, 11)
        for at in [[40.0 * i, 35.0 * i] if i <= 5 else [-500.0 + 30 * i, -500.0 + 25 * i]]
    ]
    (run / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head = json.loads((run / "config.json").read_text())
    measures = ["average_score", "after_training"]
    head |= {"meanings": {"raw_score": "the return of an episode"}, "measures": measures}
    (run / "config.json").write_text(json.dumps(head))
    return run


def many_seeds(path, number=6, **options):
    """As `make_run`, with the two seeds repeated."""
    score = np.tile(np.stack([FIRST, SECOND], axis=-1), number // 2)[:, :, None, None, :, None]
    arrays = {"score": score, "returns": 20 * score, "seeds": np.arange(number)}
    run = make_run(path, **(arrays | options))
    (run / "log.jsonl").unlink()  # of two seeds
    return run

"""The hot path: collect experience, update, and the loop around them. Written once for all."""

from brigade.train.collect import DeviceSource
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.trainer import Position, Progress, Record, Trainer, TrainState

__all__ = [
    "DeviceSource",
    "Evaluation",
    "Evaluator",
    "Position",
    "Progress",
    "Record",
    "TrainState",
    "Trainer",
]

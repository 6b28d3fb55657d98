"""Collecting rollouts, updating, evaluating, and the training loop, shared by all algorithms."""

from brigade.metrics.record import Record
from brigade.train.collect import DeviceSource
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.players import Players
from brigade.train.trainer import Position, Progress, Table, Trainer, TrainState

__all__ = [
    "DeviceSource",
    "Evaluation",
    "Evaluator",
    "Players",
    "Position",
    "Progress",
    "Record",
    "Table",
    "TrainState",
    "Trainer",
]

"""Collecting rollouts, updating, evaluating, and the training loop, shared by all algorithms."""

from brigade.metrics.record import Record
from brigade.train.collect import DeviceSource
from brigade.train.evaluate import Evaluation, Evaluator
from brigade.train.players import Players
from brigade.train.programs import TrainState
from brigade.train.trainer import Lineup, Position, Progress, Trainer

__all__ = [
    "DeviceSource",
    "Evaluation",
    "Evaluator",
    "Lineup",
    "Players",
    "Position",
    "Progress",
    "Record",
    "TrainState",
    "Trainer",
]

"""Recorded histories: what they are made of, what a learner sees of them, and as a source."""

from brigade.histories.arrays import ArrayHistories
from brigade.histories.batches import Batches
from brigade.histories.source import RecordedSource

__all__ = ["ArrayHistories", "Batches", "RecordedSource"]

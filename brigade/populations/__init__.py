"""Populations: many policies that learn side by side, and who of them meets whom."""

from brigade.populations.generator import Generator
from brigade.populations.learner import PopulationLearner

__all__ = ["Generator", "PopulationLearner"]

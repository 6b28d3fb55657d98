"""Populations: policies that are trained in parallel, and which of them play together."""

from brigade.populations.generator import Generator
from brigade.populations.learner import PopulationLearner

__all__ = ["Generator", "PopulationLearner"]

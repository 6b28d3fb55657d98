"""The heuristic teammates of ICRL4AHT."""

from brigade.envs.overcooked_v2.teammates.instances import published, sampled
from brigade.envs.overcooked_v2.teammates.policy import H1, H2, H3, H4, Teammate, as_arrays

__all__ = ["H1", "H2", "H3", "H4", "Teammate", "as_arrays", "published", "sampled"]

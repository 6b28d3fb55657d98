"""Partners: policies that are not being trained, and how they take a seat."""

from brigade.partners.scripted import Random, Stay
from brigade.partners.seats import SeatedPolicy

__all__ = ["Random", "SeatedPolicy", "Stay"]

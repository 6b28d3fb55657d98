"""Partners: policies that are not being trained, by name, by script or from a file."""

from brigade.partners.scripted import Random, Stay

__all__ = ["Random", "Stay"]

"""Partners: policies that are not being trained, from a script or a policy file."""

from brigade.partners.scripted import Random, Stay

__all__ = ["Random", "Stay"]

"""Who meets whom: populations of policies, and egos with partners that change."""

from brigade.populations.generator import Generator

__all__ = ["Generator"]

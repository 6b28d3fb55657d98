"""Continual-learning and coordination metrics on NumPy arrays, one module per paper.

Nothing is imported here, so reading a saved run does not load JAX.
"""

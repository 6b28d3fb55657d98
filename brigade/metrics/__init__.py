"""Continual-learning and coordination metrics: NumPy in, NumPy out, one module per paper.

Nothing is imported here, so reading a saved run never loads an accelerator library.
"""

"""Sweeps: one run for every value of a setting, a table and a figure of the results."""

"""Runs: their config, their folder on disk, and how they are started, stopped and resumed."""

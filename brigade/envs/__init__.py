"""Environments: one folder each, with rules, observations, tasks, pictures and the protocol."""

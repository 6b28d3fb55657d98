"""Environments, one folder each: rules, observations, tasks, rendering and the protocol."""

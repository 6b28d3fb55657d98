"""Benchmarks: descriptions of experiments, one file per paper."""

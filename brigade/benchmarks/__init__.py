"""Benchmarks: descriptions, one file per paper."""

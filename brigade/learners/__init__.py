"""Learners: one file per algorithm family."""

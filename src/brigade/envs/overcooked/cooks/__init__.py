"""Scripted cooks, and how they read a kitchen."""

from brigade.envs.overcooked.cooks.cook import Cook, Errand, Habits, Human, OnionOnly, PlateOnly

__all__ = ["Cook", "Errand", "Habits", "Human", "OnionOnly", "PlateOnly"]

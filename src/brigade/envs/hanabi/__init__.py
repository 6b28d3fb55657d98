"""Hanabi, the cooperative card game in which nobody sees their own cards."""

from brigade.envs.hanabi.env import EVENTS, Hanabi
from brigade.envs.hanabi.rules import State, Task
from brigade.envs.hanabi.variant import Variant

__all__ = ["EVENTS", "Hanabi", "State", "Task", "Variant"]

"""OvercookedV2: hidden recipes, partial views and indicators (Gessler and others, 2025)."""

from brigade.envs.overcooked_v2.env import OvercookedV2
from brigade.envs.overcooked_v2.layouts import LAYOUTS, kitchen_of, without_file
from brigade.envs.overcooked_v2.rules import State
from brigade.envs.overcooked_v2.tasks import (
    Kitchen,
    KitchenError,
    Task,
    sequence_from_kitchens,
    task_from_kitchen,
)
from brigade.envs.overcooked_v2.things import ACTIONS

__all__ = [
    "ACTIONS",
    "LAYOUTS",
    "Kitchen",
    "KitchenError",
    "OvercookedV2",
    "State",
    "Task",
    "kitchen_of",
    "sequence_from_kitchens",
    "task_from_kitchen",
    "without_file",
]

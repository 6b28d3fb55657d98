"""Overcooked: cooks in a shared kitchen, as pure functions of state, action and task."""

from brigade.envs.overcooked.env import Overcooked, describe
from brigade.envs.overcooked.events import EVENTS, MULTI_EVENTS
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.envs.overcooked.recipes import RECIPES, Recipe
from brigade.envs.overcooked.render import render, render_grid, render_states
from brigade.envs.overcooked.rules import State
from brigade.envs.overcooked.tasks import Task, sequence_from_grids, task_from_grid

__all__ = [
    "EVENTS",
    "LAYOUTS",
    "MULTI_EVENTS",
    "RECIPES",
    "Overcooked",
    "Recipe",
    "State",
    "Task",
    "describe",
    "render",
    "render_grid",
    "render_states",
    "sequence_from_grids",
    "task_from_grid",
]

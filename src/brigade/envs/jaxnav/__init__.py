"""JaxNav: robots with lidar that drive to their goals, as pure functions of state and task."""

from brigade.envs.jaxnav.env import JaxNav
from brigade.envs.jaxnav.maps import MapSpec, Task, generate, make_task, sequence
from brigade.envs.jaxnav.render import render, render_states
from brigade.envs.jaxnav.rules import ACTIONS, EVENTS, Rewards, Robot, State

__all__ = [
    "ACTIONS",
    "EVENTS",
    "JaxNav",
    "MapSpec",
    "Rewards",
    "Robot",
    "State",
    "Task",
    "generate",
    "make_task",
    "render",
    "render_states",
    "sequence",
]

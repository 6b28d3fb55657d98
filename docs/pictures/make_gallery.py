"""Draw the pictures of docs/gallery.md: python docs/pictures/make_gallery.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from brigade.core import Environment
from brigade.envs.hanabi import Hanabi
from brigade.envs.jaxnav import JaxNav, MapSpec
from brigade.envs.jaxnav import generate as generate_map
from brigade.envs.overcooked import LAYOUTS, Overcooked, task_from_grid
from brigade.envs.overcooked.cooks import Human
from brigade.envs.overcooked.generate import generate_sequence
from brigade.envs.overcooked.render import render
from brigade.envs.overcooked_v2 import LAYOUTS as V2_LAYOUTS
from brigade.envs.overcooked_v2 import OvercookedV2, task_from_kitchen
from brigade.envs.overcooked_v2.render import render as render_v2
from brigade.envs.overcooked_v2.things import BUTTON, MAX_INGREDIENTS

FOLDER = Path(__file__).parent / "gallery"
COLOURS = 64
CLASSIC = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit",
)

V2 = {  # seeds of random starts, with things lying around
    "cramped_room_v2": 0,
    "grounded_coord_simple": 1,
    "grounded_coord_ring": 0,
    "test_time_wide": 0,
    "demo_cook_wide": 0,
}


def scripted(env: Environment, task: Any, steps: int, recipes: Any = "single") -> Any:
    """The state of a game that scripted cooks have played for a while."""
    policy, params = Human(recipes=recipes).member()
    carry = policy.initial_carry((1, env.num_agents))
    state, now = env.reset(jax.random.key(1), task)
    step, act = jax.jit(env.step), jax.jit(policy.act)
    for number in range(steps):
        key = jax.random.key(number)
        view = jax.tree.map(lambda leaf: leaf[None], now.view.replace(state=None))
        action, carry, _ = act(params, carry, view, key)
        state, now = step(key, state, action[0], task)
    return state


def careful(env: Hanabi, task: Any, steps: int) -> Any:
    """The state of a game whose players know all cards: a point if possible, no lost lives."""
    rng, step = np.random.default_rng(0), jax.jit(env.step)
    state, now = env.reset(jax.random.key(3), task)
    for _ in range(steps):
        seat = int(np.argmax(now.view.active))
        best: tuple[float, Any, Any] | None = None
        for move in rng.permutation(np.flatnonzero(now.view.avail[seat])):
            joint = jnp.argmax(now.view.avail, axis=-1).at[seat].set(int(move))
            after, then = step(jax.random.key(0), state, joint, task)
            worth = float(then.reward[0]) + 9 * float(after.lives - state.lives)
            if best is None or worth > best[0]:
                best = worth, after, then
        assert best is not None
        _, state, now = best
    return state


def frame(env: Environment, state: Any, task: Any) -> np.ndarray:
    """The picture of one state."""
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
    return np.asarray(next(iter(env.frames(states, task))))


def save(name: str, picture: np.ndarray, colours: int = COLOURS) -> None:
    """A small file: few colours."""
    image = Image.fromarray(picture).quantize(colours, dither=Image.Dither.NONE)
    image.save(FOLDER / f"{name}.png", optimize=True)


def kitchen(name: str, grid: Any, steps: int, recipes: Any = "single") -> None:
    """A kitchen in which two scripted cooks work."""
    env = Overcooked(2, len(grid), len(grid[0]), recipes=recipes)
    task = task_from_grid(grid, num_agents=2)
    save(name, render(scripted(env, task, steps, recipes), task))


def kitchen_v2(name: str, seed: int, view: int | None) -> None:
    """A kitchen of OvercookedV2 in the middle of something, its buttons lit."""
    task = task_from_kitchen(V2_LAYOUTS[name])
    height, width = task.tile.shape
    env = OvercookedV2(2, height, width, MAX_INGREDIENTS, random_things=True)
    state, _ = env.reset(jax.random.key(seed), task)
    lit = jnp.where(task.tile.reshape(-1) == BUTTON, 6, state.timer)
    picture = render_v2(state.replace(timer=lit), task, view=view)
    save(f"v2-{name}" if view is None else f"v2-{name}-seen", picture, 256)


def main() -> None:
    """All pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name in CLASSIC:
        kitchen(name, LAYOUTS[name], 45)
    for level in ("1", "2", "3"):
        kitchen(f"level-{level}", generate_sequence(level, num=1, seed=0)[0], 60)
    for name in ("coordination_ring_multi", "counter_circuit_multi"):
        kitchen(name, LAYOUTS[name], 60, "multi")
    for name, seed in V2.items():
        kitchen_v2(name, seed, None)
    kitchen_v2("grounded_coord_ring", V2["grounded_coord_ring"], 2)
    for robots in (2, 4):
        side = 7 if robots == 2 else 9
        env = JaxNav(num_agents=robots, height=side, width=side)
        task = generate_map(MapSpec(height=side, width=side, fill=0.3, num_agents=robots), seed=2)
        save(f"jaxnav-{robots}", np.asarray(env.picture(task)))
    for players in (2, 4):
        env = Hanabi(players=players)
        task = env.task()
        save(f"hanabi-{players}", frame(env, careful(env, task, 14), task))


if __name__ == "__main__":
    main()

"""OvercookedV2: are the rules and observations those of JaxMARL, step by step?

    python bench/compare_overcooked_v2.py                  # every layout, half a minute each
    python bench/compare_overcooked_v2.py --only test_time

Random play from random states with things lying around. Every step is played by both from JaxMARL's
state; its next recipe is given to ours. Settings change from layout to layout.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Key
from brigade.envs.overcooked_v2 import LAYOUTS, OvercookedV2, State, task_from_kitchen
from brigade.envs.overcooked_v2.observe import observe
from brigade.envs.overcooked_v2.tasks import num_ingredients

GAMES, STEPS = 64, 120


class Comparison(NamedTuple):
    """What was compared, and what came of it."""

    steps: int
    unequal: Mapping[str, int]  # by what was compared, the number of steps
    delivered: int
    wrong: int  # soups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="layouts whose name has this in it")
    only = parser.parse_args().only
    total = 0
    for number, layout in enumerate(sorted(name for name in LAYOUTS if only in name)):
        view = (2, None, 1)[number % 3]
        found = compare(layout, view, shows_delivery=number % 2 == 0, by_hand=number % 4 > 1)
        total += found.steps
        print(f"{layout}: {found}", flush=True)
        if any(found.unequal.values()):
            raise SystemExit(f"{layout} differs")
    print(f"{total:,} steps are equal")


def compare(
    layout: str,
    view: int | None,
    shows_delivery: bool,
    by_hand: bool,
    games: int = GAMES,
    steps: int = STEPS,
) -> Comparison:
    """Play a layout with these settings."""
    theirs = jaxmarls(layout, view, shows_delivery, by_hand)
    task = task_from_kitchen(LAYOUTS[layout])
    (height, width), kinds = task.tile.shape, num_ingredients(np.asarray(task.tile))
    ours = OvercookedV2(
        num_agents=len(task.start),
        height=height,
        width=width,
        ingredients=kinds,
        view=view,
        shows_delivery=shows_delivery,
        start_cooking_interaction=by_hand,
    )
    seats = [f"agent_{seat}" for seat in range(ours.num_agents)]

    def step(state: Any, key: Key) -> tuple[Any, Any]:
        action = random_actions(key, len(seats))
        obs, after, reward, _, info = theirs.step_env(
            key, state, dict(zip(seats, action, strict=True))
        )
        found, now = ours.step(key, state_of(state, width), action, task)
        expected = state_of(after, width)
        found = found.replace(recipe=expected.recipe, served=expected.served)
        pairs = {
            "state": (found, expected),
            "reward": (now.reward, by_seat(reward, seats)),
            "shaped": (now.info["shaped_reward"], by_seat(info["shaped_reward"], seats)),
            "obs": (observe(found, task, kinds, view, shows_delivery), by_seat(obs, seats)),
        }
        unequal = {name: differ(*pair) for name, pair in pairs.items()}
        return after, (unequal, after.new_correct_delivery, reward[seats[0]] <= -20)

    def play(key: Key) -> Any:
        return jax.lax.scan(step, theirs.reset(key)[1], jax.random.split(key, steps))[1]

    keys = jax.random.split(jax.random.key(0), games)
    unequal, delivered, wrong = jax.device_get(jax.jit(jax.vmap(play))(keys))
    counts = {name: int(found.sum()) for name, found in unequal.items()}
    return Comparison(games * steps, counts, int(delivered.sum()), int(wrong.sum()))


def jaxmarls(layout: str, view: int | None, shows_delivery: bool, by_hand: bool) -> Any:
    """JaxMARL's environment, in its own layout of this name, or in ours if it has none."""
    from jaxmarl.environments.overcooked_v2.layouts import Layout, overcooked_v2_layouts
    from jaxmarl.environments.overcooked_v2.overcooked import OvercookedV2 as Theirs

    rows, recipes, swapped = LAYOUTS[layout]
    text = "\n".join(rows).replace(".", " ")
    own = Layout.from_string(
        text, possible_recipes=[list(recipe) for recipe in recipes] or None, swap_agents=swapped
    )
    return Theirs(
        layout=overcooked_v2_layouts.get(layout, own),
        agent_view_size=view,
        random_reset=True,
        start_cooking_interaction=by_hand,
        negative_rewards=True,
        sample_recipe_on_delivery=True,
        indicate_successful_delivery=shows_delivery,
    )


def random_actions(key: Key, seats: int) -> Array:
    """Any action, and interactions more often."""
    action_key, more_key = jax.random.split(key)
    action = jax.random.randint(action_key, (seats,), 0, 6)
    return jnp.where(jax.random.bernoulli(more_key, 0.3, action.shape), 5, action)


def state_of(theirs: Any, width: int) -> State:
    """JaxMARL's state as ours."""
    place, grid = theirs.agents.pos, theirs.grid
    return State(
        cell=(place.y * width + place.x).astype(jnp.int32),
        facing=theirs.agents.dir.astype(jnp.int32),
        held=theirs.agents.inventory.astype(jnp.int32),
        thing=grid[:, :, 1].reshape(-1).astype(jnp.int32),
        timer=grid[:, :, 2].reshape(-1).astype(jnp.int32),
        recipe=theirs.recipe.astype(jnp.int32),
        delivered=jnp.bool_(theirs.new_correct_delivery),
        served=jnp.int32(0),
        time=jnp.asarray(theirs.step, jnp.int32),
    )


def by_seat(values: Mapping[str, Array], seats: list[str]) -> Array:
    """[seats, ...]."""
    return jnp.stack([values[seat] for seat in seats])


def differ(one: Any, other: Any) -> Array:
    """Whether two trees differ anywhere."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return jnp.stack([jnp.any(a != b) for a, b in pairs]).any()


if __name__ == "__main__":
    main()

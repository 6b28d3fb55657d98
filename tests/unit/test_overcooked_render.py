"""Pictures of kitchens: every change is seen, and only where it happens."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageSequence

from brigade.envs.gif import save_gif
from brigade.envs.overcooked import rules
from brigade.envs.overcooked.layouts import LAYOUTS
from brigade.envs.overcooked.render import render, render_grid, render_states
from brigade.envs.overcooked.rules import State
from brigade.envs.overcooked.sprites import SEAT_COLOURS
from brigade.envs.overcooked.tasks import task_from_grid
from brigade.envs.overcooked.things import (
    COOK_TIME,
    DOWN,
    LEFT,
    ONE_ONION,
    ONE_TOMATO,
    RIGHT,
    UP,
    Item,
)

PX = 32
CRAMPED = LAYOUTS["cramped_room"]
TASK = task_from_grid(CRAMPED)
WIDTH = TASK.tile.shape[1]
POT_CELL, COUNTER_CELL = 2, 3
ONION_SOUP = Item.SOUP + 3 * ONE_ONION


def kitchen(facing: int = UP, **changes: jax.Array) -> State:
    return rules.start(TASK, jnp.full(2, facing, jnp.int32)).replace(**changes)


def only(cell: int, value: int) -> jax.Array:
    """Nothing anywhere but in `cell`."""
    return jnp.zeros(TASK.tile.size, jnp.uint8).at[cell].set(value)


def holding(thing: int) -> State:
    return kitchen(held=jnp.array([thing, 0], jnp.uint8))


def lying(thing: int) -> State:
    return kitchen(counter=only(COUNTER_CELL, thing))


def pot(contents: int, tick: int = 0) -> State:
    return kitchen(pot=only(POT_CELL, contents), tick=only(POT_CELL, tick))


def tiles(picture: np.ndarray, px: int = PX) -> np.ndarray:
    """[height, width, px * px * 3]."""
    rows, columns = picture.shape[0] // px, picture.shape[1] // px
    blocks = picture.reshape(rows, px, columns, px, 3).swapaxes(1, 2)
    return blocks.reshape(rows, columns, -1)


def changed_cells(one: State, other: State, px: int = PX) -> set[int]:
    """The cells whose tiles look different."""
    before, after = (tiles(render(state, TASK, px), px) for state in (one, other))
    return set(np.flatnonzero((before != after).any(-1)).tolist())


def all_different(states: list[State], px: int = PX) -> bool:
    return len({render(state, TASK, px).tobytes() for state in states}) == len(states)


@pytest.mark.parametrize("px", [8, 16, 32, 64])
def test_a_picture_has_the_size_of_its_kitchen(px: int) -> None:
    picture = render(kitchen(), TASK, px)
    assert picture.shape == (len(CRAMPED) * px, len(CRAMPED[0]) * px, 3)
    assert picture.dtype == np.uint8


def test_the_same_state_gives_the_same_picture_in_an_array_of_its_own() -> None:
    first = render(kitchen(), TASK)
    expected = first.copy()
    first[:] = 0  # must not reach what is kept for the next picture
    np.testing.assert_array_equal(render(kitchen(), TASK), expected)


def test_a_step_changes_the_tiles_left_and_entered() -> None:
    state = kitchen()
    start = int(state.cell[0])
    moved = state.replace(cell=state.cell.at[0].set(start + 1))
    assert changed_cells(state, moved) == {start, start + 1}


def test_a_turn_changes_the_cooks_tile() -> None:
    state = kitchen()
    turned = state.replace(facing=state.facing.at[1].set(LEFT))
    assert changed_cells(state, turned) == {int(state.cell[1])}


@pytest.mark.parametrize("thing", [Item.ONION, Item.TOMATO, Item.PLATE, ONION_SOUP])
def test_what_is_held_shows_on_the_cooks_tile(thing: int) -> None:
    assert changed_cells(kitchen(), holding(thing)) == {int(TASK.start[0])}


@pytest.mark.parametrize("thing", [Item.ONION, Item.TOMATO, Item.PLATE, ONION_SOUP])
def test_what_lies_on_a_counter_shows_there(thing: int) -> None:
    assert changed_cells(kitchen(), lying(thing)) == {COUNTER_CELL}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pot(0), pot(ONE_ONION)),
        (pot(ONE_ONION), pot(2 * ONE_ONION)),
        (pot(2 * ONE_ONION), pot(3 * ONE_ONION, 1)),
        (pot(3 * ONE_ONION, 1), pot(3 * ONE_ONION, 2)),
        (pot(3 * ONE_ONION, COOK_TIME - 1), pot(3 * ONE_ONION, COOK_TIME)),
        (pot(3 * ONE_ONION, COOK_TIME), pot(0)),
    ],
    ids=["first onion", "second", "starts to cook", "cooks", "ready", "emptied"],
)
@pytest.mark.parametrize("px", [16, 32])
def test_every_stage_of_a_pot_shows_on_its_tile(before: State, after: State, px: int) -> None:
    assert changed_cells(before, after, px) == {POT_CELL}


@pytest.mark.parametrize("px", [16, 32])
def test_facings_things_and_contents_all_look_different(px: int) -> None:
    recipes = [ONE_ONION * n + ONE_TOMATO * (3 - n) for n in range(4)]
    things = [Item.ONION, Item.TOMATO, Item.PLATE, *(Item.SOUP + recipe for recipe in recipes)]
    assert all_different([kitchen(facing) for facing in (UP, DOWN, RIGHT, LEFT)], px)
    assert all_different([holding(thing) for thing in things], px)
    assert all_different([lying(thing) for thing in things], px)
    assert all_different([pot(recipe, 5) for recipe in recipes], px)
    assert all_different([pot(recipe, COOK_TIME) for recipe in recipes], px)
    assert all_different([pot(ONE_ONION), pot(ONE_TOMATO), pot(ONE_ONION + ONE_TOMATO)], px)


def test_every_seat_has_its_own_colour() -> None:
    grid = ("XXPPXX", "O1..2O", "D3..4S", "XXXXXX")
    task = task_from_grid(grid, num_agents=4)
    picture = tiles(render(rules.start(task, jnp.full(4, DOWN, jnp.int32)), task))
    cooks = picture.reshape(-1, PX * PX, 3)[np.asarray(task.start)]
    for seat, cook in enumerate(cooks):
        shares = [(cook == colour).all(-1).mean() for colour in SEAT_COLOURS]
        assert shares[seat] > 0.05
        assert sum(shares) == shares[seat]


def test_padding_looks_like_counters_and_leaves_the_kitchen_as_it_is() -> None:
    task = task_from_grid(CRAMPED, height=6, width=7)
    padded = tiles(render(rules.start(task, jnp.full(2, UP, jnp.int32)), task))
    assert padded.shape[:2] == (6, 7)
    plain = tiles(render(kitchen(), TASK))
    np.testing.assert_array_equal(padded[:4, :5], plain)
    assert (padded[4:] == plain[0, 0]).all()
    assert (padded[:, 5:] == plain[0, 0]).all()


def test_a_grid_is_shown_at_its_start_with_everyone_facing_up() -> None:
    np.testing.assert_array_equal(render_grid(CRAMPED), render(kitchen(UP), TASK))


def test_states_over_time_give_one_picture_each() -> None:
    states = [kitchen(UP), holding(Item.ONION), pot(ONE_ONION)]
    over_time = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    for picture, state in zip(render_states(over_time, TASK, 16), states, strict=True):
        np.testing.assert_array_equal(picture, render(state, TASK, 16))


def test_a_batch_is_refused() -> None:
    batch = jax.tree.map(lambda leaf: leaf[None], kitchen())
    with pytest.raises(ValueError, match="one kitchen"):
        render(batch, TASK)


def test_a_gif_shows_its_frames_in_order_and_rests_on_the_last(tmp_path: Path) -> None:
    path = tmp_path / "films" / "soup.gif"
    states = [kitchen(UP), kitchen(RIGHT), holding(Item.TOMATO), pot(3, 5), pot(3, COOK_TIME)]
    frames = [render(state, TASK) for state in states]
    save_gif(path, iter(frames), fps=10)
    with Image.open(path) as film:
        assert film.size == (5 * PX, 4 * PX)
        assert film.info["loop"] == 0
        shown = [(f.info["duration"], np.asarray(f.convert("RGB"))) for f in _frames(film)]
    assert [duration for duration, _ in shown] == [100, 100, 100, 100, 1000]
    for (_, picture), frame in zip(shown, frames, strict=True):
        assert np.abs(picture.astype(int) - frame).mean() < 4
    assert [entry.name for entry in path.parent.iterdir()] == ["soup.gif"]


def test_what_does_not_change_keeps_its_colours_through_a_gif(tmp_path: Path) -> None:
    path = tmp_path / "still.gif"
    save_gif(path, [render(state, TASK) for state in (kitchen(), holding(Item.ONION), pot(1))])
    with Image.open(path) as film:
        first, *others = [tiles(np.asarray(frame.convert("RGB"))) for frame in _frames(film)]
    busy = np.isin(np.arange(TASK.tile.size), [POT_CELL, int(TASK.start[0])]).reshape(-1, WIDTH)
    for other in others:
        np.testing.assert_array_equal(first[~busy], other[~busy])


def test_one_frame_makes_a_gif_and_none_does_not(tmp_path: Path) -> None:
    save_gif(tmp_path / "one.gif", [render(kitchen(), TASK)])
    with Image.open(tmp_path / "one.gif") as film:
        assert getattr(film, "n_frames", 1) == 1
    with pytest.raises(ValueError, match="at least one frame"):
        save_gif(tmp_path / "none.gif", [])
    assert not (tmp_path / "none.gif").exists()


def _frames(film: Image.Image) -> list[Image.Image]:
    return [frame.copy() for frame in ImageSequence.Iterator(film)]


def test_slippery_floor_is_drawn_as_such_and_nothing_else_changes() -> None:
    wet = task_from_grid(CRAMPED, slippery=[(1, 2)])
    dry, shining = render(kitchen(), TASK, PX), render(kitchen(), wet, PX)
    changed = (dry != shining).any(-1).reshape(4, PX, 5, PX).any((1, 3))
    assert np.argwhere(changed).tolist() == [[1, 2]]


@pytest.mark.parametrize("contents", [4 * ONE_ONION, 5 * ONE_ONION, 2 * ONE_ONION + 3 * ONE_TOMATO])
def test_big_soups_show_what_is_in_them(contents: int) -> None:
    smaller = contents - ONE_ONION
    assert (render(pot(contents), TASK, PX) != render(pot(smaller), TASK, PX)).any()
    full, less = holding(Item.SOUP + contents), holding(Item.SOUP + smaller)
    assert (render(full, TASK, PX) != render(less, TASK, PX)).any()

"""The published kitchens (`LAYOUTS["test_time_wide"]`), and one's own from text."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files

from brigade.envs.overcooked_v2.tasks import (
    SYMBOLS,
    Kitchen,
    KitchenError,
    recipe_of,
    rows_of,
    tiles_of,
)
from brigade.reading import read_bytes
from brigade.registry import unknown_name

MAX_BYTES = 16_000  # of a kitchen's file
COMMENT = "#"  # such lines in a file are no rows
BETWEEN_ROWS = "/"


def read_layouts() -> dict[str, Kitchen]:
    """All kitchens of layouts.toml."""
    text = files("brigade.envs.overcooked_v2").joinpath("layouts.toml").read_text(encoding="utf-8")
    return {
        name: Kitchen(
            rows_of(entry["rows"]),
            tuple(tuple(recipe) for recipe in entry.get("recipes", ())),
            entry.get("swapped", False),
        )
        for name, entry in tomllib.loads(text).items()
    }


LAYOUTS: Mapping[str, Kitchen] = read_layouts()


def without_file(layout: str) -> str:
    """A layout's name or its rows with / between them; the name of a file becomes its rows."""
    if layout in LAYOUTS or is_rows(layout):
        return layout
    try:
        text = read_bytes(layout, MAX_BYTES, follow=True).decode("utf-8")
    except FileNotFoundError:
        raise ValueError(
            f"{unknown_name('layout', layout, LAYOUTS)}; there is no such file either"
        ) from None
    except UnicodeDecodeError as error:
        raise KitchenError(f"{layout} is not text: {error.reason}") from None
    rows = rows_of("\n".join(ln for ln in text.splitlines() if not ln.startswith(COMMENT)))
    try:
        tiles_of(rows)
    except KitchenError as error:
        raise KitchenError(f"{layout}: {error}") from None
    return BETWEEN_ROWS.join(rows)


def kitchen_of(layout: str, recipes: Sequence[str] = ()) -> Kitchen:
    """The kitchen of `without_file`, with other recipes if there are any."""
    own = tuple(map(recipe_of, recipes))
    if layout not in LAYOUTS:
        return Kitchen(rows_of(layout.split(BETWEEN_ROWS)), own)
    kitchen = LAYOUTS[layout]
    return kitchen._replace(recipes=own) if own else kitchen


def is_rows(text: str) -> bool:
    """Whether this is a kitchen and not the name of one: at least three rows of as many symbols."""
    rows = text.split(BETWEEN_ROWS)
    return len(rows) > 2 and len(set(map(len, rows))) == 1 and set("".join(rows)) <= set(SYMBOLS)

"""The published kitchens: `LAYOUTS["test_time_wide"]`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files

from brigade.envs.overcooked_v2.tasks import Kitchen, rows_of


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

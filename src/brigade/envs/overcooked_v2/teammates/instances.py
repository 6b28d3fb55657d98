"""The parameters of heuristic teammates: presets, published instances, and samples of a split.

A name is `default` or another preset, `0` to `4` for the published test instances (as of most
layouts; `cramped_room_down-0` for the layout that has its own), or `train-7`, `test-7` for a
sample: the number stands for a teammate that is always the same.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

PACKAGE = "brigade.envs.overcooked_v2.teammates"
PUBLISHED = 5  # instances of each family
SPREAD = 0.2  # of its range: how far a sampled parameter is from its preset
SPLITS = ("train", "test")


@cache
def table(family: str) -> Mapping[str, Any]:
    """What parameters.toml says of a family."""
    text = files(PACKAGE).joinpath("parameters.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)[family]
    return found


def instance(family: str, name: str) -> dict[str, float]:
    """The parameters of a family's instance by its name."""
    about = table(family)
    start, _, number = name.rpartition("-")
    values = about["presets"].get(name)
    if name.isdecimal() or start in about["published"]:
        values = dict(enumerate(about["published"][start or "all"])).get(as_number(number))
    if values is not None:
        return dict(zip(about["parameters"], values, strict=True))
    if start in SPLITS and number.isdecimal():
        return sampled(family, start, int(number))
    presets = ", ".join(about["presets"])
    raise ValueError(
        f"{family} has no instance {name!r}; use 0 to {PUBLISHED - 1}, train-N, test-N or a preset "
        f"({presets})"
    )


def as_number(word: str) -> int:
    """The number that a word is, or -1."""
    return int(word) if word.isdecimal() else -1


def published(family: str, layout: str) -> list[dict[str, float]]:
    """The published test instances of a family in a layout."""
    own = layout in table(family)["published"]
    start = f"{layout}-" if own else ""
    return [instance(family, f"{start}{number}") for number in range(PUBLISHED)]


def sampled(family: str, split: str, number: int, seed: int = 0) -> dict[str, float]:
    """Parameters of a split: one of its presets, varied; what defines the split from its range."""
    specification = f"{family}:{number}:{split}:{seed}"
    digest = hashlib.sha256(specification.encode()).hexdigest()
    rng = np.random.default_rng(int(digest[:8], 16))
    about = table(family)
    preset = str(rng.choice(about["split"][split]))
    start = instance(family, preset)
    return {
        name: varied(rng, start[name], ranges, ranges.get(split))
        for name, ranges in about["parameters"].items()
    }


def varied(
    rng: np.random.Generator, value: float, ranges: Mapping[str, Any], own: list[float] | None
) -> float:
    """One parameter: from the range of its split, or near its preset's value."""
    if isinstance(ranges["default"], int):
        return int(rng.choice(own)) if own else value
    if own:
        return float(np.float32(rng.uniform(own[0], own[1])))
    if "range" not in ranges:
        return value
    low, high = ranges["range"]
    near = value + SPREAD * (high - low) * rng.uniform(-1.0, 1.0)
    return float(np.float32(np.clip(near, low, high)))

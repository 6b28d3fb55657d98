"""What a policy file tells about itself, checked before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from brigade.reading import DamagedError, entry, expect

MAX_SETTINGS = 10_000  # characters, of one policy
MAX_TASKS = 1000  # in a stream; all up to a policy's own are made again to play it
MAX_SEED = 2**32
MIN_SIZE = 1000  # a network's sizes may be up to this, however few numbers its file has

Plain = dict[str, Any]


def described(metadata: Plain) -> tuple[list[Plain], Plain, Plain]:
    """The members, the game and the origin that a file tells, with the types they should have."""
    where = "its metadata"
    members = [plain_entries(each, "a member") for each in entry(metadata, "members", list, where)]
    game, origin = (entry(metadata, name, dict, where) for name in ("game", "origin"))
    expect(origin.get("env", {}), dict, "env of its origin")
    expect(origin.get("benchmark", ""), str, "benchmark of its origin")
    for met in expect(origin.get("trained_with", []), list, "trained_with of its origin"):
        plain_entries(met, "trained_with of its origin")
    if not 1 <= expect(origin.get("task_number", 1), int, "task_number of its origin") <= MAX_TASKS:
        raise DamagedError(f"task_number of its origin is {origin['task_number']}")
    return members, game, origin


def plain_entries(member: Any, where: str) -> Plain:
    """What a file tells of one policy: text and numbers."""
    found = {key: value for key, value in expect(member, dict, where).items() if value is not None}
    for name, kind in (("seed", int), ("steps", int), ("return", float), ("score", float)):
        if name in found:
            expect(found[name], kind, f"{name} of {where}")
    if not 0 <= found.get("seed", 0) < MAX_SEED:
        raise DamagedError(f"seed of {where} is {found['seed']}")
    for name, value in found.items():
        if isinstance(value, dict | list) and name in ("name", "run", "config", "stage", "pair"):
            raise DamagedError(f"{name} of {where} must be text or a number")
    return found


def check_size(settings: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse settings of a network that is larger than the arrays of its file."""
    if len(json.dumps(settings)) > MAX_SETTINGS:
        raise DamagedError(f"the settings of its policy are longer than {MAX_SETTINGS} characters")
    network = entry(settings, "network", dict, "its settings")
    if expect(network.get("memory_layers", 1), int, "memory_layers") > len(arrays):
        raise DamagedError("it has fewer arrays than its network has layers")
    most = max(sum(array.size for array in arrays.values()), MIN_SIZE)
    sizes = [settings.get("obs_shape"), *network.values()]
    for each in (n for s in sizes for n in (s if isinstance(s, list) else [s])):
        if isinstance(each, int | float) and not abs(each) <= most:
            raise DamagedError(f"a network of size {each} has more numbers than its file")

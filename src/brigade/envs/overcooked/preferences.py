"""Behaviour-preferring rewards: weights for events, as in ZSC-Eval.

A candidate is a dictionary of weights. `order` is the weight of the rewards for soups, which all
seats share; all other names are events of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TypeAlias

import numpy as np

from brigade.registry import unknown_name

Weights: TypeAlias = dict[str, float]
Choices: TypeAlias = Mapping[str, tuple[float, ...]]

ORDER = "order"
# What every candidate is paid for; it never decays.
ALWAYS: Mapping[str, float] = {
    "useful_plate_pickup": 3.0,
    "soup_pickup": 5.0,
    "placement_in_pot": 3.0,
}
MAX_NONZERO = 3  # weights of a candidate that are chosen and not zero

STAY = (-0.1, 0.0, 0.1)
ORDERS = (0.1, 1.0)
TABLES: Mapping[str, Choices] = {
    "default": {
        "pickup_onion_from_pile": (-20.0, 0.0, 10.0),
        "pickup_plate_from_pile": (-20.0, 0.0, 10.0),
        "delivery": (-20.0, 0.0),
        "stay": STAY,
        ORDER: ORDERS,
    },
    "forced_coordination": {
        "pickup_onion_from_pile": (0.0, 10.0),
        "pickup_plate_from_pile": (0.0, 10.0),
        "pickup_soup_from_counter": (-20.0, 0.0),
        "stay": STAY,
        ORDER: ORDERS,
    },
    "bothway_coordination": {
        "pickup_onion_from_counter": (-20.0, 0.0),
        "pickup_onion_from_pile": (-20.0, 0.0, 10.0),
        "pickup_plate_from_pile": (0.0, 10.0),
        "pickup_soup_from_counter": (-20.0, 0.0),
        "stay": STAY,
        ORDER: ORDERS,
    },
    "blocked_corridor": {
        "pickup_onion_from_pile": (-20.0, 0.0, 5.0),
        "pickup_plate_from_pile": (-20.0, 0.0, 5.0),
        "delivery": (-20.0, 0.0),
        "stay": (-0.1, 0.0),
        ORDER: ORDERS,
    },
    "multi": {
        "potting_onion": (-20.0, 0.0),
        "potting_tomato": (-20.0, 0.0),
        "delivery_of_size_two": (-5.0, 0.0, 20.0),
        "delivery_of_size_three": (-15.0, 0.0, 10.0),
        "stay": STAY,
        ORDER: (1.0,),
    },
}


def candidates(table: str) -> list[Weights]:
    """All combinations of a table's choices in which at most three chosen weights are not zero.

    An event with one choice is not chosen and does not count.
    """
    if table not in TABLES:
        raise ValueError(unknown_name("table", table, TABLES))
    choices = TABLES[table]
    free = [name for name, values in choices.items() if len(values) > 1]
    every = (dict(zip(choices, values, strict=True)) for values in product(*choices.values()))
    return [
        {**ALWAYS, **weights}
        for weights in every
        if sum(weights[name] != 0 for name in free) <= MAX_NONZERO
    ]


def sample_candidates(table: str, number: int, seed: int) -> list[Weights]:
    """Different candidates of a table, in its order."""
    every = candidates(table)
    if number > len(every):
        raise ValueError(
            f"members is {number}; the table {table} has {len(every)} candidates, give at most that"
        )
    chosen = np.random.default_rng(seed).choice(len(every), number, replace=False)
    return [every[index] for index in sorted(chosen)]


def parse_weights(text: str) -> Weights:
    """Weights from text: `stay=-0.1,delivery=-20,order=1`, added to what everyone is paid for."""
    weights = dict(ALWAYS)
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            raise ValueError(
                f"weights are {text!r}; write them as event=number,event=number, for example "
                "stay=-0.1,order=1"
            ) from None
    return {ORDER: 1.0, **weights}


def weight_matrix(weights: Sequence[Weights], events: Sequence[str]) -> np.ndarray:
    """[candidates, events + 1] f32: the weights of all events, then of the order."""
    columns = [*events, ORDER]
    matrix = np.zeros((len(weights), len(columns)), np.float32)
    for row, candidate in enumerate(weights):
        for name, weight in candidate.items():
            if name not in columns:
                raise ValueError(unknown_name("event", name, columns))
            matrix[row, columns.index(name)] = weight
    return matrix


def in_words(weights: Mapping[str, float]) -> str:
    """What sets a candidate apart: its weights that are not zero and not everyone's."""
    own = {n: w for n, w in weights.items() if w and ALWAYS.get(n) != w}
    return ", ".join(f"{name} {weight:g}" for name, weight in own.items())

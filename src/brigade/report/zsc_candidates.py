"""Candidates for evaluation partners: their behaviour features, and which of them are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from brigade.metrics.result import Floats
from brigade.metrics.zsc_eval import Selection, select_partners

SINGLE_FEATURES = 13  # with one recipe: so many events, and the return
MIN_RETURN = 10.0  # candidates that do not reach more never delivered


@dataclass(frozen=True)
class Behaviour:
    """What candidates and their best responses did, in the last evaluation of their run.

    Features are [candidate, 2 x events]: with the response on seat 0, then on seat 1.
    """

    names: tuple[str, ...]
    returns: Floats  # [candidate]: with the best response, mean over seats
    features: Floats  # of the best responses
    partner_features: Floats  # of the candidates themselves
    events: tuple[str, ...]


def read_behaviour(arrays: dict[str, np.ndarray]) -> Behaviour:
    """The behaviour of a run of `hsp`: two rows per pair, the response on seat 0, then 1."""
    events = arrays["events"][-1, 0, :, 0, 0]  # [row, player, kind]
    returns = arrays["returns"][-1, 0, :, 0, 0].mean(-1)  # [row]
    kinds = arrays["event_names"].tolist()
    events = events.reshape(-1, 2, *events.shape[1:])  # [pair, the response's seat, player, kind]
    by_seat = returns.reshape(-1, 2)
    responses = np.stack([events[:, seat, seat] for seat in (0, 1)], axis=1)
    partners = np.stack([events[:, seat, 1 - seat] for seat in (0, 1)], axis=1)
    names = tuple(f"biased-{number}" for number in range(1, len(by_seat) + 1))
    return Behaviour(
        names=names,
        returns=by_seat.mean(1),
        features=features_of(responses, by_seat),
        partner_features=features_of(partners, by_seat),
        events=feature_names(kinds),
    )


def features_of(events: Floats, returns: Floats) -> Floats:
    """[candidate, features], as in ZSC-Eval; `events` [candidate, seat, kind], `returns` too."""
    if events.shape[-1] > 2 * SINGLE_FEATURES:  # kitchens with a list of recipes: all events
        return events.reshape(len(events), -1).astype(np.float64)
    chosen = np.concatenate([events[..., :SINGLE_FEATURES], returns[..., None]], axis=-1)
    return chosen.reshape(len(events), -1).astype(np.float64)


def feature_names(kinds: list[str]) -> tuple[str, ...]:
    """The names of the features of one seat."""
    if len(kinds) > 2 * SINGLE_FEATURES:
        return tuple(kinds)
    return (*kinds[:SINGLE_FEATURES], "return")


def choose(
    behaviour: Behaviour, number: int, min_return: float = MIN_RETURN, method: str = "search"
) -> Selection:
    """The candidates with the most different best responses."""
    return select_partners(
        behaviour.names,
        behaviour.returns,
        behaviour.features,
        number,
        events=behaviour.events,
        min_return=min_return,
        method=method,
        strict=True,
    )


def without(behaviour: Behaviour, left_out: set[Any]) -> Behaviour:
    """The behaviour of all other candidates."""
    rows = [index for index, name in enumerate(behaviour.names) if name not in left_out]
    return replace(
        behaviour,
        names=tuple(behaviour.names[index] for index in rows),
        returns=behaviour.returns[rows],
        features=behaviour.features[rows],
        partner_features=behaviour.partner_features[rows],
    )


def as_arrays(behaviour: Behaviour) -> dict[str, np.ndarray]:
    """Behaviour as arrays, for a file."""
    return {name: np.asarray(value) for name, value in vars(behaviour).items()}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Behaviour:
    """The inverse of `as_arrays`."""
    texts: dict[str, Any] = {n: tuple(arrays[n].tolist()) for n in ("names", "events")}
    return Behaviour(**{each.name: arrays[each.name] for each in fields(Behaviour)} | texts)

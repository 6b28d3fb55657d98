"""Who plays is data: seatings, the people met in a task, and the parameters everybody acts with.

A *table* is a block of environments with the same people. On each of its seats sits the learner or
somebody of the *cast*: partners, policies that are not being trained. Seatings and parameters are
arguments of compiled programs, so meeting somebody else compiles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

Array = jax.Array
Params: TypeAlias = Any


class Seating(struct.PyTreeNode):
    """Who sits where."""

    member: Array  # [tables, seats] int32: which of the learner's members, or who of the cast
    own: Array  # [tables, seats] bool: the seats of the learner, whose moves it learns from

    @property
    def shape(self) -> tuple[int, int]:
        """Tables and seats."""
        tables, seats = self.own.shape[-2:]
        return tables, seats


class Acting(struct.PyTreeNode):
    """What everybody at the tables acts with."""

    learner: Params
    cast: tuple[Params, ...] = ()  # per group of the cast, leaves [members, ...]
    seating: Seating | None = None  # None: the learner has every seat


class Company(struct.PyTreeNode):
    """Whom a learner meets in a task, and where it sits."""

    weights: Array  # [cast] f32: how often each of the cast is met
    arrangements: Array  # [choices, own seats] int32: seats of the learner, each choice as likely
    evaluation: Seating  # leaves [partners, arrangements, seats]: the tables of an evaluation

    def draw(self, key: Array, tables: int, seats: int) -> Seating:
        """People for every table: partners by weight, spread as evenly as their weights allow."""
        who_key, where_key = jax.random.split(key)
        choices, own_seats = self.arrangements.shape
        first_key, where_key = jax.random.split(where_key)
        first = jax.random.randint(first_key, (), 0, choices)
        choice = jax.random.permutation(where_key, (first + jnp.arange(tables)) % choices)
        mine = self.arrangements[choice]  # [tables, own seats]
        own = (mine[:, :, None] == jnp.arange(seats)).any(1)
        partners = spread(who_key, self.weights, tables * (seats - own_seats))
        # Partners take the seats that are left, in order.
        place = jnp.cumsum(~own, axis=1) - 1 + jnp.arange(tables)[:, None] * (seats - own_seats)
        member = jnp.where(own, 0, jnp.take(partners, place, mode="clip"))
        return Seating(member.astype(jnp.int32), own)


def spread(key: Array, weights: Array, number: int) -> Array:
    """`number` places in proportion to `weights`, as even as can be, in random order."""
    if number == 0:
        return jnp.zeros(1, jnp.int32)
    offset_key, order_key = jax.random.split(key)
    marks = (jnp.arange(number) + jax.random.uniform(offset_key)) / number
    marks = jnp.minimum(marks, 1.0 - 1e-6)  # rounding may not reach past the last weight
    ends = jnp.cumsum(weights)
    ends = ends / ends[-1]
    drawn = jnp.searchsorted(ends, marks, side="right").clip(0, len(weights) - 1)
    return jax.random.permutation(order_key, drawn).astype(jnp.int32)


@dataclass(frozen=True)
class Group:
    """Partners of one architecture: one batched call serves them all."""

    policy: Any  # a Policy
    size: int = 1
    greedy: bool = False  # take the argmax instead of sampling
    balanced: bool = False  # every member has equally many places: nothing need be gathered

    def __post_init__(self) -> None:
        if self.greedy and getattr(self.policy, "always_samples", False):
            raise ValueError(
                f"{type(self.policy).__name__} always samples: it has no greedy actions, so leave "
                "--greedy-partners or --greedy out"
            )


@dataclass(frozen=True, eq=False)
class Cast:
    """Partners that can be met, numbered through the groups."""

    groups: tuple[Group, ...] = ()
    params: tuple[Params, ...] = ()  # per group, leaves [size, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.params) or len(self.names) != self.size:
            raise ValueError("a cast has parameters for every group and a name for every member")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"two partners are called {twice}; give each a name of its own")

    @property
    def size(self) -> int:
        """How many they are."""
        return sum(group.size for group in self.groups)

    def __add__(self, other: Cast) -> Cast:
        """Both casts."""
        return Cast(
            self.groups + other.groups, self.params + other.params, self.names + other.names
        )


def arrangements(seats: Sequence[str], num_agents: int) -> tuple[tuple[int, ...], ...]:
    """The learner's seats from words: numbers from 0, or `random` for each that is drawn."""
    if not 1 <= len(seats) <= num_agents:
        raise ValueError(f"seats are {' '.join(seats) or 'none'}; name 1 to {num_agents} of them")
    if all(seat == "random" for seat in seats):
        return tuple(combinations(range(num_agents), len(seats)))
    known = {str(number): number for number in range(num_agents)}
    if len(set(seats)) < len(seats) or not set(seats) <= known.keys():
        raise ValueError(
            f"seats are {' '.join(seats)}, but this game has seats 0 to {num_agents - 1}; name "
            "each once, or random for every seat that is drawn"
        )
    return (tuple(sorted(known[seat] for seat in seats)),)


def company(
    cast: Cast,
    met: Sequence[Sequence[str]],
    choices: Sequence[Sequence[int]],
    num_agents: int,
) -> Company:
    """The people of every task, leaves [tasks, ...]: `met` are their names, `choices` the seats.

    Evaluations meet every partner of a task in every arrangement; with several partners at a
    table, the seats that are left go to one and the same.
    """
    numbers = [[cast.names.index(name) for name in names] for names in met]
    if len({len(names) for names in numbers}) > 1:
        raise ValueError("every task of a stream has to name equally many partners")
    weights = np.zeros((len(met), cast.size), np.float32)
    for task, places in enumerate(numbers):
        weights[task, places] = 1.0
    own = np.zeros((len(choices), num_agents), bool)
    for row, seats in enumerate(choices):
        own[row, list(seats)] = True
    partner = np.asarray(numbers, np.int32)[:, :, None, None]  # [tasks, partners, 1, 1]
    member = np.where(own, 0, partner).astype(np.int32)
    everywhere = np.broadcast_to(own, member.shape)
    table = np.broadcast_to(
        np.asarray(choices, np.int32), (len(met), len(choices), len(choices[0]))
    )
    return Company(
        jnp.asarray(weights),
        jnp.asarray(table),
        Seating(jnp.asarray(member), jnp.asarray(everywhere)),
    )

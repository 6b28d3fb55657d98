"""Who plays, as data: seatings, the partners of a task, and the parameters of all policies.

A *table* is a block of environments with the same policies on the same seats. A seat belongs to the
learner or to a member of the *cast*: the partners, policies that are not being trained. Seatings
and parameters are arguments of the compiled programs, so changing partners recompiles nothing.
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
    """Which policy plays on which seat of which table."""

    member: Array  # [tables, seats] int32: index of the learner's member, or in the cast
    own: Array  # [tables, seats] bool: the learner's seats, which it learns from

    @property
    def shape(self) -> tuple[int, int]:
        """(tables, seats)."""
        tables, seats = self.own.shape[-2:]
        return tables, seats


class Acting(struct.PyTreeNode):
    """The parameters of all policies at the tables, and the seating."""

    learner: Params
    cast: tuple[Params, ...] = ()  # per group of the cast, leaves [members, ...]
    seating: Seating | None = None  # None: the learner has every seat


class Pairing(struct.PyTreeNode):
    """The partners of a task, and the seats the learner can have."""

    weights: Array  # [cast] f32: relative frequency of each partner
    arrangements: Array  # [choices, own seats] int32: the learner's seats, equally likely
    evaluation: Seating  # leaves [partners, arrangements, seats]: the tables of an evaluation

    def constant(self, tables: int) -> Seating | None:
        """Every partner on every seat at equally many tables; None if the tables cannot be shared
        out like that, or if a table should have several partners.

        Such a seating never has to change, so no game is broken off.
        """
        seats = self.evaluation.own.shape[-1]
        partners, choices = self.evaluation.own.shape[-3:-1]
        several = seats - self.arrangements.shape[-1] > 1 and partners > 1
        if several or tables % (partners * choices):
            return None
        row = jnp.arange(tables) % (partners * choices)
        return jax.tree.map(lambda x: x.reshape(-1, seats)[row], self.evaluation)

    def sample(self, key: Array, tables: int, seats: int) -> Seating:
        """Sample seats and partners for every table, as evenly over the tables as possible."""
        partner_key, seat_key = jax.random.split(key)
        choices, own_seats = self.arrangements.shape
        first_key, seat_key = jax.random.split(seat_key)
        first = jax.random.randint(first_key, (), 0, choices)
        choice = jax.random.permutation(seat_key, (first + jnp.arange(tables)) % choices)
        own_numbers = self.arrangements[choice]  # [tables, own seats]
        own = (own_numbers[:, :, None] == jnp.arange(seats)).any(1)
        partners = evenly_sampled(partner_key, self.weights, tables * (seats - own_seats))
        # Partners fill the remaining seats in order.
        place = jnp.cumsum(~own, axis=1) - 1 + jnp.arange(tables)[:, None] * (seats - own_seats)
        member = jnp.where(own, 0, jnp.take(partners, place, mode="clip"))
        return Seating(member.astype(jnp.int32), own)


def evenly_sampled(key: Array, weights: Array, number: int) -> Array:
    """Sample `number` indices by `weights` with low variance (systematic sampling), shuffled."""
    if number == 0:
        return jnp.zeros(1, jnp.int32)
    offset_key, order_key = jax.random.split(key)
    quantiles = (jnp.arange(number) + jax.random.uniform(offset_key)) / number
    quantiles = jnp.minimum(quantiles, 1.0 - 1e-6)  # rounding must not go past the last weight
    cumulative = jnp.cumsum(weights)
    cumulative = cumulative / cumulative[-1]
    sampled = jnp.searchsorted(cumulative, quantiles, side="right").clip(0, len(weights) - 1)
    return jax.random.permutation(order_key, sampled).astype(jnp.int32)


@dataclass(frozen=True)
class Group:
    """Partners with the same architecture, which act in one batched call."""

    policy: Any  # a Policy
    size: int = 1
    greedy: bool = False  # take the argmax instead of sampling
    balanced: bool = False  # all members have equally many seats: no parameters are gathered

    def __post_init__(self) -> None:
        if self.greedy and self.policy.always_samples:
            raise ValueError(
                f"{type(self.policy).__name__} always samples and has no greedy action; "
                "leave out --greedy-partners or --greedy"
            )


@dataclass(frozen=True, eq=False)
class Cast:
    """The pool of partners, numbered across the groups."""

    groups: tuple[Group, ...] = ()
    params: tuple[Params, ...] = ()  # per group, leaves [size, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.params) or len(self.names) != self.size:
            raise ValueError("a cast needs parameters for every group and a name for every member")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"two partners are called {twice}; give each its own name")

    @property
    def size(self) -> int:
        """The number of partners."""
        return sum(group.size for group in self.groups)

    def __add__(self, other: Cast) -> Cast:
        """The members of both casts."""
        return Cast(
            self.groups + other.groups, self.params + other.params, self.names + other.names
        )


def arrangements(seats: Sequence[str], num_agents: int) -> tuple[tuple[int, ...], ...]:
    """All choices of the learner's seats, from numbers or from `random` once per sampled seat."""
    if not 1 <= len(seats) <= num_agents:
        raise ValueError(f"seats are {' '.join(seats) or 'none'}; give 1 to {num_agents} of them")
    if all(seat == "random" for seat in seats):
        return tuple(combinations(range(num_agents), len(seats)))
    known = {str(number): number for number in range(num_agents)}
    if len(set(seats)) < len(seats) or not set(seats) <= known.keys():
        raise ValueError(
            f"seats are {' '.join(seats)}, but this game has seats 0 to {num_agents - 1}; give "
            "different numbers, or only random, once per seat"
        )
    return (tuple(sorted(known[seat] for seat in seats)),)


def pairings(
    cast: Cast,
    partners: Sequence[Sequence[str]],
    choices: Sequence[Sequence[int]],
    num_agents: int,
) -> Pairing:
    """The pairings of all tasks, leaves [tasks, ...].

    `partners` has the names of each task's partners, `choices` the seats the learner can have.
    Evaluations play every partner of a task with every choice of seats; one partner then fills all
    other seats of its table.
    """
    numbers = [[cast.names.index(name) for name in names] for names in partners]
    if len({len(names) for names in numbers}) > 1:
        raise ValueError("every task of a stream must name equally many partners")
    weights = np.zeros((len(partners), cast.size), np.float32)
    for task, indices in enumerate(numbers):
        weights[task, indices] = 1.0
    own = np.zeros((len(choices), num_agents), bool)
    for row, seats in enumerate(choices):
        own[row, list(seats)] = True
    partner = np.asarray(numbers, np.int32)[:, :, None, None]  # [tasks, partners, 1, 1]
    member = np.where(own, 0, partner).astype(np.int32)
    own_everywhere = np.broadcast_to(own, member.shape)
    seats_of_task = np.broadcast_to(
        np.asarray(choices, np.int32), (len(partners), len(choices), len(choices[0]))
    )
    return Pairing(
        jnp.asarray(weights),
        jnp.asarray(seats_of_task),
        Seating(jnp.asarray(member), jnp.asarray(own_everywhere)),
    )


def pairing_of(seating: Seating) -> Pairing:
    """The pairing of a population, whose evaluations have this seating."""
    return Pairing(
        weights=jnp.ones(1),
        arrangements=jnp.arange(int(seating.own[0].sum()))[None],
        evaluation=jax.tree.map(lambda x: x[:, None], seating),
    )

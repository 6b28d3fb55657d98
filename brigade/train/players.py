"""Everybody at the tables acts: the learner on its own seats, the cast on the others.

What is gathered by the seating, parameters above all, is gathered once per rollout (`take_seats`);
a step is then one batched call per architecture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from brigade.core import Acting, Array, Everyone, Group, Key, Memories, Policy, View


class Seated(struct.PyTreeNode):
    """Everybody in place for the games of one seating."""

    learner: Any  # parameters
    groups: tuple[Any, ...]  # per group of the cast: parameters by table and seat
    own: Array | None = None  # [tables, own seats] int32; None: the learner has every seat
    others: Array | None = None  # [tables, other seats] int32
    order: Array | None = None  # [tables, seats]: where each seat's move stands in (own, others)
    present: tuple[Any, ...] = ()  # per group: which of the other seats are its members'
    places: Array | None = None  # [members, places]: where the members of a population sit
    group_places: tuple[Any, ...] = ()  # the same per group, where its members are balanced


@dataclass(frozen=True)
class Players:
    """Who can act, without parameters: they travel as `Acting`."""

    learner: Policy
    cast: tuple[Group, ...] = ()
    own_seats: int = 0  # of every table; 0: all of them
    members: int = 1  # of the learner; in a population, all have equally many places

    @property
    def alone(self) -> bool:
        """Whether one policy has every seat."""
        return self.members == 1 and not self.own_seats

    def seats(self, num_agents: int) -> tuple[int, int]:
        """How many are the learner's, and how many the cast's."""
        own = self.own_seats or num_agents
        return own, num_agents - own

    def initial_memory(self, num_envs: int, num_agents: int, tables: int) -> Memories:
        """Nobody remembers anything."""
        own, others = self.seats(num_agents)
        batch: tuple[int, ...] = (num_envs, own)
        if self.members > 1:
            batch = (self.members, num_envs * own // self.members)

        def of_group(group: Group) -> Any:
            if group.size == 1:
                return group.policy.initial_carry((num_envs, others))
            if group.balanced:
                return group.policy.initial_carry((group.size, num_envs * others // group.size))
            return group.policy.initial_carry((tables, num_envs // tables, others))

        return Memories(self.learner.initial_carry(batch), tuple(map(of_group, self.cast)))

    def take_seats(self, acting: Acting) -> Seated:
        """Gather what the seating says; the same for all steps of a rollout."""
        if self.alone:
            return Seated(acting.learner, ())
        seating = acting.seating
        assert seating is not None
        own_seats, _ = self.seats(seating.shape[1])
        by_owner = jnp.argsort(~seating.own, axis=1, stable=True)
        own, others = by_owner[:, :own_seats], by_owner[:, own_seats:]
        partner = jnp.take_along_axis(seating.member, others, axis=1)
        groups, present, group_places, first = [], [], [], 0
        for group, params in zip(self.cast, acting.cast, strict=True):
            place = partner - first
            present.append((place >= 0) & (place < group.size))
            groups.append(at_places(group, params, place))
            group_places.append(places_of(place, group.size) if group.balanced else None)
            first += group.size
        places = None
        if self.members > 1:
            places = places_of(jnp.take_along_axis(seating.member, own, axis=1), self.members)
        return Seated(
            learner=acting.learner,
            groups=tuple(groups),
            own=own,
            others=others,
            order=jnp.argsort(by_owner, axis=1),
            present=tuple(present),
            places=places,
            group_places=tuple(group_places),
        )

    def act(
        self, seated: Seated, memory: Memories, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Memories, dict[str, Array]]:
        """Actions of all seats [num_envs, seats, ...], and what the learner recorded of its own."""
        if self.alone:
            action, carry, extras = self.learner.act(
                seated.learner, memory.learner, view, key, greedy
            )
            return action, Memories(carry, ()), extras
        assert seated.order is not None
        learner_key, cast_key = jax.random.split(key)
        mine = self.own_view(seated, view)
        act = self._members_act if self.members > 1 else self._learner_acts
        action, carry, extras = act(seated, memory.learner, mine, learner_key, greedy)
        if not seated.groups:
            return action, Memories(carry, ()), extras
        assert seated.others is not None
        tables = len(seated.order)
        theirs = take_seats(view.replace(state=None), seated.others)
        moves, carries = jnp.zeros(theirs.active.shape + action.shape[2:], action.dtype), []
        keys = jax.random.split(cast_key, len(self.cast))
        for group, params, here, places, before, group_key in zip(
            self.cast,
            seated.groups,
            seated.present,
            seated.group_places,
            memory.cast,
            keys,
            strict=True,
        ):
            move, after = group_acts(group, params, places, before, theirs, group_key, tables)
            here = jnp.repeat(here, len(move) // tables, axis=0)
            moves = jnp.where(_like(here, move), move, moves)
            carries.append(after)
        joint = take_seats(jnp.concatenate([action, moves], axis=1), seated.order)
        return joint, Memories(carry, tuple(carries)), extras

    def own_view(self, seated: Seated, view: View) -> View:
        """What the learner's seats see, and not the game's state; a central critic sees all."""
        if not self.own_seats:
            return view.replace(state=None)
        assert seated.own is not None
        mine: View = take_seats(view.replace(state=None), seated.own)
        if getattr(self.learner, "sees_everyone", False):
            mine = mine.replace(state=Everyone(view.obs, self.seat_numbers(seated, len(view.obs))))
        return mine

    def seat_numbers(self, seated: Seated, num_envs: int) -> Array:
        """[num_envs, own seats]: which seats are the learner's."""
        assert seated.own is not None
        return jnp.repeat(seated.own, num_envs // len(seated.own), axis=0)

    def _learner_acts(
        self, seated: Seated, carry: Any, view: View, key: Key, greedy: bool
    ) -> tuple[Array, Any, dict[str, Array]]:
        return self.learner.act(seated.learner, carry, view, key, greedy)

    def _members_act(
        self, seated: Seated, carry: Any, view: View, key: Key, greedy: bool
    ) -> tuple[Array, Any, dict[str, Array]]:
        assert seated.places is not None
        assert seated.own is not None
        return members_act(
            self.learner, seated.learner, seated.places, carry, view, key, greedy, len(seated.own)
        )


def members_act(
    policy: Policy,
    params: Any,
    places: Array,
    carry: Any,
    view: View,
    key: Key,
    greedy: bool,
    tables: int,
) -> tuple[Array, Any, dict[str, Array]]:
    """Every member acts where it sits: one batch each, since all have equally many places."""

    def act(params: Any, carry: Any, view: View, key: Key) -> Any:
        return policy.act(params, carry, view, key, greedy)

    keys = jax.random.split(key, len(places))
    shown = by_member(view, places, tables)
    action, carry, extras = over_members(act)(params, carry, shown, keys)
    back = partial(by_table, places=places, tables=tables)
    return back(action), carry, jax.tree.map(back, extras)


def places_of(member: Array, size: int) -> Array:
    """[members, places]: where each sits in `member` [tables, seats]; all equally often."""
    return jnp.argsort(member.reshape(-1), stable=True).reshape(size, -1)


def over_members(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` for every member of a population: leaves of the arguments are [members, ...].

    Batched on an accelerator. A CPU takes members in turn: small batched products are slow there.
    """
    if jax.default_backend() == "cpu":
        return lambda *arguments: jax.lax.map(lambda each: function(*each), arguments)
    return jax.vmap(function)


def group_acts(
    group: Group, params: Any, places: Any, carry: Any, view: View, key: Key, tables: int
) -> tuple[Array, Any]:
    """Moves of a group on all seats of the cast [num_envs, seats]; one batched call."""
    if group.size == 1:
        move, carry, _ = group.policy.act(params, carry, view, key, group.greedy)
        return move, carry
    if group.balanced:
        move, carry, _ = members_act(
            group.policy, params, places, carry, view, key, group.greedy, tables
        )
        return move, carry

    def act(params: Any, carry: Any, view: View, key: Key) -> tuple[Array, Any]:
        move, carry, _ = group.policy.act(params, carry, view, key, group.greedy)
        return move, carry

    seats = view.active.shape[1]
    shown = jax.tree.map(lambda x: x.reshape(tables, -1, *x.shape[1:]), view)
    keys = jax.random.split(key, (tables, seats))
    # Parameters by table and seat; memories and views [environments of a table, seats, ...].
    on_seats = jax.vmap(act, in_axes=(0, 1, 1, 0), out_axes=1)
    move, carry = jax.vmap(on_seats)(params, carry, shown, keys)
    return move.reshape(-1, *move.shape[2:]), carry


def at_places(group: Group, params: Any, place: Array) -> Any:
    """Parameters for every table and seat [tables, seats, ...], unless nothing need be gathered."""
    if group.size == 1:
        return jax.tree.map(lambda x: x[0], params)
    if group.balanced:
        return params
    return jax.tree.map(lambda x: jnp.take(x, place, axis=0, mode="clip"), params)


def take_seats(tree: Any, seats: Array) -> Any:
    """Leaves [num_envs, all seats, ...] -> [num_envs, chosen, ...], as each table says."""
    tables = len(seats)

    def take(x: Array) -> Array:
        blocks = x.reshape(tables, -1, *x.shape[1:])
        index = seats.reshape(tables, 1, -1, *[1] * (x.ndim - 2))
        return jnp.take_along_axis(blocks, index, axis=2).reshape(len(x), -1, *x.shape[2:])

    return jax.tree.map(take, tree)


def by_member(tree: Any, places: Array, tables: int, axis: int = 0) -> Any:
    """Leaves [num_envs, seats, ...] -> [members, places * environments of a table, ...].

    With other axes in front of the environments, `axis` says how many; members come first then.
    """

    def regroup(x: Array) -> Array:
        front, (num_envs, seats), rest = (
            x.shape[:axis],
            x.shape[axis : axis + 2],
            x.shape[axis + 2 :],
        )
        blocks = x.reshape(*front, tables, num_envs // tables, seats, *rest)
        blocks = jnp.moveaxis(blocks, axis + 2, axis + 1)  # tables, seats, environments
        rows = blocks.reshape(*front, tables * seats, num_envs // tables, *rest)
        taken = jnp.take(rows, places, axis=axis)  # members, places, environments
        taken = taken.reshape(*front, len(places), -1, *rest)
        return jnp.moveaxis(taken, axis, 0)

    return jax.tree.map(regroup, tree)


def by_table(x: Array, places: Array, tables: int) -> Array:
    """The inverse of `by_member`."""
    rest = x.shape[2:]
    seats = places.size // tables
    rows = x.reshape(places.size, -1, *rest)
    blocks = rows[jnp.argsort(places.reshape(-1))].reshape(tables, seats, -1, *rest)
    return jnp.moveaxis(blocks, 2, 1).reshape(-1, seats, *rest)


def _like(mask: Array, x: Array) -> Array:
    """A mask [num_envs, seats] that broadcasts over components of actions."""
    return mask.reshape(*mask.shape, *[1] * (x.ndim - 2))

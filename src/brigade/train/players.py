"""Acting for all seats: the learner on its own seats, partners on the others.

Parameters are gathered by table and seat once per rollout (`take_seats`), so a step is one batched
call per architecture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from brigade.core import Acting, Array, Everyone, Group, Key, Matchmaker, Memories, Policy, View
from brigade.core.trees import choose, pick
from brigade.train.members import by_member, by_table, over_members, places_of


class Seated(struct.PyTreeNode):
    """Parameters and indices of a seating, ready to act."""

    learner: Any  # parameters
    groups: tuple[Any, ...]  # per group of the cast: parameters by table and seat
    own: Array | None = None  # [tables, own seats] int32; None: the learner has every seat
    others: Array | None = None  # [tables, other seats] int32
    order: Array | None = None  # [tables, seats] int32: index of each seat in (own, others)
    present: tuple[Any, ...] = ()  # per group, [tables, other seats] bool: its members' seats
    places: Array | None = None  # [members, places]: flat (table, seat) indices of each member
    critic_ids: Array | None = None  # [tables, own seats] int32: partner ids that critics get
    group_places: tuple[Any, ...] = ()  # the same per group, if it is balanced


@dataclass(frozen=True)
class Players:
    """The policies that can act, without their parameters, which are in `Acting`."""

    learner: Policy
    cast: tuple[Group, ...] = ()
    own_seats: int = 0  # the learner's seats at every table; 0: all of them
    members: int = 1  # policies of the learner; in a population, each has equally many seats
    names_partners: Matchmaker | None = None  # tells critics the ids of partners
    keeps_actions: bool = False  # rollouts hold the actions of all seats, whoever learns from them

    @property
    def alone(self) -> bool:
        """Whether one policy has every seat."""
        return self.members == 1 and not self.own_seats

    def seats(self, num_agents: int) -> tuple[int, int]:
        """The number of the learner's seats and of the cast's."""
        own = self.own_seats or num_agents
        return own, num_agents - own

    def initial_memory(self, num_envs: int, num_agents: int, tables: int) -> Memories:
        """Initial recurrent states of all policies."""
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
        """Gather parameters and indices for a seating, once per rollout."""
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
        places, critic_ids = None, None
        if self.members > 1:
            places = places_of(jnp.take_along_axis(seating.member, own, axis=1), self.members)
        if self.names_partners is not None:
            ids = self.names_partners.critic_id(seating)
            critic_ids = jnp.take_along_axis(ids, own, axis=1).astype(jnp.int32)
        return Seated(
            learner=acting.learner,
            groups=tuple(groups),
            own=own,
            others=others,
            order=jnp.argsort(by_owner, axis=1),
            present=tuple(present),
            places=places,
            critic_ids=critic_ids,
            group_places=tuple(group_places),
        )

    def act(
        self, seated: Seated, memory: Memories, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Memories, dict[str, Array]]:
        """Actions of all seats [num_envs, seats, ...], recurrent states, the learner's extras."""
        view = self.with_others(view)
        if self.alone:
            if self.learner.sees_state:
                view = self.with_state(seated, view, view)
            action, carry, extras = self.learner.act(
                seated.learner, memory.learner, view, key, greedy
            )
            return action, Memories(carry, ()), extras
        assert seated.order is not None
        learner_key, cast_key = jax.random.split(key)
        own_view = self.own_view(seated, view)
        act = self._members_act if self.members > 1 else self._learner_acts
        action, carry, extras = act(seated, memory.learner, own_view, learner_key, greedy)
        if not seated.groups:
            return action, Memories(carry, ()), extras
        assert seated.others is not None
        tables = len(seated.order)
        other_view = take_seats(view.replace(state=None), seated.others)
        seats = jnp.repeat(seated.others, len(view.obs) // tables, axis=0)
        shape = other_view.active.shape + action.shape[2:]
        others, carries = jnp.zeros(shape, action.dtype), []
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
            seen = other_view
            if group.policy.sees_state:
                seen = other_view.with_state(view.state, seats)
            act_now = partial(group_acts, group, params, places, before, seen, group_key, tables)
            idle = partial(no_actions, act_now, before)
            # Where a task has one partner of many, the other architectures need not act.
            of_group, after = (
                act_now() if len(self.cast) == 1 else jax.lax.cond(here.any(), act_now, idle)
            )
            here = jnp.repeat(here, len(of_group) // tables, axis=0)
            others = choose(here, of_group, others)
            carries.append(after)
        joint = take_seats(jnp.concatenate([action, others], axis=1), seated.order)
        return joint, Memories(carry, tuple(carries)), extras

    def with_others(self, view: View) -> View:
        """The view of all seats with the others' previous actions, if a policy sees them."""
        policies = (self.learner, *(group.policy for group in self.cast))
        if view.others is not None or not any(policy.sees_actions for policy in policies):
            return view
        return view.replace(others=actions_of_others(view.prev_action))

    def carry_to_train(self, seated: Seated, memory: Memories) -> Any:
        """What training needs of the learner's recurrent states, leaves [num_envs, seats, ...]."""
        carry = self.learner.carry_to_train(memory.learner)
        if self.members == 1:
            return carry
        assert seated.places is not None
        assert seated.own is not None
        places, tables = seated.places, len(seated.own)
        return jax.tree.map(lambda x: by_table(x, places, tables), carry)

    def own_view(self, seated: Seated, view: View) -> View:
        """The learner's seats of a view; `state` is dropped, or holds what only critics see."""
        seen = self.with_others(view) if self.learner.sees_actions else view.replace(others=None)
        own = seen.replace(state=None)
        if self.own_seats:
            assert seated.own is not None
            own = take_seats(own, seated.own)
        if seated.critic_ids is not None:
            ids = jnp.repeat(seated.critic_ids, len(view.obs) // len(seated.critic_ids), axis=0)
            return own.replace(state=Everyone(None, ids))
        if self.learner.sees_state:
            return self.with_state(seated, own, view)
        if self.own_seats and self.learner.sees_everyone:
            own = own.replace(state=Everyone(view.obs, self.seat_numbers(seated, len(view.obs))))
        return own

    def with_state(self, seated: Seated, own: View, view: View) -> View:
        """The learner's seats of a view, with the game's state."""
        if self.own_seats:
            return own.with_state(view.state, self.seat_numbers(seated, len(view.obs)))
        seats = jnp.arange(view.active.shape[1])
        return own.with_state(view.state, jnp.broadcast_to(seats, view.active.shape))

    def seat_numbers(self, seated: Seated, num_envs: int) -> Array:
        """[num_envs, own seats] int32: the learner's seats."""
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


def actions_of_others(actions: Array) -> Array:
    """[..., seats] -> [..., seats, other seats], from the next seat on."""
    seats = actions.shape[-1]
    after = (np.arange(seats)[:, None] + np.arange(1, seats)) % seats
    return actions[..., after]


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
    """Every member acts on its seats, in one batch each: all have equally many seats."""

    def act(params: Any, carry: Any, view: View, key: Key) -> Any:
        return policy.act(params, carry, view, key, greedy)

    keys = jax.random.split(key, len(places))
    views = by_member(view, places, tables)
    action, carry, extras = over_members(act)(params, carry, views, keys)
    back = partial(by_table, places=places, tables=tables)
    return back(action), carry, jax.tree.map(back, extras)


def no_actions(act: Callable[[], tuple[Array, Any]], carry: Any) -> tuple[Array, Any]:
    """What `act` would return for a group without a seat: any actions, and its states as before."""
    action, _ = jax.eval_shape(act)
    return jnp.zeros(action.shape, action.dtype), carry


def group_acts(
    group: Group, params: Any, places: Any, carry: Any, view: View, key: Key, tables: int
) -> tuple[Array, Any]:
    """Actions of a group on all seats of the cast [num_envs, seats], in one batched call."""
    if group.size == 1:
        action, carry, _ = group.policy.act(params, carry, view, key, group.greedy)
        return action, carry
    if group.balanced:
        action, carry, _ = members_act(
            group.policy, params, places, carry, view, key, group.greedy, tables
        )
        return action, carry

    def act(params: Any, carry: Any, view: View, key: Key) -> tuple[Array, Any]:
        action, carry, _ = group.policy.act(params, carry, view, key, group.greedy)
        return action, carry

    seats = view.active.shape[1]
    views = jax.tree.map(lambda x: x.reshape(tables, -1, *x.shape[1:]), view)
    keys = jax.random.split(key, (tables, seats))
    # Parameters are [seats, ...]; carries and views [environments of a table, seats, ...].
    on_seats = jax.vmap(act, in_axes=(0, 1, 1, 0), out_axes=1)
    action, carry = jax.vmap(on_seats)(params, carry, views, keys)
    return action.reshape(-1, *action.shape[2:]), carry


def at_places(group: Group, params: Any, place: Array) -> Any:
    """Parameters by table and seat [tables, seats, ...], or as they are if that is not needed."""
    if group.size == 1:
        return pick(params, 0)
    if group.balanced:
        return params
    return jax.tree.map(lambda x: jnp.take(x, place, axis=0, mode="clip"), params)


def take_seats(tree: Any, seats: Array) -> Any:
    """Leaves [num_envs, all seats, ...] -> [num_envs, chosen, ...]; `seats` is [tables, chosen]."""
    tables = len(seats)

    def take(x: Array) -> Array:
        blocks = x.reshape(tables, -1, *x.shape[1:])
        index = seats.reshape(tables, 1, -1, *[1] * (x.ndim - 2))
        return jnp.take_along_axis(blocks, index, axis=2).reshape(len(x), -1, *x.shape[2:])

    return jax.tree.map(take, tree)

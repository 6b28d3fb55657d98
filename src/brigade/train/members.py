"""Many policies: functions applied to each, and rows regrouped by the policy they belong to.

A learner and a method only ever see one policy. A population's rollout is split here: by table if
the learner joins the seats of a table, otherwise by seat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Learner, Seating, Trajectory


def over_members(function: Callable[..., Any]) -> Callable[..., Any]:
    """Apply `function` to every member: leaves of the arguments are [members, ...].

    Batched on an accelerator, one after another on a CPU, where small batched products are slow.
    """
    if jax.default_backend() == "cpu":
        return lambda *arguments: jax.lax.map(lambda each: function(*each), arguments)
    return jax.vmap(function)


def for_each(policies: int, function: Callable[..., Any], key: Key, *trees: Any) -> Any:
    """`function(key, *trees)` for every policy; leaves are [policies, ...] if there are several."""
    if policies == 1:
        return function(key, *trees)
    return over_members(function)(jax.random.split(key, policies), *trees)


def places_of(member: Array, size: int) -> Array:
    """[members, places]: flat indices of each member in `member` [tables, seats].

    All members must occur equally often.
    """
    return jnp.argsort(member.reshape(-1), stable=True).reshape(size, -1)


def by_member(tree: Any, places: Array, tables: int, axis: int = 0) -> Any:
    """Leaves [num_envs, seats, ...] -> [members, places * environments of a table, ...].

    `axis` is the number of other axes in front of the environments; members still come first.
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


def split(traj: Trajectory, learner: Learner, policies: int, seats_per_table: float) -> Trajectory:
    """The rollout of each policy: leaves [policies, T, rows, seats, ...].

    A row is an environment if the learner joins seats, otherwise one seat of an environment. A
    policy has `seats_per_table` seats at the tables where it sits.
    """
    assert traj.seating is not None
    joins, member = learner.joins_seats, own_members(traj.seating, traj)
    tables, seats = member.shape
    places = places_of(member[:, 0] if joins else member, policies)

    def rows(tree: Any, axis: int = 1) -> Any:
        """Leaves [T, B, seats, ...], or [B, seats, ...] with axis 0."""
        if joins:
            whole = jax.tree.map(lambda x: jnp.expand_dims(x, axis + 1), tree)
            return by_member(whole, places, tables, axis)
        grouped = by_member(tree, places, tables, axis)
        return jax.tree.map(lambda x: jnp.expand_dims(x, axis + 2), grouped)

    def per_env(x: Array) -> Array:
        """Leaves [T, B], the same for all rows of an environment."""
        each = jnp.broadcast_to(x[..., None], (*x.shape, 1 if joins else seats))
        return by_member(each, places, tables, 1)

    shaped = traj.info.get("shaped_reward")
    if shaped is not None and traj.seat is not None:  # partners have the other seats
        shaped = jnp.take_along_axis(shaped, traj.seat[None], axis=-1)
    return Trajectory(
        view=rows(traj.view),
        action=rows(traj.action),
        reward=rows(traj.reward),
        terminated=per_env(traj.terminated),
        truncated=per_env(traj.truncated),
        valid=per_env(traj.valid),
        info={} if shaped is None else {"shaped_reward": rows(shaped)},
        extras=rows(traj.extras),
        last_view=rows(traj.last_view, 0),
        last=rows(traj.last, 0),
        carry=rows(traj.carry),
        env_steps=round(traj.valid.size * seats / policies / seats_per_table),
    )


def own_members(seating: Seating, traj: Trajectory) -> Array:
    """[tables, own seats] int32: the policies at the tables, without partners."""
    if traj.seat is None:  # the population has every seat
        return seating.member
    own_seats = traj.seat.reshape(len(seating.member), -1, traj.seat.shape[-1])[:, 0]
    return jnp.take_along_axis(seating.member, own_seats, axis=1)

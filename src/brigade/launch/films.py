"""Who plays in a film of one policy with another."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from brigade.core import Acting, Cast, Environment, Seating
from brigade.errors import UserError
from brigade.registry import unknown_name
from brigade.train.players import Players


def seated(
    env: Environment, casts: Sequence[Cast], word: str | None = None
) -> tuple[Players, Acting]:
    """The first policy on a seat, the second on all others; the only one on all seats."""
    policy, params = casts[0].groups[0].policy, jax.tree.map(lambda x: x[0], casts[0].params[0])
    if len(casts) == 1:
        if word is not None:
            raise UserError("--seat is for a policy with a --partner; alone it has every seat")
        return Players(policy), Acting(params)
    seats = env.num_agents
    if seats < 2:
        raise UserError("this game has one seat, so there is no seat for a --partner")
    known = [str(number) for number in range(seats)]
    if word is not None and word not in known:
        raise UserError(unknown_name("seat", word, known))
    own = jnp.arange(seats) == int(word or 0)
    seating = Seating(jnp.zeros((1, seats), jnp.int32), own[None])
    return Players(policy, casts[1].groups, own_seats=1), Acting(params, casts[1].params, seating)

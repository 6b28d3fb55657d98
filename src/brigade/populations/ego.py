"""The base class of generators that train one ego with partners they make themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from brigade.core import Cast, Environment, Group, Learner, Policy
from brigade.core.checks import within
from brigade.populations.coplay import CoPlay
from brigade.populations.generator import Generator

ITSELF = "itself"


@dataclass(frozen=True)
class EgoGenerator(CoPlay, Generator):
    """One policy; use --seeds for several. Evaluations play it with itself."""

    members: int = 1
    """Number of policies: 1. Use --seeds for more."""

    measures: ClassVar[tuple[str, ...]] = ("self_play",)

    def __post_init__(self) -> None:
        within("members", self.members, 1, 1)

    @property
    def tables(self) -> int:
        return 1

    def names(self) -> list[str]:
        return [type(self).__name__.lower()]

    def evaluated(self) -> tuple[str, ...]:
        return (ITSELF,)

    def check(self, env: Environment, learner: Learner) -> None:
        if env.num_agents < 2:
            raise ValueError("the ego needs a partner; this game has one seat")


def group_of_copies(policy: Any, like: Policy, names: tuple[str, ...]) -> Cast:
    """A cast of one group of policies whose parameters have the shapes of `like`'s."""
    shapes = jax.eval_shape(like.init, jax.random.key(0))
    params = jax.tree.map(lambda x: jnp.zeros((len(names), *x.shape), x.dtype), shapes)
    return Cast((Group(policy, len(names)),), (params,), names)


def stacked_once(params: Any) -> Any:
    """Leaves [1, ...], for a group of one."""
    return jax.tree.map(lambda x: x[None], params)

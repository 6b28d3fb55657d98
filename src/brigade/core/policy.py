"""The interface of policies."""

from __future__ import annotations

from typing import Protocol

from brigade.core.types import (
    Array,
    Carry,
    Key,
    Params,
    View,
)


class Policy(Protocol):
    """A function plus parameters. Views and recurrent states have leaves [*batch, ...], with one
    entry per seat that it acts for.

    Optional members: `always_samples = True` if it has no greedy actions;
    `slow_when_batched = True` if seeds train faster one after another than in a batch; `predicts`,
    names of the environment's `targets` that rollouts should hold, in `extras["targets"]`.
    """

    def init(self, key: Key) -> Params: ...
    def initial_carry(self, batch: tuple[int, ...]) -> Carry:
        """Initial recurrent states; () for a policy without one."""
        ...

    def act(
        self, params: Params, carry: Carry, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Carry, dict[str, Array]]:
        """Actions [*batch, ...], the next recurrent states and what to record for the learner.

        Recurrent states are reset where `view.first` is True.
        """
        ...

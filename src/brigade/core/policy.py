"""The interface of policies."""

from __future__ import annotations

from typing import Any, ClassVar

import jax

from brigade.core.distributions import Categorical, Sampled
from brigade.core.environment import Environment
from brigade.core.types import Array, Carry, Key, Params, View


class Policy:
    """A function plus parameters: the base class of policies.

    Views and recurrent states have leaves [*batch, ...], with one entry per seat that it acts for.
    A policy is hashable, such as a frozen dataclass: it is a static argument of compiled programs.
    Only `act` has no default.
    """

    # Its registered name in policy files; empty if a file cannot hold it.
    kind: ClassVar[str] = ""

    @property
    def always_samples(self) -> bool:
        """Whether it has no greedy actions."""
        return False

    @property
    def slow_when_batched(self) -> bool:
        """Whether seeds train faster one after another than in a batch."""
        return False

    @property
    def sees_everyone(self) -> bool:
        """Whether its critic gets the observations of all seats, in `View.state`."""
        return False

    @property
    def sees_state(self) -> bool:
        """Whether it acts on the game's state, which it then gets as a FromSeat in `View.state`."""
        return False

    @property
    def predicts(self) -> tuple[str, ...]:
        """Names of the environment's labels that rollouts should hold, in `extras["targets"]`."""
        return ()

    @property
    def needs_actions(self) -> bool:
        """Whether rollouts should hold the actions of all seats, in `extras["joint_action"]`
        [T, B, own seats, all seats, ...]."""
        return False

    @property
    def sees_actions(self) -> bool:
        """Whether it gets the previous actions of the other seats, in `View.others`."""
        return False

    @property
    def outlives_episodes(self) -> bool:
        """Whether a new episode that does not reset its memory begins with the action and the
        reward at the end of the last one: otherwise it would never see that reward."""
        return False

    @property
    def distribution(self) -> type[Sampled]:
        """What the logits of its learner's `outputs` mean."""
        return Categorical

    def init(self, key: Key) -> Params:
        """Initial parameters; () if there are none, as by default."""
        return ()

    def initial_carry(self, batch: tuple[int, ...]) -> Carry:
        """Initial recurrent states; () for a policy without one."""
        return ()

    @property
    def has_memory(self) -> bool:
        """Whether it has recurrent states."""
        return bool(jax.tree.leaves(jax.eval_shape(lambda: self.initial_carry((1,)))))

    def carry_to_train(self, carry: Carry) -> Carry:
        """What training needs of recurrent states at the first timestep of a sequence.

        () by default. What is left out, such as a large cache, is never recorded.
        """
        return ()

    def act(
        self, params: Params, carry: Carry, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Carry, dict[str, Any]]:
        """Actions [*batch, ...], the next recurrent states and what to record for the learner.

        Recurrent states are reset where `view.resets` is True.
        """
        raise NotImplementedError

    def logits(self, params: Params, view: View) -> Array:
        """What it would choose its actions from at these timesteps, without memory of others."""
        raise ValueError(f"{type(self).__name__} has no probabilities of actions; use ippo")

    def actor(self, params: Params, task: int | None) -> tuple[Policy, Params]:
        """The policy and its parameters without what only training needs, acting as on `task`."""
        return self, params

    @classmethod
    def for_game(cls, env: Environment) -> Policy:
        """A partner for this environment; a ValueError says why there is none."""
        return cls()

    def named(self, which: str) -> Policy:
        """The partner that is called NAME:WHICH; a ValueError says which there are."""
        raise ValueError(f"this partner has no {which!r}; use its name alone")

    def member(self) -> tuple[Policy, Params]:
        """Its policy and parameters as a partner; several classes can share one policy."""
        return self, self.init(jax.random.key(0))

    def settings(self) -> dict[str, Any]:
        """Plain values from which the registered function of its `kind` makes the policy again."""
        raise NotImplementedError

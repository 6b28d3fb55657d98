"""Policies in plain Python on NumPy arrays: a PyTorch network, a search, a rule.

An agent is a function `act(view)` that returns actions, or a class with a method `act(view)`. An
agent with memory has `initial_memory(number)` and `act(view, memory)`, which returns actions and
the next memory. Leaves of `view` and `memory` are NumPy arrays [number, ...], with one entry per
seat that it acts for, in all games at once.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Array, Environment, Key, Policy, View
from brigade.core.trees import choose
from brigade.core.types import Carry
from brigade.errors import UserError


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a log record is not about an error that is reported in one line anyway."""
    return not (record.exc_info and isinstance(record.exc_info[1], UserError))


logging.getLogger("jax._src.callback").addFilter(_is_news)


@dataclass(frozen=True, eq=False)
class HostPolicy(Policy):
    """An agent as a policy: at every timestep, compiled programs call it once for all games.

    That is slower than a policy that is part of the program. It acts as it likes: `greedy` and
    the random key are not passed on.
    """

    name: str  # for messages, such as my_agent.py:act
    agent: Callable[..., Any]
    initial_memory: Callable[[int], Any] | None
    num_actions: int
    continuous: bool

    def initial_carry(self, batch: tuple[int, ...]) -> Carry:
        """The agent's memory at the start of an episode."""
        if self.initial_memory is None:
            return ()
        number = int(np.prod(batch))
        memory = self._asked(self.initial_memory, number)
        for leaf in jax.tree.leaves(memory):
            if np.shape(leaf)[:1] != (number,):
                raise UserError(
                    f"{self.name}: initial_memory({number}) must return arrays [{number}, ...], "
                    f"not of shape {np.shape(leaf)}"
                )
        return jax.tree.map(lambda x: jnp.asarray(x).reshape(*batch, *np.shape(x)[1:]), memory)

    def act(
        self, params: tuple[()], carry: Carry, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Carry, dict[str, Array]]:
        """One action per seat."""
        batch = view.active.shape
        shape = (*batch, self.num_actions) if self.continuous else batch
        action = jax.ShapeDtypeStruct(shape, jnp.float32 if self.continuous else jnp.int32)
        after = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), carry)
        seen = view.replace(state=None, forget=None)
        memory = choose(view.resets, self.initial_carry(batch), carry)
        chosen, after = jax.pure_callback(
            self._act, (action, after), seen, memory, vmap_method="broadcast_all"
        )
        return chosen, after, {}

    def _act(self, view: View, memory: Any) -> tuple[np.ndarray, Any]:
        """The agent's actions for all batch axes at once."""
        batch = view.active.shape
        number = int(np.prod(batch))

        def flat(x: Any) -> np.ndarray:
            return np.asarray(x).reshape(number, *x.shape[len(batch) :])

        arguments = jax.tree.map(flat, (view, memory))
        if self.initial_memory is None:
            action, after = self._asked(self.agent, arguments[0]), ()
        else:
            action, after = self._parted(self._asked(self.agent, *arguments))
        checked = self._checked(action, number)
        kept = jax.tree.map(self._like, after, memory)
        return checked.reshape(*batch, *checked.shape[1:]), kept

    def _asked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of the agent returns; whatever it raises is one line."""
        try:
            return function(*arguments)
        except Exception as error:  # somebody else's code can raise anything
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UserError(
                f"{self.name} failed in line {place.lineno} of {place.filename}: {reason}"
            ) from error

    def _parted(self, returned: Any) -> tuple[Any, Any]:
        """Actions and memory."""
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise UserError(
                f"{self.name} has initial_memory, so act(view, memory) must return actions and "
                f"the next memory, not {type(returned).__name__}"
            )
        return returned

    def _checked(self, action: Any, number: int) -> np.ndarray:
        """The actions, if they are some."""
        actions = np.asarray(action)
        shape = (number, self.num_actions) if self.continuous else (number,)
        kinds = "fiu" if self.continuous else "iu"
        if actions.shape != shape or actions.dtype.kind not in kinds:
            wanted = "numbers" if self.continuous else f"integers from 0 to {self.num_actions - 1}"
            raise UserError(
                f"{self.name} must return {wanted} of shape {shape}, one entry per seat; it "
                f"returned {actions.dtype} of shape {actions.shape}"
            )
        if self.continuous:
            return actions.astype(np.float32)
        if not ((actions >= 0) & (actions < self.num_actions)).all():
            wrong = actions[(actions < 0) | (actions >= self.num_actions)][0]
            raise UserError(
                f"{self.name} returned the action {wrong}; actions are 0 to {self.num_actions - 1}"
            )
        return actions.astype(np.int32)

    def _like(self, new: Any, old: Any) -> np.ndarray:
        """A leaf of the memory with the shape and the type of the one before."""
        array = np.asarray(new)
        if array.size != old.size:
            raise UserError(
                f"{self.name} returned a memory of shape {array.shape}; every leaf must keep the "
                "shape that initial_memory gave it"
            )
        return array.astype(old.dtype).reshape(old.shape)


def host_policy(name: str, agent: Any, env: Environment) -> HostPolicy:
    """The policy of a function or a class in a user's file, for this game."""
    if isinstance(agent, type):
        try:
            agent = agent()
        except Exception as error:  # somebody else's code can raise anything
            raise UserError(f"{name} cannot be made without arguments: {error}") from error
    act = getattr(agent, "act", agent)
    if not callable(act):
        raise UserError(
            f"{name} is no agent; give a function act(view), or a class with a method act"
        )
    memory = getattr(agent, "initial_memory", None)
    return HostPolicy(name, act, memory, env.num_actions, bool(env.continuous))

"""Policies of Q-learning: greedy actions, with exploration and additions that help coordination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from brigade.core import Array, Key, Policy, Symmetries, View
from brigade.core.distributions import Sampled
from brigade.nets.encoders import encoder_class
from brigade.nets.plain import network_from, plain_settings
from brigade.nets.q_network import (
    PREDICTIONS,
    UNAVAILABLE,
    Carries,
    GreedyValue,
    QNetwork,
    QOutputs,
)

EXPLORATION_VALUES = 80  # different exploration rates, one environment after another
NO_MOVE = -1

Moves = tuple[tuple[tuple[int, ...], ...], ...]  # see `Environment.shown_moves`


class QCarry(NamedTuple):
    """What the policy remembers; leaves [..., seats, ...]."""

    core: Carries  # recurrent states
    symmetry: Array | None = None  # [..., seats] int32: how each seat renames the game
    greedy: Array | None = None  # [..., seats] int32: the last greedy move of one's own seats


class Seen(NamedTuple):
    """What a seat gets to see, after renaming."""

    obs: Array
    avail: Array
    move: Array | None  # [...] int32: the last greedy move, or -1


@dataclass(frozen=True)
class QPolicy(Policy):
    """Greedy actions, or random ones with a probability that differs between environments.

    Other-play: in training every seat but the first renames the game by a random symmetry, anew in
    every episode. SAD: seats see the greedy action of the last move beside the one that was played.
    """

    network: QNetwork
    obs_shape: tuple[int, ...]
    exploration: float = 0.0  # the largest rate of random actions; 0: always greedy
    exploration_spread: float = 7.0  # the smallest rate is the largest to the power 1 + this
    symmetries: Symmetries | None = None  # for other-play, in training
    shown_moves: Moves | None = None  # for SAD: how observations show the last move
    predicts: tuple[str, ...] = ()  # targets of the environment that rollouts should hold

    kind: ClassVar[str] = "q_network"  # its registered name in policy files

    @property
    def slow_when_batched(self) -> bool:
        """True with convolutions: batched over weights, they become slow grouped ones."""
        return not encoder_class(self.network.encoder).flattens

    @property
    def distribution(self) -> type[Sampled]:
        return GreedyValue

    def init(self, key: Key) -> Any:
        """Initial parameters."""
        first = jnp.zeros((1, 1), bool)
        seen = Seen(
            jnp.zeros((1, 1, *self.obs_shape), jnp.uint8),
            jnp.ones((1, 1, self.network.num_actions), bool),
            None if self.shown_moves is None else jnp.zeros((1, 1), jnp.int32),
        )
        inputs = (self.inputs(seen), seen.avail, first, self.network.initial_carry((1,)))
        return self.network.init(key, *inputs)["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> QCarry:
        """Initial recurrent states."""
        zeros = jnp.zeros(batch, jnp.int32)
        return QCarry(
            self.network.initial_carry(batch),
            None if self.symmetries is None else zeros,
            None if self.shown_moves is None else zeros + NO_MOVE,
        )

    def carry_to_train(self, carry: QCarry) -> Carries:
        """The network's states."""
        return carry.core

    def inputs(self, seen: Seen) -> Array:
        """What the network gets: the observation, and with SAD the greedy move as a one-hot."""
        if seen.move is None:
            return seen.obs
        flat = seen.obs.reshape(*seen.move.shape, -1)
        move = jax.nn.one_hot(seen.move, self.network.num_actions, dtype=flat.dtype)
        return jnp.concatenate([flat, move], axis=-1)

    def values(
        self, params: Any, seen: Seen, first: Array, carry: Carries, dropout: Key | None = None
    ) -> QOutputs:
        """Values of sequences, leaves [T, ...], and the last recurrent states."""
        inputs = (self.inputs(seen), seen.avail, first, carry, dropout)
        out: Any = self.network.apply({"params": params}, *inputs)
        return QOutputs(*out)

    def act(
        self, params: Any, carry: QCarry, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, QCarry, dict[str, Any]]:
        """One action per seat; with `greedy` also without other-play."""
        symmetry_key, explore_key, action_key = jax.random.split(key, 3)
        symmetry = None if greedy else self.next_symmetry(carry, view, symmetry_key)
        seen = self.seen(view.obs, view.avail, symmetry, self.last_move(carry, view))
        now, first = jax.tree.map(lambda x: x[None], (seen, view.resets))
        values, core, _ = self.values(params, now, first, carry.core)
        best = values[0].argmax(-1).astype(jnp.int32)
        choice = best
        if self.exploration and not greedy:
            logits = jnp.where(seen.avail, 0.0, UNAVAILABLE)
            at_random = jax.random.categorical(action_key, logits).astype(jnp.int32)
            explores = jax.random.uniform(explore_key, best.shape) < self.rates(best.shape)
            choice = jnp.where(explores, at_random, best)
        after = QCarry(
            core,
            carry.symmetry if symmetry is None else symmetry,
            None if carry.greedy is None else self.own_move(best, symmetry, view),
        )
        extras = {"symmetry": symmetry, "choice": choice, "move": seen.move}
        return self.original(choice, symmetry), after, extras

    # --- other-play ---

    def next_symmetry(self, carry: QCarry, view: View, key: Key) -> Array | None:
        """How every seat renames this timestep: a new symmetry when an episode begins."""
        if self.symmetries is None or carry.symmetry is None:
            return None
        shape = view.first.shape
        sampled = jax.random.randint(key, shape, 0, len(self.symmetries.action))
        others = jnp.arange(shape[-1]) > 0  # renaming the first seat as well would add nothing
        return jnp.where(view.first, jnp.where(others, sampled, 0), carry.symmetry)

    def seen(self, obs: Array, avail: Array, symmetry: Array | None, move: Array | None) -> Seen:
        """What seats see of the game as it is; `move` is the last greedy one."""
        if symmetry is None or self.symmetries is None:
            return Seen(obs, avail, move)
        entries = jnp.asarray(self.symmetries.observation)[symmetry].astype(jnp.int32)
        actions = jnp.asarray(self.symmetries.action)[symmetry].astype(jnp.int32)
        if move is not None:
            renamed = (actions == move[..., None]).argmax(-1).astype(jnp.int32)
            move = jnp.where(move == NO_MOVE, NO_MOVE, renamed)
        return Seen(
            jnp.take_along_axis(obs, entries, axis=-1),
            jnp.take_along_axis(avail, actions, axis=-1),
            move,
        )

    def original(self, action: Array, symmetry: Array | None) -> Array:
        """The action in the game as it is."""
        if symmetry is None or self.symmetries is None:
            return action
        return jnp.asarray(self.symmetries.action)[symmetry, action].astype(jnp.int32)

    # --- SAD ---

    def last_move(self, carry: QCarry, view: View) -> Array | None:
        """[..., seats] int32: the last move as it would have been without exploration.

        Of one's own seats that is known; a partner's move counts as its greedy one.
        """
        if carry.greedy is None or self.shown_moves is None:
            return None
        played = observed_move(view.obs, self.shown_moves)
        return jnp.where((carry.greedy == NO_MOVE) | view.first, played, carry.greedy)

    def own_move(self, best: Array, symmetry: Array | None, view: View) -> Array:
        """The greedy action of whichever own seat moves now, known to all own seats."""
        move = jnp.where(view.active, self.original(best, symmetry), NO_MOVE)
        return jnp.broadcast_to(move.max(-1, keepdims=True), move.shape)

    # --- exploration, and files ---

    def rates(self, shape: tuple[int, ...]) -> Array:
        """Exploration rates [environments, 1, ...]: many small ones, few large ones."""
        number = jnp.arange(shape[0]) % EXPLORATION_VALUES
        power = 1.0 + self.exploration_spread * number / (EXPLORATION_VALUES - 1)
        return (self.exploration**power).reshape(-1, *[1] * (len(shape) - 1))

    def settings(self) -> dict[str, Any]:
        """Plain values from which `make_q_policy` rebuilds the policy."""
        moves = {} if self.shown_moves is None else {"shown_moves": self.shown_moves}
        shape = list(self.obs_shape)
        return {"network": plain_settings(self.network), "obs_shape": shape, **moves}

    def actor(self, params: Any, task: int | None) -> tuple[QPolicy, Any]:
        """The policy without what only training needs; it acts alike on all tasks."""
        network = self.network.clone(predictions=0, dropout=0.0)
        acting = {name: part for name, part in params.items() if name != PREDICTIONS}
        return QPolicy(network, self.obs_shape, shown_moves=self.shown_moves), acting


def observed_move(obs: Array, moves: Moves) -> Array:
    """[..., entries] -> [...] int32: the action that the observation shows as the last move."""
    flat = obs.astype(bool)
    shown = [
        jnp.any(jnp.stack([flat[..., list(entries)].all(-1) for entries in choices]), axis=0)
        if choices
        else jnp.zeros(obs.shape[:-1], bool)
        for choices in moves
    ]
    found = jnp.stack(shown, axis=-1)
    return jnp.where(found.any(-1), found.argmax(-1), NO_MOVE).astype(jnp.int32)


def make_q_policy(settings: Mapping[str, Any]) -> QPolicy:
    """A recurrent Q-network as its `settings` describe it."""
    network = network_from(QNetwork, settings["network"])
    shape, moves = tuple(int(n) for n in settings["obs_shape"]), settings.get("shown_moves")
    if moves is not None:
        entries = range(shape[0]) if len(shape) == 1 else ()
        moves = tuple(tuple(tuple(map(int, each)) for each in choices) for choices in moves)
        if len(moves) != network.num_actions:
            raise ValueError(f"shown_moves has {len(moves)} actions, not {network.num_actions}")
        if not all(n in entries for choices in moves for each in choices for n in each):
            raise ValueError(f"shown_moves names entries beyond an observation of {shape}")
    return QPolicy(network, shape, shown_moves=moves)

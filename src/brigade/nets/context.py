"""Policies that adapt within their context: a transformer over all that they have seen and done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from brigade.core import Array, Key, Policy, View
from brigade.core.distributions import Categorical
from brigade.nets.encoders import encoder_class
from brigade.nets.plain import network_from, plain_settings
from brigade.nets.transformer import Positions, Ring, Transformer

Marks = Literal["step", "first", "none"]


class Tokens(struct.PyTreeNode):
    """What an ego knows before it acts, a token per timestep: leaves [..., timesteps]."""

    obs: Array  # [..., *observation]
    action: Array  # int32: its previous action, -1 if there is none
    reward: Array  # f32: and what it earned
    step: Array  # int32: timesteps of the episode so far
    others: Array | None = None  # [..., other seats] int32: the others' previous actions
    next_obs: Array | None = None  # [..., *observation]; for tokens that are transitions

    @classmethod
    def of(cls, view: View, step: Array, next_obs: Array | None = None) -> Tokens:
        """The tokens of views."""
        return cls(view.obs, view.prev_action, view.prev_reward, step, view.others, next_obs)


class ContextNetwork(nn.Module):
    """From tokens to logits. `others` is the number of other seats whose actions it sees."""

    num_actions: int
    encoder: str = "mlp"
    hidden: tuple[int, ...] = (64,)
    activation: str = "relu"
    layer_norm: bool = True
    layers: int = 4
    width: int = 256
    heads: int = 4
    context: int = 500
    positions: Positions = "rotary"
    marks: Marks = "step"
    horizon: int = 400  # of the game: steps that marks tell apart
    others: int = 0
    blank: bool = False
    query_first: bool = False
    keeps_last: bool = True
    reward_scale: float = 1.0
    predicts_obs: int = 0  # entries of the next observation to predict, in training
    dropout: float = 0.0
    attention_dropout: float = 0.0
    dtype: Any = jnp.float32

    def setup(self) -> None:
        """The parts, shared by both ways of use."""
        self.encode = encoder_class(self.encoder)(
            self.hidden, self.activation, self.layer_norm, dtype=self.dtype, name="encoder"
        )
        # Every part of a token begins with entries of about 1: were the reward's much smaller, it
        # would take long to be noticed.
        self.shown = nn.Dense(self.width, dtype=self.dtype, name="shown")
        self.earned = nn.Dense(self.width, dtype=self.dtype, name="earned")
        self.own_action = table(self.num_actions + 1, self.width, "own_action")
        self.other_actions = [
            table(self.num_actions + 1, self.width, f"other_action_{seat}")
            for seat in range(self.others)
        ]
        if self.query_first:
            self.shown_next = nn.Dense(self.width, dtype=self.dtype, name="shown_next")
        if self.marks != "none":
            number = self.horizon if self.marks == "step" else 2
            self.mark = table(number, self.width, "mark")
        self.transformer = Transformer(
            self.layers,
            self.width,
            self.heads,
            1 if self.blank else self.context,
            self.positions,
            self.dropout,
            self.attention_dropout,
            self.dtype,
            name="transformer",
        )
        self.head = nn.Dense(self.num_actions, name="head")
        if self.predicts_obs:
            self.obs_head = nn.Dense(self.predicts_obs, name="obs_head")

    def __call__(
        self, tokens: Tokens, action: Array | None = None, train: bool = False
    ) -> tuple[Array, Array | None]:
        """Sequences [N, T] -> logits [N, T, actions], and the observation after `action` [N, T]."""
        seen = self.transformer(self.embedded(tokens), train)
        predicted = None
        if self.predicts_obs and (action is not None or self.is_initializing()):
            taken = tokens.action if action is None else action
            known = jax.nn.one_hot(taken, self.num_actions)
            predicted = self.obs_head(jnp.concatenate([seen, known], axis=-1))
        return self.head(seen), predicted

    def step(self, tokens: Tokens, length: Array, rings: tuple[Ring, ...]) -> tuple[Array, Any]:
        """One token each [N] after `length` [N] others -> logits [N, actions], and the rings."""
        seen, rings = self.transformer.step(self.embedded(tokens), length, rings)
        return self.head(seen), rings

    def embedded(self, tokens: Tokens) -> Array:
        """[..., width]."""
        batch, nothing = tokens.action.shape, jnp.zeros((), jnp.int32)
        action, reward, others = tokens.action, tokens.reward, tokens.others
        if self.blank:
            action, reward = jnp.full_like(action, -1), jnp.zeros_like(reward)
            others = None if others is None else jnp.full_like(others, -1)
        token = self.shown(self.encode(tokens.obs, nothing, batch)) + self.own_action(action + 1)
        token = token + self.earned(self.reward_scale * reward[..., None])
        for seat, seen in enumerate(self.other_actions):
            assert others is not None
            token = token + seen(others[..., seat] + 1)
        if self.query_first:
            known = jnp.zeros_like(tokens.obs) if tokens.next_obs is None else tokens.next_obs
            token = token + self.shown_next(self.encode(known, nothing, batch))
        if self.marks == "none":
            return token
        later = self.horizon - 1 if self.marks == "step" else 1
        return token + self.mark(jnp.minimum(tokens.step, later))


def table(rows: int, width: int, name: str) -> nn.Embed:
    """Embeddings with entries of about 1."""
    return nn.Embed(rows, width, embedding_init=nn.initializers.normal(1.0), name=name)


class Context(struct.PyTreeNode):
    """What the policy remembers; leaves [*batch, ...]."""

    rings: tuple[Ring, ...]  # a layer each
    length: Array  # int32: timesteps since it was emptied, also those that the rings have lost
    step: Array  # int32: timesteps of the episode so far


@dataclass(frozen=True)
class ContextPolicy(Policy):
    """Chooses each action from all that happened in its context, which outlives episodes.

    The context is emptied by setting its length to 0: rings are never rewritten.
    """

    network: ContextNetwork
    obs_shape: tuple[int, ...]

    kind: ClassVar[str] = "context"  # its registered name in policy files

    @property
    def slow_when_batched(self) -> bool:
        """True with convolutions: batched over weights, they become slow grouped ones."""
        return not encoder_class(self.network.encoder).flattens

    @property
    def sees_actions(self) -> bool:
        return bool(self.network.others)

    @property
    def outlives_episodes(self) -> bool:
        return self.network.keeps_last

    def init(self, key: Key) -> Any:
        """Initial parameters."""
        nothing, others = jnp.zeros((1, 1), jnp.int32), None
        if self.network.others:
            others = jnp.zeros((1, 1, self.network.others), jnp.int32)
        obs = jnp.zeros((1, 1, *self.obs_shape), jnp.uint8)
        tokens = Tokens(obs, nothing, nothing.astype(jnp.float32), nothing, others)
        return self.network.init(key, tokens)["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> Any:
        """An empty context; a query that is in front of its context sees none of it."""
        net, nothing = self.network, jnp.zeros(batch, jnp.int32)
        shape = (*batch, net.heads, 1 if net.blank else net.context, net.width // net.heads)
        layers = 0 if net.query_first else net.layers
        rings = tuple(Ring(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(layers))
        return Context(rings, nothing, nothing)

    def act(
        self, params: Any, carry: Context, view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, Context, dict[str, Any]]:
        """One action per seat."""
        step = jnp.where(view.first, 0, carry.step + 1)
        length = jnp.where(view.resets, 0, carry.length)
        tokens, batch = Tokens.of(view, step), view.active.shape

        def flat(x: Array) -> Array:
            return x.reshape(-1, *x.shape[len(batch) :])

        rings: Any = carry.rings
        if self.network.query_first:
            blank = tokens.replace(
                action=jnp.full_like(tokens.action, -1),
                reward=jnp.zeros_like(tokens.reward),
                step=jnp.zeros_like(step),
                others=None if tokens.others is None else jnp.full_like(tokens.others, -1),
            )
            alone = jax.tree.map(lambda x: flat(x)[:, None], blank)
            logits = self.network.apply({"params": params}, alone)[0][:, 0]
        else:
            one_each, lengths, before = jax.tree.map(flat, (tokens, length, rings))
            logits, after = self.network.apply(
                {"params": params}, one_each, lengths, before, method=ContextNetwork.step
            )
            rings = jax.tree.map(lambda x, like: x.reshape(like.shape), after, rings)
        logits = Categorical.mask(logits.reshape(*batch, -1), view.avail)
        chosen = Categorical.mode(logits) if greedy else Categorical.sample(key, logits)
        return chosen, Context(rings, length + 1, step), {}

    def sequence(
        self,
        params: Any,
        tokens: Tokens,
        action: Array | None = None,
        dropout: Key | None = None,
    ) -> tuple[Array, Array | None]:
        """Logits of sequences [N, T], and predictions of what is seen after `action`."""
        rngs = {} if dropout is None else {"dropout": dropout}
        found: Any = self.network.apply(
            {"params": params}, tokens, action, dropout is not None, rngs=rngs
        )
        return found[0], found[1]

    def settings(self) -> dict[str, Any]:
        """Plain values from which `make_context_policy` rebuilds the policy."""
        return {"network": plain_settings(self.network), "obs_shape": list(self.obs_shape)}

    def actor(self, params: Any, task: int | None) -> tuple[ContextPolicy, Any]:
        """The policy without what only training needs; it acts alike on all tasks."""
        network = self.network.clone(predicts_obs=0, dropout=0.0, attention_dropout=0.0)
        acting = {name: part for name, part in params.items() if name != "obs_head"}
        return ContextPolicy(network, self.obs_shape), acting


def make_context_policy(settings: Mapping[str, Any]) -> ContextPolicy:
    """A policy with a context as its `settings` describe it."""
    network = network_from(ContextNetwork, settings["network"])
    return ContextPolicy(network, tuple(int(n) for n in settings["obs_shape"]))

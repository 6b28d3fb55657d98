"""A causal transformer whose attention reaches a fixed number of timesteps back.

It is used in two ways that give the same numbers: on whole sequences in training, and timestep by
timestep when acting, with the keys and values of the timesteps before in a ring.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from brigade.core import Array

Positions = Literal["rotary", "learned", "none"]

BLOCK = 250  # queries whose scores are computed at once on a CPU
SLOWEST_TURN = 10_000.0  # of rotary positions, in timesteps
NOT_SEEN = -1e30


class Ring(NamedTuple):
    """Keys and values of the last timesteps of one layer: [sequences, heads, context, width].

    In this order of axes, and in float32, a step is three times as fast on a CPU as in others.
    """

    keys: Array
    values: Array


class Transformer(nn.Module):
    """Layers of attention and of a fully connected network, each after a layer norm."""

    layers: int
    width: int
    heads: int
    context: int  # how many timesteps attention reaches back, the present one included
    positions: Positions = "rotary"
    dropout: float = 0.0  # of what every part adds, and of the inputs
    attention_dropout: float = 0.0
    dtype: Any = jnp.float32

    def setup(self) -> None:
        """The layers, shared by both ways of use."""
        rotary = self.positions == "rotary"
        self.blocks = [
            Block(
                self.width,
                self.heads,
                self.context,
                rotary,
                self.dropout,
                self.attention_dropout,
                self.dtype,
                name=f"block_{number}",
            )
            for number in range(self.layers)
        ]
        self.last_norm = nn.LayerNorm(dtype=jnp.float32, name="last_norm")
        self.drop = nn.Dropout(self.dropout)
        if self.positions == "learned":
            self.places = nn.Embed(self.context, self.width, name="places")

    def __call__(self, x: Array, train: bool = False) -> Array:
        """[sequences, T, width] -> [sequences, T, width]: all timesteps at once, from the first."""
        place = jnp.arange(x.shape[1])
        x = self.drop(self.with_places(x, place), deterministic=not train)
        for block in self.blocks:
            x = block(x, place, train)
        return self.last_norm(x)

    def step(self, x: Array, length: Array, rings: tuple[Ring, ...]) -> tuple[Array, Any]:
        """One timestep [sequences, width] after `length` [sequences] others, and the new rings."""
        x = self.with_places(x, length)
        after = []
        for block, ring in zip(self.blocks, rings, strict=True):
            x, ring = block.step(x, length, ring)
            after.append(ring)
        return self.last_norm(x), tuple(after)

    def with_places(self, x: Array, place: Array) -> Array:
        """With learned positions, which start again after every `context` timesteps."""
        return x + self.places(place % self.context) if self.positions == "learned" else x


class Block(nn.Module):
    """Attention, then a fully connected network; each adds to its input."""

    width: int
    heads: int
    context: int
    rotary: bool
    dropout: float
    attention_dropout: float
    dtype: Any

    def setup(self) -> None:
        """The parts."""
        self.norm_in, self.norm_out = (nn.LayerNorm(dtype=jnp.float32) for _ in range(2))
        self.project = nn.Dense(3 * self.width, dtype=self.dtype)
        self.mix = nn.Dense(self.width, dtype=self.dtype)
        self.widen = nn.Dense(4 * self.width, dtype=self.dtype)
        self.narrow = nn.Dense(self.width, dtype=self.dtype)
        self.drop = nn.Dropout(self.dropout)
        self.drop_weights = nn.Dropout(self.attention_dropout)

    def __call__(self, x: Array, place: Array, train: bool) -> Array:
        """[sequences, T, width], and the position of each timestep [T]."""
        query, key, value = self.projected(x, place)  # [sequences, heads, T, width of a head]
        if self.attention_dropout and train:
            seen = attention(query, key, value, self.context, self.dropped)
        elif jax.default_backend() == "cpu":
            seen = attention(query, key, value, self.context)
        else:
            seen = fused_attention(query, key, value, self.context)
        joined = seen.swapaxes(-2, -3).reshape(x.shape)
        x = x + self.drop(self.mix(joined), deterministic=not train)
        return x + self.drop(self.thought(x), deterministic=not train)

    def step(self, x: Array, length: Array, ring: Ring) -> tuple[Array, Ring]:
        """One timestep [sequences, width], attending to those in the ring as well."""
        query, key, value = self.projected(x[:, None], length[:, None])
        ring = Ring(put(ring.keys, key, length), put(ring.values, value, length))
        age = (length[:, None] - jnp.arange(self.context)) % self.context
        scores = jnp.einsum("nhw,nhpw->nhp", query[:, :, 0], ring.keys)
        scores = jnp.where((age <= length[:, None])[:, None], scores, NOT_SEEN)
        seen = jnp.einsum("nhp,nhpw->nhw", jax.nn.softmax(scores), ring.values)
        x = x + self.mix(seen.reshape(x.shape).astype(self.dtype))
        return x + self.thought(x), ring

    def projected(self, x: Array, place: Array) -> tuple[Array, Array, Array]:
        """Queries (scaled), keys and values [sequences, heads, T, width of a head]."""
        width = self.width // self.heads
        parts = self.project(self.norm_in(x)).reshape(*x.shape[:-1], 3, self.heads, width)
        query, key, value = jnp.moveaxis(parts, (-3, -2), (0, -3)).astype(jnp.float32)
        if self.rotary:
            place = jnp.broadcast_to(place, x.shape[:-1])[:, None]
            query, key = turned(query, place), turned(key, place)
        return query * width**-0.5, key, value

    def thought(self, x: Array) -> Array:
        """What the fully connected network adds."""
        return self.narrow(nn.gelu(self.widen(self.norm_out(x))))

    def dropped(self, weights: Array) -> Array:
        """Attention without some of what it sees, in training."""
        return self.drop_weights(weights, deterministic=False)


def turned(x: Array, place: Array) -> Array:
    """Rotary positions: pairs of entries [..., T, width] turned by angles of `place` [..., T]."""
    half = x.shape[-1] // 2
    angle = place[..., None] * SLOWEST_TURN ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    one, two = x[..., :half], x[..., half:]
    return jnp.concatenate([one * cos - two * sin, one * sin + two * cos], axis=-1)


def attention(query: Array, key: Array, value: Array, reach: int, dropped: Any = None) -> Array:
    """What each timestep sees of itself and the `reach` - 1 before it: [..., T, width].

    In blocks of queries, each with only the keys that it can reach.
    """
    steps, parts = query.shape[-2], []
    for start in range(0, steps, BLOCK):
        stop, first = min(start + BLOCK, steps), max(0, start - reach + 1)
        back = jnp.arange(start, stop)[:, None] - jnp.arange(first, stop)
        scores = query[..., start:stop, :] @ key[..., first:stop, :].swapaxes(-1, -2)
        weights = jax.nn.softmax(jnp.where((back >= 0) & (back < reach), scores, NOT_SEEN))
        weights = weights if dropped is None else dropped(weights)
        parts.append(weights @ value[..., first:stop, :])
    return jnp.concatenate(parts, axis=-2)


def fused_attention(query: Array, key: Array, value: Array, reach: int) -> Array:
    """The same by the accelerator's kernel."""
    by_time = [x.swapaxes(-2, -3) for x in (query, key, value)]
    seen = jax.nn.dot_product_attention(
        *by_time, scale=1.0, is_causal=True, local_window_size=(reach - 1, 0)
    )
    return seen.swapaxes(-2, -3)


@jax.custom_batching.custom_vmap
def put(ring: Array, new: Array, length: Array) -> Array:
    """The ring with a timestep [sequences, heads, 1, width] in the place of the oldest.

    On a CPU one sequence after another: a scatter takes twice as long.
    """
    places = length % ring.shape[-2]
    if jax.default_backend() != "cpu":
        return ring.at[jnp.arange(len(ring)), :, places].set(new[:, :, 0])

    def one(row: Array, ring: Array) -> Array:
        mine = jax.lax.dynamic_slice_in_dim(new, row, 1)
        return jax.lax.dynamic_update_slice(ring, mine, (row, 0, places[row], 0))

    changed: Array = jax.lax.fori_loop(0, len(ring), one, ring)
    return changed


@put.def_vmap
def _put_batched(
    size: int, batched: list[bool], ring: Array, new: Array, length: Array
) -> tuple[Array, bool]:
    """More sequences: a loop over batched ones would be a scatter again."""
    whole = [
        x if is_batched else jnp.broadcast_to(x, (size, *x.shape))
        for x, is_batched in zip((ring, new, length), batched, strict=True)
    ]
    flat = [x.reshape(-1, *x.shape[2:]) for x in whole]
    return put(*flat).reshape(whole[0].shape), True

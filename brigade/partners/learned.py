"""Partners that were learned: a small network, and a file that holds a population of them."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict

from brigade.core import Array, Key, View
from brigade.errors import UserError
from brigade.nets.distributions import Categorical
from brigade.nets.encoders import MLP

FORMAT = 1
BROKEN = (zipfile.BadZipFile, zlib.error)
ACTOR_GAIN = 0.01


class Actor(nn.Module):
    """From an observation to logits."""

    num_actions: int
    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, obs: Array) -> Array:
        """[samples, *observation] -> [samples, num_actions]."""
        x = MLP(self.hidden)(obs, jnp.int32(0), (len(obs),))
        gain = nn.initializers.orthogonal(ACTOR_GAIN)
        logits: Array = nn.Dense(self.num_actions, kernel_init=gain)(x)
        return logits


@dataclass(frozen=True)
class Learned:
    """Draws from what its network says of the observation; no memory."""

    network: Actor
    obs_shape: tuple[int, ...]

    def init(self, key: Key) -> Any:
        """Fresh parameters."""
        return self.network.init(key, jnp.zeros((1, *self.obs_shape), jnp.uint8))["params"]

    def initial_carry(self, batch: tuple[int, ...]) -> tuple[()]:
        """No memory."""
        return ()

    def act(
        self, params: Any, carry: tuple[()], view: View, key: Key, greedy: bool = False
    ) -> tuple[Array, tuple[()], dict[str, Array]]:
        """One action per seat."""
        batch = view.active.shape
        logits = self.network.apply({"params": params}, view.obs.reshape(-1, *self.obs_shape))
        answer = Categorical.mask(jnp.asarray(logits).reshape(*batch, -1), view.avail)
        choice = Categorical.best(answer) if greedy else Categorical.sample(key, answer)
        return choice, carry, {}


@dataclass(frozen=True, eq=False)
class Population:
    """Learned partners of one kitchen: parameters with leaves [members, ...], and their story."""

    policy: Learned
    params: Any
    story: Mapping[str, Any]  # plain values: where they come from and how they do

    @property
    def size(self) -> int:
        """How many they are."""
        return int(jax.tree.leaves(self.params)[0].shape[0])

    def as_bytes(self) -> bytes:
        """A file of plain arrays and a text; anybody may read it without fear."""
        about = {
            "format": FORMAT,
            "num_actions": self.policy.network.num_actions,
            "hidden": list(self.policy.network.hidden),
            "obs_shape": list(self.policy.obs_shape),
            "story": dict(self.story),
        }
        arrays: dict[str, Any] = {
            name: np.asarray(leaf) for name, leaf in flatten_dict(self.params, sep="/").items()
        }
        data = io.BytesIO()
        np.savez_compressed(data, about=np.array(json.dumps(about)), **arrays)
        return data.getvalue()

    @classmethod
    def load(cls, path: Path) -> Population:
        """Read what `as_bytes` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json.loads(str(arrays.pop("about")))
            number = about["format"]
        except OSError as error:
            raise UserError(f"cannot read the partners {path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, EOFError, *BROKEN) as error:
            raise UserError(
                f"{path} is no file of partners; make one with 'brigade partners --out FILE'"
            ) from error
        if number != FORMAT:
            raise UserError(f"{path} has format {number}; this Brigade reads {FORMAT}")
        try:
            network = Actor(int(about["num_actions"]), tuple(map(int, about["hidden"])))
            policy = Learned(network, tuple(map(int, about["obs_shape"])))
            wanted = flatten_dict(jax.eval_shape(policy.init, jax.random.key(0)), sep="/")
            members = len(next(iter(arrays.values())))
            shapes = {name: (members, *leaf.shape) for name, leaf in wanted.items()}
            fits = members > 0 and {name: x.shape for name, x in arrays.items()} == shapes
            sound = fits and all(np.isfinite(x).all() for x in arrays.values())
            story = dict(about["story"])
        except (ValueError, KeyError, TypeError, ZeroDivisionError, StopIteration) as error:
            raise UserError(f"{path} is damaged: {' '.join(str(error).split())[:80]}") from error
        if not sound:
            raise UserError(f"{path} is damaged: its arrays do not fit the network it names")
        params = {name: jnp.asarray(array, jnp.float32) for name, array in arrays.items()}
        return cls(policy, unflatten_dict(params, sep="/"), story)

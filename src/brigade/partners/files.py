"""Policy files: trained policies of one architecture, for any seat of their environment.

A file `name.safetensors` holds stacked parameters and metadata: the registered policy and its
settings, the interface of the environment, and a name and the provenance of every member. Reading a
file executes no code.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import load, save

from brigade import registry
from brigade.core import Cast, Environment, Group, Policy
from brigade.core.trees import pick
from brigade.errors import UserError
from brigade.partners.metadata import check_size, described
from brigade.reading import DamagedError, entry, parse_json, read_bytes

FORMAT = 1
SUFFIX = ".safetensors"
REMEDY = "make one with 'brigade export RUN --out FILE'"
MAX_NAME_LENGTH = 100  # characters
MAX_METADATA = 16_000_000  # bytes


@dataclass(frozen=True, eq=False)
class Policies:
    """Policies of one architecture: parameters with leaves [members, ...]."""

    policy: Policy
    params: Any
    game: Mapping[str, Any]  # the `interface` of the environment they were trained in
    members: Sequence[Mapping[str, Any]]  # plain values: a `name`, and its provenance
    origin: Mapping[str, Any] = field(default_factory=dict)  # plain values: benchmark, settings

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(str(member["name"]) for member in self.members)

    def only(self, names: Sequence[str]) -> Policies:
        """Some of the members, in this order."""
        indices = []
        for name in names:
            if name not in self.names:
                raise UserError(registry.unknown_name("member", name, self.names))
            indices.append(self.names.index(name))
        params = pick(self.params, np.array(indices))
        members = [self.members[index] for index in indices]
        return Policies(self.policy, params, self.game, members, self.origin)

    def cast(self, greedy: bool = False) -> Cast:
        """All members as partners."""
        group = Group(self.policy, len(self.members), greedy)
        return Cast((group,), (self.params,), self.names)

    def as_bytes(self, half: bool = False) -> bytes:
        """The content of a policy file, in half precision if asked for."""
        metadata = {
            "format": FORMAT,
            "policy": self.policy.kind,
            "settings": self.policy.settings(),
            "game": dict(self.game),
            "members": [dict(member) for member in self.members],
            "origin": dict(self.origin),
        }
        arrays = {
            name: np.ascontiguousarray(leaf, np.float16 if half else None)
            for name, leaf in flatten_dict(self.params, sep="/").items()
        }
        return save(arrays, metadata={"brigade": json.dumps(metadata)})


def interface(env: Environment) -> dict[str, Any]:
    """What a policy depends on in an environment: seats, observations and actions."""
    view = {"view": env.partial_view} if env.partial_view else {}
    variant = {"variant": env.variant_settings} if env.variant_settings else {}
    return {
        "name": type(env).__name__,
        "seats": env.num_agents,
        "observation": list(env.obs_shape),
        "actions": env.num_actions,
        "continuous": bool(env.continuous),
        **view,
        **variant,
    }


@functools.lru_cache(maxsize=64)  # a pool has many files and few architectures
def shapes_of(policy: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of a policy's parameters."""
    wanted = flatten_dict(jax.eval_shape(policy.init, jax.random.key(0)), sep="/")
    return {name: tuple(leaf.shape) for name, leaf in wanted.items()}


def load_policies(path: str | Path) -> Policies:
    """Read a policy file; an invalid one is a one-line error."""
    metadata, arrays = _read(Path(path))
    if metadata["format"] != FORMAT:
        raise UserError(f"{path} has format {metadata['format']}; this Brigade reads {FORMAT}")
    try:
        members, game, origin = described(metadata)
        check_size(metadata["settings"], arrays)
        policy: Any = _policy(str(metadata["policy"]), metadata["settings"])
        shapes = {name: (len(members), *shape) for name, shape in shapes_of(policy).items()}
        names = [str(member["name"]) for member in members]
        check_settings(metadata["settings"], game)
    except DamagedError as error:
        raise UserError(f"{path} is damaged: {error}") from error
    except UserError:
        raise
    except Exception as error:  # a network can raise anything for invalid settings
        raise UserError(f"{path} is damaged: {_one_line(error)}") from error
    if not members or len(set(names)) < len(names) or not all(map(_is_plain, names)):
        raise UserError(f"{path} is damaged: its members need unique, printable names")
    for name in sorted(shapes.keys() | arrays.keys()):
        found = arrays[name].shape if name in arrays else "missing"
        if found != shapes.get(name):
            raise UserError(
                f"{path} is damaged: {name} is {found}, but its policy expects "
                f"{shapes.get(name, 'no such array')}"
            )
        with np.errstate(over="ignore"):
            arrays[name] = arrays[name].astype(np.float32)
        if not np.isfinite(arrays[name]).all():
            raise UserError(f"{path} is damaged: {name} has values that are not finite")
    params = {name: jnp.asarray(array) for name, array in arrays.items()}
    return Policies(policy, unflatten_dict(params, sep="/"), game, members, origin)


def named_policies(word: str) -> Policies | None:
    """The policies of FILE, or that of FILE:NAME; None if the word names no policy file."""
    file, name = registry.file_and_name(word, SUFFIX)
    if not file:
        return None
    policies = load_policies(file)
    return policies if name is None else policies.only([name])


def check_settings(settings: Mapping[str, Any], game: Mapping[str, Any]) -> None:
    """Check that the policy matches the environment that the file names."""
    network = settings["network"]
    continuous = network.get("continuous", False)
    made_for = (network["num_actions"], list(settings["obs_shape"]), continuous)
    if made_for != (game["actions"], game["observation"], game["continuous"]):
        raise ValueError("its policy does not match the environment it names")


def _is_plain(name: str) -> bool:
    """Whether a name is printable and not too long."""
    return name.isprintable() and 0 < len(name) <= MAX_NAME_LENGTH


def check_fits(policies: Policies, env: Environment, file: str) -> None:
    """Reject policies trained with other observations, actions or numbers of seats."""
    here, there = interface(env), policies.game
    for name in [*here, *(there.keys() - here.keys())]:
        if there.get(name) != here.get(name):
            was, is_here = (game.get(name, "full") for game in (there, here))
            raise UserError(
                f"{file} was trained for an environment with {name} {was}; here it is {is_here}"
            )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The metadata and the arrays of a file."""
    try:
        content = read_bytes(path, follow=True)
    except FileNotFoundError as error:
        raise UserError(f"there is no policy file {path}; {REMEDY}") from error
    except UserError as error:
        raise UserError(f"cannot read the policy file {path}: {_one_line(error)}") from error
    try:
        metadata = parse_json(_header(content)["__metadata__"]["brigade"], "its metadata")
        entry(metadata, "format", int, "its metadata")
        arrays = load(content)  # checks that every array is as long as its shape says
    except Exception as error:  # reading untrusted bytes can raise anything
        reason = _one_line(error) if path.suffix == SUFFIX else f"its name should end in {SUFFIX}"
        raise UserError(f"{path} is not a policy file ({reason}); {REMEDY}") from error
    return metadata, arrays


def _header(content: bytes) -> Any:
    """What a file says about itself: its length in 8 bytes, then JSON."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(MAX_METADATA, len(content) - 8):
        raise ValueError("its header is not as long as it says")
    return parse_json(content[8 : 8 + length], "its header")


def _policy(kind: str, settings: Any) -> Policy:
    """A policy by its registered name only: a file must not name code."""
    if kind not in registry.names("policies"):
        raise UserError(registry.unknown_name("policy", kind, registry.names("policies")))
    policy: Policy = registry.get("policies", kind)(settings)
    return policy


def _one_line(error: Exception) -> str:
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    return " ".join(text.split())[:100] or type(error).__name__


__all__ = ["Policies", "check_fits", "interface", "load_policies"]

"""Who is met, from the words of a command line: names, policy files, code of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from brigade import registry
from brigade.core import Cast, Environment, Group
from brigade.errors import UserError
from brigade.partners.files import SUFFIX, Policies, check_fits, load_policies

Reader = Callable[[str], Policies]


def cast_of(
    words: Sequence[str], env: Environment, greedy: bool = False, read: Reader = load_policies
) -> Cast:
    """A cast of partners: registered names, `file.py:Name`, and policy files.

    `FILE:NAME` is one member of a file. Partners of one architecture become one group. `read`
    turns the name of a file into its policies.
    """
    parts = [(word, partner_of(word, env, greedy, read)) for word in words]
    names = [name for _, part in parts for name in part.names]
    everybody = Cast()
    for word, part in parts:
        if any(names.count(name) > 1 for name in part.names):  # files may use the same names
            stem = Path(word.partition(SUFFIX)[0]).name
            part = replace(part, names=tuple(f"{stem}/{name}" for name in part.names))
        everybody += part
    return merged(everybody)


def partner_of(word: str, env: Environment, greedy: bool, read: Reader) -> Cast:
    """What one word stands for."""
    file, _, member = word.rpartition(":") if f"{SUFFIX}:" in word else (word, "", "")
    if file.endswith(SUFFIX):
        policies = read(file)
        check_fits(policies, env, file)
        return (policies.only([member]) if member else policies).cast(greedy)
    kind = registry.get("partners", word)
    try:
        partner = kind.for_game(env) if hasattr(kind, "for_game") else kind()
        policy, params = member_of(partner)
        name = Path(word.rpartition(":")[2]).name
        return Cast((Group(policy, 1, greedy),), (stacked([params]),), (name,))
    except ValueError as error:
        raise UserError(f"partner {word}: {error}") from error


def member_of(partner: Any) -> tuple[Any, Any]:
    """A partner's policy and parameters; some share a program with others."""
    if hasattr(partner, "member"):
        policy, params = partner.member()
        return policy, params
    return partner, partner.init(jax.random.key(0))


def merged(cast: Cast) -> Cast:
    """The same people, those of one architecture in one group; their numbers may change."""
    kinds: dict[tuple[Any, bool], list[tuple[Any, tuple[str, ...]]]] = {}
    first = 0
    for group, params in zip(cast.groups, cast.params, strict=True):
        part = (params, cast.names[first : first + group.size])
        kinds.setdefault((group.policy, group.greedy), []).append(part)
        first += group.size
    groups, everything, names = [], [], list[str]()
    for (policy, greedy), parts in kinds.items():
        called = [name for _, part in parts for name in part]
        groups.append(Group(policy, len(called), greedy))
        everything.append(
            jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *[params for params, _ in parts])
        )
        names += called
    return Cast(tuple(groups), tuple(everything), tuple(names))


def stacked(params: Sequence[Any]) -> Any:
    """Leaves [members, ...]."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)

"""The cast of partners from the words of a command line: names, policy files, user code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from brigade import registry
from brigade.core import Cast, Environment, Group, Policy
from brigade.core.trees import stack
from brigade.errors import UserError
from brigade.partners.files import Policies, check_fits, named_policies
from brigade.partners.host import host_policy


def cast_of(
    words: Sequence[str],
    env: Environment,
    greedy: bool = False,
    loaded: Mapping[str, Policies] | None = None,
) -> Cast:
    """A cast of partners from registered names, `file.py:Name` and policy files.

    `FILE:NAME` is one member of a policy file. Partners of the same architecture form one group.
    `loaded` has policies that were read already, by their words.
    """
    parts = [partner_of(word, env, greedy, (loaded or {}).get(word)) for word in words]
    names = [name for part, _ in parts for name in part.names]
    taken, cast = set[str](), Cast()
    for part, run in parts:
        unique = []
        for name in part.names:
            # Files may use the same names. The prefix comes from the metadata, not from the path,
            # because run folders hold copies under other names.
            if names.count(name) > 1 and run:
                name = f"{run}/{name}"
            same = [f"{name} ({number})" for number in range(2, len(names) + 1)]
            name = next(each for each in (name, *same) if each not in taken)
            taken.add(name)
            unique.append(name)
        cast += replace(part, names=tuple(unique))
    return merged(cast)


def partner_of(
    word: str, env: Environment, greedy: bool, loaded: Policies | None = None
) -> tuple[Cast, str]:
    """The partners that a word names, and the run they come from; empty if none."""
    policies = loaded or named_policies(word)
    if policies:
        check_fits(policies, env, word)
        return policies.cast(greedy), str(policies.origin.get("run", ""))
    if Path(word).is_dir():
        raise UserError(
            f"{word} is a folder; export its policies with 'brigade export {word} --out FILE'"
        )
    kind, which = kind_and_name(word)
    try:
        is_policy = isinstance(kind, type) and issubclass(kind, Policy)
        partner = kind.for_game(env) if is_policy else host_policy(word, kind, env)
        partner = partner.named(which) if which else partner
        policy, params = partner.member()
        hash(policy)  # it is a static argument of compiled programs
        name = registry.file_and_name(word, registry.CODE)[1] or Path(word).name
        return Cast((Group(policy, 1, greedy),), (stack([params]),), (name,)), ""
    except UserError:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"partner {word}: {error}") from error


def kind_and_name(word: str) -> tuple[Any, str]:
    """What a word names, and the part after a registered name: WHICH of NAME:WHICH."""
    name, _, which = word.partition(":")
    if registry.file_and_name(word, registry.CODE)[0] or name not in registry.names("partners"):
        return registry.get("partners", word), ""
    return registry.get("partners", name), which


def merged(cast: Cast) -> Cast:
    """The same partners with one group per architecture; their indices may change."""
    kinds: dict[tuple[Any, bool], list[tuple[Any, tuple[str, ...]]]] = {}
    first = 0
    for group, params in zip(cast.groups, cast.params, strict=True):
        part = (params, cast.names[first : first + group.size])
        kinds.setdefault((group.policy, group.greedy), []).append(part)
        first += group.size
    groups, everything, names = [], [], list[str]()
    for (policy, greedy), parts in kinds.items():
        members = [name for _, part in parts for name in part]
        groups.append(Group(policy, len(members), greedy))
        everything.append(
            jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *[params for params, _ in parts])
        )
        names += members
    return Cast(tuple(groups), tuple(everything), tuple(names))

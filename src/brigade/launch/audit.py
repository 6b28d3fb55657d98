"""Leakage: an evaluation partner must not have been met in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade.core import Environment
from brigade.errors import UserError
from brigade.partners.files import Policies, load_policies
from brigade.partners.scripted import Random
from brigade.runs.export import provenance
from brigade.runs.folder import digest
from brigade.train.play import Games, play_step, start_games
from brigade.train.players import Players, Seated

PROBE_GAMES, PROBE_STEPS = 16, 64
SAME_ACTIONS = 0.999  # share of probe states on which policies that are equal agree


def refuse_leakage(env: Environment, task: Any, evaluation: Path, training: Sequence[Path]) -> None:
    """Refuse evaluation partners that are in a training population.

    They are found by the file, by run, seed and name, and by their actions on states of random
    play: a copy under another name acts the same.
    """
    partners = load_policies(evaluation)
    probes = probe_views(env, task)
    acts = greedy_actions(partners, probes)
    for path in training:
        if digest(path) == digest(evaluation):
            raise UserError(f"{path} is the file of evaluation partners; train with others")
        population = load_policies(path)
        for name, twin in known_twins(partners, population):
            raise UserError(
                f"the evaluation partner {name} is in the training population {path} as {twin}; "
                "train with other partners"
            )
        for name, twin in acting_twins(partners, acts, population, probes):
            raise UserError(
                f"the evaluation partner {name} acts like {twin} of the training population "
                f"{path}; train with other partners"
            )


def known_twins(partners: Policies, population: Policies) -> list[tuple[str, str]]:
    """Members of both with the same run, seed and name, at whatever stage of training."""
    found = {identity(provenance(member)): str(member["name"]) for member in population.members}
    return [
        (str(member["name"]), found[identity(provenance(member))])
        for member in partners.members
        if identity(provenance(member)) in found and member.get("run") is not None
    ]


def refuse_trained_with(evaluation: Path, policy: Path) -> None:
    """Refuse a policy that was trained with an evaluation partner, as its file tells."""
    partners, ego = load_policies(evaluation), load_policies(policy)
    met = {identity(each) for each in ego.origin.get("trained_with", [])}
    for member in ego.members:  # a best response was trained with the policy of its pair
        own = provenance(member)
        if "pair" in member:
            met.add(identity(own | {"name": f"biased-{member['pair']}"}))
    for member in partners.members:
        if identity(provenance(member)) in met:
            raise UserError(
                f"{policy} was trained with {member['name']}, one of the evaluation partners; "
                "measure a policy that never met them"
            )


def identity(origin: Mapping[str, Any]) -> tuple[Any, ...]:
    """A policy's run, seed and name, to compare."""
    return origin.get("run"), origin.get("seed"), origin.get("name")


def acting_twins(
    partners: Policies, acts: np.ndarray, population: Policies, probes: Any
) -> list[tuple[str, str]]:
    """Members of both that take the same greedy actions on all probe states."""
    theirs = greedy_actions(population, probes)
    same = (acts[:, None] == theirs[None]).mean(-1)  # [partner, member]
    pairs = np.argwhere(same >= SAME_ACTIONS)
    return [(partners.names[one], population.names[other]) for one, other in pairs]


def probe_views(env: Environment, task: Any) -> Any:
    """What seats see in random play: leaves [states, ...]."""

    players = Players(Random())

    @jax.jit
    def play(key: Any) -> Any:
        games = start_games(env, players, key, task, PROBE_GAMES)

        def step(games: Games, key: Any) -> Any:
            now, later = jax.random.split(key)
            after = play_step(env, players, Seated((), ()), games, (now, later), task).after
            return after, games.step.view.replace(state=None)

        return jax.lax.scan(step, games, jax.random.split(key, PROBE_STEPS))[1]

    views = play(jax.random.key(0))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), views)


def greedy_actions(policies: Policies, probes: Any) -> np.ndarray:
    """[members, states]; recurrent policies act on every state as on a first one."""
    views = probes.replace(first=jnp.ones_like(probes.first))
    carry = policies.policy.initial_carry(views.active.shape)

    def act(params: Any) -> Any:
        return policies.policy.act(params, carry, views, jax.random.key(0), True)[0]

    return np.asarray(jax.jit(lambda params: jax.lax.map(act, params))(policies.params))

"""The policies of a run as a policy file: what they act with, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from brigade import __version__
from brigade.errors import UserError
from brigade.metrics.record import axes_name
from brigade.nets import ActorCriticPolicy
from brigade.nets.policy import actor_of
from brigade.partners.files import Policies, interface
from brigade.runs.run import LoadedRun


def policies_of(run: LoadedRun, task: int | None = None, helpers: bool = False) -> Policies:
    """A run's policies as they act on a task (from 0; the one learned last if left out).

    Of a population, `helpers` are exported, too: policies that were trained only for others.
    """
    names, experiment = run.parts.sequences[0].names, run.experiment
    task = run.last_task if task is None else task
    if not 0 <= task < len(names):
        raise UserError(f"the run has {len(names)} tasks; there is no task {task + 1}")
    policy = run.parts.trainer.source.players.learner  # type: ignore[attr-defined]
    if not isinstance(policy, ActorCriticPolicy):
        raise UserError(
            f"{experiment.config.method} acts with a policy of its own, which no file can hold"
        )
    task_id = int(run.parts.sequences[0].tasks.id[task])
    acting = [run.acting_params(place, task) for place in range(len(run.parts.seeds))]
    members = [
        (member, params)
        for place, seed in enumerate(run.parts.seeds)
        for member, params in members_of_seed(run, place, seed, acting[place], task, helpers)
    ]
    actors = [actor_of(policy, params, task_id) for _, params in members]
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[params for _, params in actors])
    settings = experiment.as_dict()
    origin: dict[str, Any] = {
        "brigade": __version__,
        "run": run.path.name,
        "task": names[task],
        "task_number": task + 1,
        **{
            name: settings[name]
            for name in ("benchmark", "env", "method", "learner")
            if name in settings
        },
        **({"generator": experiment.config.generator} if experiment.generator else {}),
    }
    game = interface(run.parts.benchmark.env)
    return Policies(actors[0][0], params, game, [member for member, _ in members], origin)


def members_of_seed(
    run: LoadedRun, place: int, seed: int, params: Any, task: int, helpers: bool
) -> list[tuple[dict[str, Any], Any]]:
    """What is told of each policy of a seed, and its parameters."""
    generator, several = run.experiment.generator, len(run.parts.seeds) > 1
    score = score_by_table(run, task)[:, place]
    about = {"run": run.path.name, "seed": seed, "steps": int(run.returns["steps"][-1])}
    if generator is None:
        name = f"{run.path.name}-seed{seed}" if several else run.path.name
        return [({"name": name, **about, "score": round(float(score.mean()), 4)}, params)]
    names: Sequence[str] = generator.names()[: None if helpers else generator.members]
    found = []
    for number, name in enumerate(names):
        member = {"name": f"{name}-seed{seed}" if several else name, **about}
        if number < generator.members:
            own = generator.own_tables(number)
            member["score"] = round(float(score[own].mean()), 4)
        found.append((member, jax.tree.map(lambda x, n=number: x[n], params)))
    return found


def score_by_table(run: LoadedRun, task: int) -> np.ndarray:
    """Final scores [partner, seed] of a task."""
    score, axes = run.returns["score"][-1], run.returns[axes_name("score")].tolist()[1:]
    score = np.moveaxis(
        score, [axes.index("task"), axes.index("partner"), axes.index("seed")], [0, 1, 2]
    )
    return np.asarray(score[task].reshape(*score.shape[1:3], -1).mean(-1))

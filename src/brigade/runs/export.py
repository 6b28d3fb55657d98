"""The policies of a run, which can act, and as a policy file: acting parameters and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from brigade import __version__
from brigade.core.trees import pick, stack
from brigade.errors import UserError
from brigade.metrics.record import axes_name
from brigade.partners.files import SUFFIX, Policies, interface, named_policies
from brigade.runs.assemble import Parts
from brigade.runs.config import Experiment
from brigade.runs.folder import write_atomically
from brigade.runs.kept_files import settings_hash
from brigade.runs.trained import TrainedPolicy, find_member, new_file
from brigade.train import Position
from brigade.train.evaluate import acting_params


@dataclass(frozen=True, repr=False)
class LoadedRun:
    """A run from disk, with policies that can act. `params` has leaves [seeds, ...]."""

    path: Path
    experiment: Experiment
    returns: dict[str, np.ndarray]
    parts: Parts
    params: Any
    method_state: Any
    last_task: int = 0  # the task trained last, from 0
    matches: Any = None  # the matchmaker's state, leaves [seeds, ...]

    def __repr__(self) -> str:
        return f"LoadedRun({str(self.path)!r}, policies: {', '.join(self.names)})"

    def cast(self, seed: int) -> Any:
        """The parameters of the partners of a seed, an index from 0."""
        params, matches = pick((self.params, self.matches), seed)
        matchmaker = self.parts.trainer.matchmaker
        return matchmaker.partners(matches, params, self.parts.lineup.cast)

    def acting_params(self, seed: int, task: int) -> Any:
        """The parameters that act on a task; both are indices from 0."""
        params, method_state = pick((self.params, self.method_state), seed)
        task_id, trainer = self.parts.sequences[seed].tasks.id[task], self.parts.trainer
        return acting_params(trainer.method, trainer.policies, method_state, params, task_id)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the policies, as in an exported file."""
        return tuple(str(member["name"]) for member, *_ in members_of_run(self, self.last_task))

    def policy(
        self, name: str | None = None, *, seed: int | None = None, task: int | None = None
    ) -> TrainedPolicy:
        """A policy by its name, or the first one of a seed; by default the first.

        It acts as on `task`, counted from 1 (default: the last one trained), and plays that task.
        """
        return acting_policy(self, name, seed, self.last_task if task is None else task - 1)

    def export(self, out: str | Path, *, task: int | None = None) -> Path:
        """Save the policies in a new file, as `brigade export` does; `task` counts from 1."""
        return save_policies(policies_of(self, None if task is None else task - 1), Path(out))


def as_loaded(path: Path, experiment: Experiment, parts: Parts, position: Position) -> LoadedRun:
    """A run in training, as if its policies of this moment were loaded from disk."""
    state, task = position.state, position.task % len(parts.sequences[0])
    returns = position.record.arrays()
    params = state.learner.params
    return LoadedRun(path, experiment, returns, parts, params, state.memory, task, state.matches)


def policies_of(run: LoadedRun, task: int | None = None, helpers: bool = False) -> Policies:
    """A run's policies for a task, counted from 0 (default: the last one trained).

    For a population, `helpers` includes policies that were trained only to help train others.
    """
    names, experiment = run.parts.sequences[0].names, run.experiment
    task = run.last_task if task is None else task
    check_task(run, task)
    policy = run.parts.learner.policy
    if not policy.kind:
        raise UserError(
            f"{experiment.config.learner} has its own kind of policy, which a file cannot hold"
        )
    task_id = int(run.parts.sequences[0].tasks.id[task])
    members = [(member, params) for member, params, _ in members_of_run(run, task, helpers)]
    actors = [policy.actor(params, task_id) for _, params in members]
    params = stack([params for _, params in actors])
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
        **started_as(settings["start_from"]),
        **({"trained_with": met} if (met := everyone_met(settings)) else {}),
    }
    game = interface(run.parts.benchmark.env)
    return Policies(actors[0][0], params, game, [member for member, _ in members], origin)


def check_task(run: LoadedRun, task: int) -> None:
    """Refuse a task that the run does not have; it counts from 0."""
    number = len(run.parts.sequences[0].names)
    if not 0 <= task < number:
        raise UserError(f"the run has {number} tasks; there is no task {task + 1}")


def members_of_run(
    run: LoadedRun, task: int, helpers: bool = False
) -> list[tuple[dict[str, Any], Any, int]]:
    """The metadata, the parameters and the index of the seed of each policy."""
    return [
        (member, params, index)
        for index, seed in enumerate(run.parts.seeds)
        for member, params in members_of_seed(
            run, index, seed, run.acting_params(index, task), task, helpers
        )
    ]


def acting_policy(run: LoadedRun, name: str | None, seed: int | None, task: int) -> TrainedPolicy:
    """A policy of a run that acts as on a task, counted from 0."""
    check_task(run, task)
    members = members_of_run(run, task)
    chosen = find_member([member for member, *_ in members], name, seed)
    member, params, index = members[chosen]
    task_id = int(run.parts.sequences[index].tasks.id[task])
    policy, params = run.parts.learner.policy.actor(params, task_id)
    env = run.parts.benchmark.env
    return TrainedPolicy(
        name=str(member["name"]),
        policy=policy,
        params=params,
        seats=env.num_agents,
        home=lambda: (env, run.parts.sequences[index][task]),
    )


def save_policies(policies: Policies, out: Path, half: bool = False) -> Path:
    """Write a new policy file."""
    new_file(out, SUFFIX)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, policies.as_bytes(half))
    return out


def config_hash(experiment: Experiment) -> str:
    """Tells runs with other settings apart, whatever their folders are called."""
    return settings_hash(experiment.as_dict(), 12)


def files_met(settings: Mapping[str, Any]) -> list[str]:
    """Partners of a run, of its benchmark, and the file its learner started from."""
    of_benchmark = settings.get("env", {}).get("partners", [])
    return [*settings["partners"], *of_benchmark, settings["start_from"]]


def started_as(word: str) -> dict[str, str]:
    """The name of the policy from which a run, or the first of several, began."""
    start = named_policies(word)
    if not start:
        return {}
    return {"started_as": start.origin.get("started_as") or provenance(start.members[-1])["name"]}


def everyone_met(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The members of policy files that a run has met, and those its start had met before."""
    start = named_policies(settings["start_from"])
    before = start.origin.get("trained_with", ()) if start else ()
    return [*before, *trained_with(files_met(settings))]


def trained_with(words: Sequence[str]) -> list[dict[str, Any]]:
    """The members of policy files among partners: what an evaluation must not use again."""
    found = []
    for word in words:
        policies = named_policies(word)
        found += [provenance(each) for each in (policies.members if policies else ())]
    return found


def provenance(member: Mapping[str, Any]) -> dict[str, Any]:
    """Where a policy comes from: its run, seed and name, without its stage."""
    name = str(member["name"]).removesuffix(f"-{member.get('stage')}")
    return {
        "run": member.get("config", member.get("run")),
        "seed": member.get("seed"),
        "name": name,
    }


def members_of_seed(
    run: LoadedRun, index: int, seed: int, params: Any, task: int, helpers: bool
) -> list[tuple[dict[str, Any], Any]]:
    """The metadata and parameters of each policy of a seed, the `index`-th of the run."""
    generator, several = run.experiment.generator, len(run.parts.seeds) > 1
    score, returns = (by_table(run, name, task)[:, index] for name in ("score", "returns"))
    metadata = {
        "run": run.path.name,
        "config": config_hash(run.experiment),
        "seed": seed,
        "steps": int(run.returns["steps"][-1]),
    }
    if generator is None or generator.policies == 1:
        name = f"{run.path.name}-seed{seed}" if several else run.path.name
        return [({"name": name, **metadata, **figures(score, returns)}, params)]
    names: Sequence[str] = generator.names()[: None if helpers else generator.members]
    found = []
    for number, name in enumerate(names):
        member = {"name": f"{name}-seed{seed}" if several else name, **metadata}
        member |= generator.about(number)
        if number < generator.members:
            own = generator.own_tables(number)
            member |= figures(score[own], returns[own])
        found.append((member, pick(params, number)))
    return found


def figures(score: np.ndarray, returns: np.ndarray) -> dict[str, float]:
    """What a policy scored at its last evaluation, for the metadata of a policy file."""
    return {"score": round(float(score.mean()), 4), "return": round(float(returns.mean()), 4)}


def by_table(run: LoadedRun, name: str, task: int) -> np.ndarray:
    """The scores or returns [partner, seed] of a task at the last evaluation."""
    values, axes = run.returns[name][-1], run.returns[axes_name(name)].tolist()[1:]
    values = np.moveaxis(
        values, [axes.index("task"), axes.index("partner"), axes.index("seed")], [0, 1, 2]
    )
    return np.asarray(values[task].reshape(*values.shape[1:3], -1).mean(-1))

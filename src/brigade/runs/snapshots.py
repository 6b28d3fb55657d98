"""Snapshots: policy files written during training, for partners of different skill.

They are in the run folder, `snapshots/STEPS.safetensors`, in half precision and without critics.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brigade.core.trees import pick, stack
from brigade.errors import UserError
from brigade.metrics.zsc_eval import half_skill_checkpoint
from brigade.partners.files import SUFFIX, Policies, load_policies
from brigade.runs.config import RunConfig
from brigade.runs.folder import write_atomically

FOLDER = "snapshots"
STAGES = ("init", "mid", "final")


def snapshot_numbers(config: RunConfig) -> set[int]:
    """The evaluations, counted from 0, after which a snapshot is saved: evenly spaced."""
    if not config.snapshots:
        return set()
    per_task = -(-config.updates_per_task // config.eval_every)
    last = per_task * config.total_tasks
    number = min(config.snapshots, last + 1)  # more would save the same evaluations again
    return {round(float(x)) for x in np.linspace(0, last, number)}


def save_snapshot(policies: Policies, run: Path, steps: int) -> None:
    """Write a snapshot, unless it is there from before a run was resumed."""
    path = run / FOLDER / f"{steps:015d}{SUFFIX}"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, policies.as_bytes(half=True))


def read_snapshots(run: Path) -> list[Policies]:
    """All snapshots of a run, the earliest first."""
    return [load_policies(path) for path in sorted((run / FOLDER).glob(f"*{SUFFIX}"))]


def at_stages(run: Path, final: Policies, stages: Sequence[str]) -> Policies:
    """The members of `final` at these stages of their training.

    `init` is the first snapshot, `mid` the one whose return is nearest to half of the final one.
    """
    if tuple(stages) == ("final",):
        return final
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown:
        raise UserError(f"there is no stage {unknown[0]!r}; use {', '.join(STAGES)}")
    earlier = read_snapshots(run)
    if not earlier:
        raise UserError(
            f"{run} has no snapshots of earlier stages; train it with --snapshots 10, or export "
            "only the stage final"
        )
    found: list[tuple[dict[str, Any], Any]] = []
    for index, member in enumerate(final.members):
        history = [at(policies, str(member["name"])) for policies in earlier]
        # The last snapshot is the final policy itself.
        history = [entry for entry in history if entry[0]["steps"] != member["steps"]]
        history.append((dict(member), pick(final.params, index)))
        for stage in stages:
            about, params = history[stage_index(history, stage)]
            name = str(member["name"]) if stage == "final" else f"{member['name']}-{stage}"
            found.append(({**about, "name": name, "stage": stage}, params))
    params = stack([params for _, params in found])
    return Policies(final.policy, params, final.game, [about for about, _ in found], final.origin)


def stage_index(history: Sequence[tuple[dict[str, Any], Any]], stage: str) -> int:
    """Which entry of a member's history is at a stage; the last one is the final policy.

    The untrained policy counts as half-skilled only if there is no other snapshot.
    """
    if stage != "mid":
        return 0 if stage == "init" else len(history) - 1
    first = 1 if len(history) > 2 else 0
    if len(history) == 1:
        return 0
    returns = [float(about["return"]) for about, _ in history[first:]]
    return first + half_skill_checkpoint(returns)


def at(policies: Policies, name: str) -> tuple[dict[str, Any], Any]:
    """The metadata and parameters of a member."""
    if name not in policies.names:
        raise UserError(f"a snapshot lacks {name}; it is of another run")
    index = policies.names.index(name)
    return dict(policies.members[index]), pick(policies.params, index)

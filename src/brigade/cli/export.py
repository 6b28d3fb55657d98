"""`brigade export`: save the policies of a run in one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from brigade.errors import UserError
from brigade.partners.files import SUFFIX, Policies
from brigade.runs.export import policies_of, save_policies
from brigade.runs.run import load
from brigade.runs.snapshots import at_stages
from brigade.runs.trained import new_file


def export(
    path: Path,
    out: Path,
    task: int | None,
    helpers: bool,
    trust: bool,
    stages: Sequence[str] = ("final",),
    half: bool = False,
) -> Policies:
    """Write a policy file; `task` counts from 1. `stages` are of the training of each policy."""
    new_file(out, SUFFIX)
    run = load(path, trust=trust)
    if helpers and run.experiment.generator is None:
        raise UserError(f"{path} is not a population and has no helpers; remove --helpers")
    policies = policies_of(run, None if task is None else task - 1, helpers)
    policies = at_stages(run.path, policies, stages)
    try:
        save_policies(policies, out, half)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}; choose another --out") from error
    return policies
